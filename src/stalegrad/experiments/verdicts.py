"""What the data say about a statement of the paper: it holds, it does not, or they cannot tell. Intervals decide."""

from dataclasses import asdict, dataclass
from typing import Any

HOLDS, DOES_NOT, CANNOT_TELL = "holds", "does not hold", "cannot be told"


@dataclass(frozen=True)
class Verdict:
    """A statement and what became of it.

    Args:
        statement: of the paper, or of its theory.
        outcome: ``"holds"``, ``"does not hold"`` or ``"cannot be told"``.
        evidence: the numbers that say so, with their intervals.
    """

    statement: str
    outcome: str
    evidence: str

    def plain(self) -> dict[str, Any]:
        """The same in plain types, as JSON has them."""
        return asdict(self)


def below(value: float, half_width: float, limit: float = 0.0) -> str:
    """Whether a number is below a limit, by its interval; without an interval nobody can tell.

    >>> below(-1.0, 0.5), below(-1.0, 2.0), below(1.0, 0.5), below(-1.0, float("nan"))
    ('holds', 'cannot be told', 'does not hold', 'cannot be told')
    """
    if value + half_width < limit:
        return HOLDS
    return DOES_NOT if value - half_width > limit else CANNOT_TELL


def within(low: float, high: float, least: float, most: float) -> str:
    """Whether a number lies between two limits, by its interval.

    >>> within(0.9, 1.1, 0.8, 1.25), within(0.7, 1.1, 0.8, 1.25), within(0.5, 0.7, 0.8, 1.25)
    ('holds', 'cannot be told', 'does not hold')
    """
    if least <= low and high <= most:
        return HOLDS
    return DOES_NOT if high < least or low > most else CANNOT_TELL


def all_of(outcomes: list[str]) -> str:
    """Of a statement that has parts: it holds if all do, and does not if one does not.

    >>> all_of(["holds", "cannot be told"]), all_of(["holds", "does not hold"]), all_of([])
    ('cannot be told', 'does not hold', 'cannot be told')
    """
    if DOES_NOT in outcomes:
        return DOES_NOT
    return HOLDS if outcomes and all(outcome == HOLDS for outcome in outcomes) else CANNOT_TELL
