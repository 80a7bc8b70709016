"""Tables of text: the terminal, the demonstration and reports show the same ones."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A table of strings; the first column is words, the others are numbers.

    Args:
        title: above it.
        columns: the headings.
        rows: the cells.
        emphasised: the number of the row that matters most, or None.
        note: below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    emphasised: int | None = None
    note: str = ""


def minus(text: str) -> str:
    """Hyphens in front of numbers as minus signs."""
    return text.replace("-", "−")


def rounded(value: float) -> str:
    """Three digits, without an exponent where one can do without.

    >>> [rounded(value) for value in (1.0, 0.01234, -217.86, 45678.0, 1.2e-9)]
    ['1.00', '0.0123', '-218', '45,678', '1.20e-09']
    """
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:#.3g}"
