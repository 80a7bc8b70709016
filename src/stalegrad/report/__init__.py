"""The report of a run: one HTML page that needs nothing but itself."""

from stalegrad.report.report import write_report

__all__ = ["write_report"]
