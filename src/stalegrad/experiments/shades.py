"""Colours for curves that have an order, such as numbers of workers."""

from typing import Any

import numpy as np


def shades(count: int) -> list[Any]:
    """From dark for the first to light for the last, without the lightest, which paper swallows."""
    import matplotlib

    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count)))
