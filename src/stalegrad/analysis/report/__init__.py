"""The report of a run: one HTML page that needs nothing but itself.

One file a section, put together by ``report.py`` from the figures of ``estimates``, ``diagnostics`` and ``plots``.
Text and markup only: a number that the page shows is computed elsewhere.
"""

from stalegrad.analysis.report.comparison import write_comparison
from stalegrad.analysis.report.report import write_report

__all__ = ["write_comparison", "write_report"]
