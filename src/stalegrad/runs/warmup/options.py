"""What a user may say about the warm-up."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import Table, check_keys, check_table
from stalegrad._internal.validation import one_of, real_number, whole_number

FORMS = ("auto", "dense", "low-rank", "diagonal")
CONTROL_VARIATES = ("auto", "always", "never")


@dataclass(frozen=True, kw_only=True)
class Warmup:
    """How :func:`stalegrad.sample` finds what it was not told: start, coordinates, step size, friction, burn-in.

    It looks for a mode of the posterior, measures the curvature there, and lets a few short chains of its own walk from
    there and correct the coordinates by what they see. In the coordinates z found, θ = c + S z, the posterior has about
    mean 0 and variance 1 in every direction; steps are then chosen by the theory of the sampler for a target, at the
    staleness there will be. Draws are in θ all the same. ``run.warmup`` says what was found.

    Args:
        bias: by which share variances may come out wrong because of step size, staleness and minibatch noise: 0.05 is
            2.5 % of a standard deviation.
        gradients: the most gradients on minibatches of the pilot chains; None for a quarter of those of the run,
            between 16,000 and 40,000.
        coordinates: the form of S: ``"dense"``, ``"low-rank"`` (plus diagonal), ``"diagonal"``, or ``"auto"``: dense
            up to 600 parameters, low rank up to 20,000. Beyond that, where models are networks without a mode to speak
            of, chains run in θ itself, and the warm-up finds step size and friction alone.
        control_variates: whether gradients are corrected by those at the centre of the coordinates
            (:class:`~stalegrad.potentials.ControlVariates`), which doubles their cost and may take away most of their
            noise: ``"auto"`` where that pays, ``"always"`` or ``"never"``.
        dispersion: chains start from a law of so many times the spread of the posterior.

    >>> Warmup(bias=0.01).table()
    {'bias': 0.01}
    """

    bias: float = 0.05
    gradients: int | None = None
    coordinates: str = "auto"
    control_variates: str = "auto"
    dispersion: float = 2.0

    def __post_init__(self) -> None:
        real_number("bias", self.bias, above=0)
        if self.gradients is not None:
            whole_number("gradients", self.gradients, least=1000)
        one_of("coordinates", self.coordinates, FORMS)
        one_of("control_variates", self.control_variates, CONTROL_VARIATES)
        real_number("dispersion", self.dispersion, least=0)

    def table(self) -> Table:
        """What differs from the defaults, in plain types."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    @classmethod
    def from_table(cls, table: Mapping[str, Any], path: str = "warmup") -> Self:
        """What a job file says in ``[warmup]``."""
        names = tuple(f.name for f in fields(cls))
        taken = f"It takes: {', '.join(names)}."
        check_table(table, path, taken)
        check_keys(table, names, path, taken)
        try:
            return cls(**table)
        except ArgumentError as error:
            raise error.inside(path) from None
