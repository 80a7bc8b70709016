"""What a warm-up has found and chosen, as a run remembers it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import Table, check_table


@dataclass(frozen=True, kw_only=True)
class WarmupRecord:
    """What was found and what was chosen; ``print`` it to read it.

    Args:
        mode: whether a mode was found.
        coordinates: the form of S in θ = c + S z, or "" where chains run in θ itself.
        correction: by which factor the pilot chains have corrected a standard deviation, at most.
        shift: by how many standard deviations they have moved the centre, at most.
        pilot_rhat: R-hat of the pilot chains' last window, of their worst coordinate.
        curvature: the largest in z about on average over places, 1 where the posterior is normal.
        steepest: the largest of all places that were looked at.
        noise: the largest variance of a minibatch gradient along a direction, in z.
        plain_noise: the same without control variates.
        control_variates: whether gradients have them.
        staleness: τ that steps were chosen for.
        kernel: the sampler's name.
        numbers: those of its numbers that were found, of each chain.
        forgetting: updates in which a chain forgets where it was.
        burn_in: updates that are not kept.
        burn_in_chosen: whether they were chosen here.
        gradients: what it took, in gradients of the model's minibatch size.
        passes: the same in passes over all data.
        concerns: why the result might not be to be trusted, in words.
        hints: what would make the run better, in words.
    """

    mode: bool
    coordinates: str
    correction: float
    shift: float
    pilot_rhat: float
    curvature: float
    steepest: float
    noise: float
    plain_noise: float
    control_variates: bool
    staleness: int
    kernel: str
    numbers: tuple[Mapping[str, float], ...]
    forgetting: float
    burn_in: int
    burn_in_chosen: bool
    gradients: int
    passes: float
    concerns: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def table(self) -> Table:
        """In plain types; :meth:`from_table` reads them."""
        plain = asdict(self)
        return {
            **plain,
            "numbers": [dict(one) for one in self.numbers],
            "concerns": list(self.concerns),
            "hints": list(self.hints),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any], path: str = "warmup") -> Self:
        """The record that :meth:`table` has put into plain types."""
        names = [f.name for f in fields(cls)]
        check_table(table, path, f"It has: {', '.join(names)}.")
        if sorted(table) != sorted(names):
            raise ArgumentError(path, table, "is not the record of a warm-up", f"It has: {', '.join(names)}.")
        lists = {name: tuple(table[name]) for name in ("numbers", "concerns", "hints")}
        return cls(**{**table, **lists})

    def __str__(self) -> str:
        mode = "a mode was found" if self.mode else "no mode was found"
        where = f"in {self.coordinates} coordinates" if self.coordinates else "in the coordinates of θ"
        found = {name: self._range(name) for name in self.numbers[0]} if self.numbers else {}
        chose = ", ".join(f"{name}={value}" for name, value in found.items())
        cost = f"{self.gradients:,} gradients" + (f" ({self.passes:,.3g} passes over the data)" if self.passes else "")
        noise = f"gradient variance {self.noise:.2g}"
        if self.control_variates:
            noise += f" with control variates ({self.plain_noise:.2g} without)"
        corrected = (
            f"; the pilot chains moved their centre by {self.shift:.2g} standard deviations and corrected a scale "
            f"{self.correction:.2g}-fold, at most"
        )
        lines = [
            f"warm-up: {mode + '; ' if self.coordinates else ''}{cost}",
            f"  chains run {where}{corrected if self.coordinates else ', of which there are too many to change'}",
            f"  there: largest curvature {self.curvature:.3g} on average, {self.steepest:.3g} at most, {noise}, "
            f"gradients {self.staleness} updates old",
            f"  so: {self.kernel}({chose}), which forgets in {self.forgetting:.3g} updates; burn_in={self.burn_in:,}"
            + ("" if self.burn_in_chosen else " as given"),
        ]
        concerns, hints = (f"  ! {concern}" for concern in self.concerns), (f"  hint: {hint}" for hint in self.hints)
        return "\n".join([*lines, *concerns, *hints])

    def _range(self, name: str) -> str:
        values = sorted({float(one[name]) for one in self.numbers if name in one})
        return " … ".join(f"{value:.3g}" for value in ([values[0], values[-1]] if len(values) > 1 else values))
