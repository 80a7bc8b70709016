"""Step sizes h_l as functions of the update number l = 0, 1, 2, …

A schedule is anything that can be called with l. Those here are immutable, compare equal when their numbers do, and
accept whole arrays of l.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from numbers import Real
from typing import Any, Literal, cast

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import real_number, whole_number

Schedule = Callable[[int], float]

AUTO: Literal["auto"] = "auto"
"""In place of a step size or a friction: it is to be found, see :class:`stalegrad.Warmup`."""


@dataclass(frozen=True)
class Constant:
    """h_l = value.

    >>> Constant(0.1)(1000)
    0.1
    """

    value: float

    def __post_init__(self) -> None:
        # As a Python float: a float32 would round the kernel's coefficients differently from the recorded step.
        object.__setattr__(self, "value", real_number("step_size", self.value, above=0))

    def __call__(self, l: Any) -> Any:  # noqa: E741 (l is the papers' name)
        """h_l."""
        return self.value if np.ndim(l) == 0 else np.full(np.shape(l), self.value)


@dataclass(frozen=True)
class Polynomial:
    """h_l = a (b + l)^(−γ), the decay under which SGLD's average converges for γ in (0, 1] (Welling and Teh 2011).

    >>> Polynomial(a=1.0, b=1.0, gamma=0.5)(3)
    0.5
    """

    a: float
    b: float = 1.0
    gamma: float = 0.33

    def __post_init__(self) -> None:
        real_number("a", self.a, above=0)
        real_number("b", self.b, above=0)
        real_number("gamma", self.gamma, least=0)

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """h_l."""
        return self.a * (self.b + l) ** -self.gamma


@dataclass(frozen=True)
class Inverse:
    """h_l = base (1 + γ l)^(−p): Caffe's learning-rate policy "inv".

    >>> round(Inverse(base=0.01, gamma=1e-4, power=0.75)(10_000), 6)
    0.005946
    """

    base: float
    gamma: float = 1e-4
    power: float = 0.75

    def __post_init__(self) -> None:
        real_number("base", self.base, above=0)
        real_number("gamma", self.gamma, least=0)
        real_number("power", self.power, least=0)

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """h_l."""
        return self.base * (1.0 + self.gamma * l) ** -self.power


@dataclass(frozen=True)
class Cyclical:
    """h_l = (peak / 2) (1 + cos(π r)) + floor, r the fraction of the cycle that has passed (Zhang et al. 2020).

    Big steps find modes, small steps sample them. ``floor`` keeps the last steps of a cycle from being zero.

    >>> Cyclical(peak=0.1, period=100, floor=1e-3)(100)
    0.101
    """

    peak: float
    period: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        real_number("peak", self.peak, above=0)
        whole_number("period", self.period, least=1)
        real_number("floor", self.floor, least=0)

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """h_l."""
        passed = (l % self.period) / self.period
        cosine = np.cos(np.pi * passed) if np.ndim(l) else cos(pi * passed)
        return 0.5 * self.peak * (1.0 + cosine) + self.floor


@dataclass(frozen=True)
class Changed:
    """before(l) for l < at, and after(l) from there on: the step size of a run in which it was changed.

    It may be a temperature as well, see :mod:`stalegrad.kernels.temperatures`, and is then 0 in a part that optimises.

    >>> Changed(before=0.1, after=0.02, at=100)(99), Changed(before=0.1, after=0.02, at=100)(100)
    (0.1, 0.02)
    """

    before: "float | Schedule"
    after: "float | Schedule"
    at: int

    def __post_init__(self) -> None:
        whole_number("at", self.at)
        for name in ("before", "after"):
            value = getattr(self, name)
            if not callable(value):
                object.__setattr__(self, name, real_number(name, value, least=0))

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """Its value at l."""
        if np.ndim(l) == 0:
            part = self.before if l < self.at else self.after
            return part(l) if callable(part) else part
        return np.array([self(entry) for entry in np.ravel(l).tolist()]).reshape(np.shape(l))


@dataclass(frozen=True)
class Auto:
    """A step size that :func:`stalegrad.sample` is to find before it begins, by ``step_size="auto"``.

    >>> import stalegrad as sg
    >>> sg.SGLD().step_size
    'auto'
    """

    def __call__(self, l: Any) -> Any:  # noqa: E741
        """Raise: h is not known before it has been found."""
        remedy = "Give a number, or let sg.sample or sg.find_step_size find one."
        raise ArgumentError("step_size", AUTO, "has not been found yet", remedy)


@dataclass(frozen=True)
class _Watched:
    """A schedule of the user's own, every value of which is checked before it is used."""

    function: Schedule

    def __call__(self, l: Any) -> float:  # noqa: E741
        h = self.function(l)
        try:
            return real_number("step_size", h, above=0)
        except ArgumentError:
            remedy = "A schedule maps l = 0, 1, … to step sizes > 0."
            raise ArgumentError("step_size", self.function, f"gives h_{l} = {h!r}", remedy) from None


def _is_positive(value: Any) -> bool:
    """Whether a step size, or a part of one, is above 0 by construction."""
    if isinstance(value, Changed):
        return _is_positive(value.before) and _is_positive(value.after)
    if isinstance(value, Real):
        return float(value) > 0
    return isinstance(value, Constant | Polynomial | Inverse | Cyclical | Auto)


def as_schedule(step_size: Any) -> Schedule:
    """A number becomes :class:`Constant`; a callable is taken as it is, and its values are checked as they come.

    >>> as_schedule(0.1)(7)
    0.1
    """
    if isinstance(step_size, str) and step_size == AUTO:
        return Auto()
    if not callable(step_size):
        return Constant(step_size)
    if _is_positive(step_size):
        return cast(Schedule, step_size)
    schedule = _Watched(step_size)
    schedule(0)
    return schedule
