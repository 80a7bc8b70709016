"""What a diagnosis says: the figure of every check, and a finding for each that is on the wrong side of its limit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from stalegrad._internal.numbers_file import without_nan
from stalegrad._internal.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

Severity = Literal["warning", "serious"]
"""``"warning"``: estimates are off by more than their standard errors say. ``"serious"``: do not use them."""


@dataclass(frozen=True)
class Measurement:
    """What one check measured, be it good or bad.

    Args:
        name: of the check.
        figure: the number that was compared with the limit.
        limit: where trouble begins.
        what: the figure in words.
    """

    name: str
    figure: float
    limit: float
    what: str


@dataclass(frozen=True)
class Finding:
    """A figure on the wrong side of its limit.

    Args:
        measurement: the figure, its limit, and both in words.
        severity: how bad it is.
        why: why it matters.
        remedy: what to set.
    """

    measurement: Measurement
    severity: Severity
    why: str
    remedy: str

    @property
    def name(self) -> str:
        """The name of the check that found it, such as “step size”."""
        return self.measurement.name

    @property
    def figure(self) -> float:
        """The number that was compared with the limit."""
        return self.measurement.figure

    @property
    def limit(self) -> float:
        """The value of the figure from which on it is a finding."""
        return self.measurement.limit

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; None stands for an infinite figure."""
        return {
            **without_nan(asdict(self.measurement)),
            "severity": self.severity,
            "why": self.why,
            "remedy": self.remedy,
        }

    def __str__(self) -> str:
        return f"{self.severity}: {self.name}: {self.measurement.what}. {self.why} {self.remedy}"


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """The findings of a diagnosis, a sequence that is empty where all is well.

    Args:
        findings: what is wrong, the worst first.
        measurements: what every check measured, also those that are in order.
        skipped: checks that could not be made, with the reason.

    >>> measured = Measurement("dropped gradients", 0.4, 0.1, "40% of the gradients were dropped")
    >>> found = Findings((Finding(measured, "warning", "Their work is lost.", "Set max_staleness=8."),), (measured,))
    >>> print(found)
    warning: dropped gradients: 40% of the gradients were dropped. Their work is lost. Set max_staleness=8.
    >>> found.ok, len(found), found[0].figure
    (False, 1, 0.4)
    >>> print(Findings((), (measured,), {"gradient noise": "needs the potential"}))
    no findings in 1 check (1 not made)
    """

    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no check that was made found anything."""
        return not self.findings

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the checks that found something."""
        return tuple(finding.name for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """All findings, measurements and skipped checks in types that JSON has; NaN and infinity become None."""
        return {
            "ok": self.ok,
            "findings": [finding.as_dict() for finding in self.findings],
            "measurements": [without_nan(asdict(measurement)) for measurement in self.measurements],
            "skipped": dict(self.skipped),
        }

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) if self.findings else self._all_is_well()

    def __rich__(self) -> "RenderableType":
        """A table of all figures, and below it what to do about those that are wrong."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        wrong = {finding.name: finding for finding in self.findings}
        table = Table(box=None, pad_edge=False)
        for heading, justify in (("check", "left"), ("figure", "right"), ("limit", "right"), ("", "left")):
            table.add_column(heading, justify="right" if justify == "right" else "left")
        for measured in self.measurements:
            finding = wrong.get(measured.name)
            style = {None: "green", "warning": "yellow", "serious": "red"}[finding.severity if finding else None]
            verdict = Text(finding.severity if finding else "ok", style)
            table.add_row(measured.name, f"{measured.figure:.3g}", f"{measured.limit:.3g}", verdict)
        for name, reason in self.skipped.items():
            table.add_row(name, "", "", Text(printable(f"not checked: {reason}"), "dim"))
        return Group(table, *(Text(printable(f"\n{finding}")) for finding in self.findings))

    def _all_is_well(self) -> str:
        made, left = len(self.measurements), len(self.skipped)
        return f"no findings in {made} check{'s' * (made != 1)}" + (f" ({left} not made)" if left else "")
