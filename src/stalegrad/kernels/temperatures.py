"""Temperatures T_l as functions of the update number l, and the stages of a run that follow from them.

At T = 0 a sampler makes no noise: SGHMC is then SGD with momentum, SGLD plain SGD, pSGLD RMSprop. So a run that
optimises first and then samples, or that does both in every cycle, is a sampler whose temperature changes, and all else
(trace, replay, stores, engines) is as ever. What is not sampling is not kept: see :class:`Stages`.

* ``Changed(before=0, after=1, at=…)`` optimises, then samples: :meth:`stalegrad.kernels.Kernel.after_optimising`;
* :class:`Exploration` does both in every cycle: :meth:`stalegrad.kernels.Kernel.in_cycles`;
* :class:`Annealing` goes from one temperature to another;
* any other schedule, or a function of l, is what it says.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.kernels.schedules import Changed, Cyclical, Inverse, Polynomial, Schedule


@dataclass(frozen=True)
class Exploration:
    """T_l = 0 for the first ``explore`` updates of every ``period``, and ``temperature`` for the rest of them.

    The exploration stage of cyclical SG-MCMC (Zhang et al., ICLR 2020): big steps without noise find a mode, the small
    ones that end a cycle sample it.

    >>> temperature = Exploration(period=100, explore=80)
    >>> temperature(79), temperature(80), temperature(100)
    (0.0, 1.0, 0.0)
    """

    period: int
    explore: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        whole_number("period", self.period, least=1)
        real_number("temperature", self.temperature, above=0)
        if whole_number("explore", self.explore) >= self.period:
            problem = f"leaves no sampling in a period of {self.period}"
            raise ArgumentError("explore", self.explore, problem, f"Give less than {self.period} updates.")

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """T_l."""
        sampling = (l % self.period) >= self.explore
        return np.where(sampling, self.temperature, 0.0) if np.ndim(l) else self.temperature * float(sampling)


@dataclass(frozen=True)
class Annealing:
    """T_l = start (end/start)^(l/over) until l = over, and ``end`` from there on.

    >>> temperature = Annealing(start=100.0, end=1.0, over=10)
    >>> temperature(0), round(temperature(5), 6), temperature(99)
    (100.0, 10.0, 1.0)
    """

    start: float
    end: float
    over: int

    def __post_init__(self) -> None:
        real_number("start", self.start, above=0)
        real_number("end", self.end, above=0)
        whole_number("over", self.over, least=1)

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """T_l."""
        if np.ndim(l) == 0 and l >= self.over:
            return float(self.end)
        passed = np.minimum(l, self.over) / self.over if np.ndim(l) else l / self.over
        return self.start * (self.end / self.start) ** passed


class Stages(NamedTuple):
    """Which updates sample: those from ``begin`` on, but for the first ``explore`` of every ``cycle``."""

    begin: int = 0
    cycle: int = 0
    """0 without cycles."""
    explore: int = 0


def stages(temperature: Any) -> Stages:
    """What a temperature says of the stages of a run; a function of the user's own says nothing.

    >>> stages(Changed(before=0, after=Exploration(period=100, explore=80), at=500))
    Stages(begin=500, cycle=100, explore=80)
    """
    if isinstance(temperature, Exploration):
        return Stages(0, temperature.period, temperature.explore)
    if isinstance(temperature, Annealing):
        return Stages(temperature.over)
    if isinstance(temperature, Changed):
        after = stages(temperature.after)
        differs = temperature.before != temperature.after
        return after._replace(begin=max(after.begin, temperature.at if differs else 0))
    return Stages()


@dataclass(frozen=True)
class _Watched:
    """A temperature whose values are checked as they come."""

    function: Schedule

    def __call__(self, l: Any) -> float:  # noqa: E741
        value = self.function(l)
        try:
            return real_number("temperature", value, least=0)
        except ArgumentError:
            remedy = "A temperature maps l = 0, 1, … to numbers ≥ 0."
            raise ArgumentError("temperature", self.function, f"gives T_{l} = {value!r}", remedy) from None


def as_temperature(temperature: Any) -> Schedule | None:
    """The schedule of a temperature, checked; None where it is one number for all updates."""
    if not callable(temperature):
        real_number("temperature", temperature, least=0)
        return None
    if isinstance(temperature, Exploration | Annealing | Polynomial | Inverse | Cyclical):
        return temperature
    watched = _Watched(temperature)
    watched(0)
    return watched
