"""Logarithmic axes that span less than two decades, where the usual labels are one or none."""

from typing import Any


def label_few(axis: Any) -> None:
    """Label 1, 2, 3 and 5 times powers of ten, and nothing between them.

    Args:
        axis: ``panel.xaxis`` or ``panel.yaxis``, logarithmic.
    """
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(10, 10)))
    axis.set_minor_formatter(NullFormatter())
