"""What a diagnosis says: the figure of every check, a finding for each that is on the wrong side of its limit, and one
recommendation for all of them together.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from stalegrad._internal.look.card import Card, Kind
from stalegrad._internal.numbers_file import without_nan
from stalegrad._internal.text import printable
from stalegrad.analysis.diagnostics.recommendation import NOTHING, Advice, Recommendation

if TYPE_CHECKING:
    from rich.console import RenderableType

Severity = Literal["warning", "serious"]
"""``"warning"``: estimates are off by more than their standard errors say. ``"serious"``: do not use them."""

_COLUMNS = 80


@dataclass(frozen=True)
class Measurement:
    """What one check measured, be it good or bad.

    Args:
        name: of the check.
        figure: the number that was compared with the limit.
        limit: where trouble begins.
        what: the figure in words.

    >>> measured = Measurement("agreement", figure=1.4, limit=1.05, what="R-hat is 1.4")
    >>> measured.figure > measured.limit
    True
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
        remedy: what helps, in words. The numbers to set are in the recommendation, which is one for all findings.
        advice: what it asks of the next run.

    >>> measured = Measurement("agreement", figure=1.4, limit=1.05, what="R-hat is 1.4")
    >>> finding = Finding(measured, "serious", why="the chains tell different stories", remedy="Run longer.")
    >>> finding.severity, finding.measurement.name
    ('serious', 'agreement')
    """

    measurement: Measurement
    severity: Severity
    why: str
    remedy: str
    advice: Advice = NOTHING

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
        text = f"{self.severity}: {self.name}: {self.measurement.what}. {self.why} {self.remedy}"
        return _wrapped(text)


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """The findings of a diagnosis, a sequence that is empty where all is well.

    Args:
        findings: what is wrong, the worst first.
        measurements: what every check measured, also those that are in order.
        skipped: checks that could not be made, with the reason.
        recommendation: what to do about all findings together; None where there is nothing to do.

    >>> measured = Measurement("dropped gradients", 0.4, 0.1, "40% of the gradients were dropped")
    >>> found = Findings((Finding(measured, "warning", "Their work is lost.", "A looser bound helps."),), (measured,))
    >>> print(found)
    warning: dropped gradients: 40% of the gradients were dropped. Their work is
      lost. A looser bound helps.
    >>> found.ok, len(found), found[0].figure
    (False, 1, 0.4)
    >>> print(Findings((), (measured,), {"gradient noise": "needs the model: give potential="}))
    no findings in 1 check
    not checked: gradient noise (needs the model: give potential=)
    """

    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    recommendation: Recommendation | None = None

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
            "recommendation": None if self.recommendation is None else self.recommendation.as_dict(),
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
        lines = [str(finding) for finding in self.findings] or [self._all_is_well()]
        if self.skipped:
            lines.append(_wrapped(f"not checked: {self.unchecked()}"))
        if self.recommendation is not None:
            lines.append(f"\n{self.recommendation}")
        return "\n".join(lines)

    def unchecked(self) -> str:
        """Which checks were not made and why, one reason after the other."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            by_reason.setdefault(reason, []).append(name)
        return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())

    def __rich__(self) -> "RenderableType":
        """A table of all figures, below it what is wrong, and last what to do."""
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
        below = [*self.findings, *([] if self.recommendation is None else [self.recommendation])]
        return Group(table, *(Text(printable(f"\n{each}")) for each in below))

    def _repr_html_(self) -> str:
        """What notebooks show: the verdict, every figure against its limit, what is wrong and what to do."""
        wrong = {finding.name: finding for finding in self.findings}
        rows = [
            (m.name, f"{m.figure:.3g}", f"{m.limit:.3g}", wrong[m.name].severity if m.name in wrong else "ok")
            for m in self.measurements
        ]
        verdict = self._all_is_well() if self.ok else f"{len(self)} finding{'s' * (len(self) != 1)}"
        notes: list[tuple[Kind, str]] = [
            (f.severity, f"{f.name}: {f.measurement.what}. {f.why} {f.remedy}") for f in self
        ]
        notes += [("soft", f"Not checked: {self.unchecked()}.")] if self.skipped else []
        advice = "" if self.recommendation is None else str(self.recommendation)
        card = Card(
            "Diagnosis", verdict, headings=("check", "figure", "limit", ""), rows=rows, notes=notes, code=advice
        )
        return card.html()

    def _all_is_well(self) -> str:
        made = len(self.measurements)
        return f"no findings in {made} check{'s' * (made != 1)}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
