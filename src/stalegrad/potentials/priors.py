"""Priors: normal, Laplace, Student-t, and a normal of unknown scale, by group of parameters, about 0 or about θ₀.

A potential is U(θ) = −log p(θ) − Σ_i log p(d_i | θ). What a model needs of its prior is the first term's gradient,

    −d/dθ log p(θ) = θ / ς²                      normal,
                   = sign(θ) / ς                 Laplace,
                   = (ν + 1) θ / (ν ς² + θ²)     Student-t with ν degrees of freedom,
                   = (ν + d) θ / (ν ς² + |θ|²)   normal whose scale d coordinates share and nobody knows,

for every coordinate, at θ − θ₀ where the prior is centred at θ₀, in one compiled pass over the flat θ:
:meth:`FlatPrior.gradient`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled, inlined
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number

__all__ = ["Centred", "FlatPrior", "Laplace", "Normal", "Prior", "SharedScale", "StudentT"]


def normal(theta: Any, precision: Any) -> Any:
    """θ / ς², with precision = 1 / ς²."""
    return precision * theta


def laplace(theta: Any, rate: Any) -> Any:
    """sign(θ) / ς, with rate = 1 / ς; 0 at the kink."""
    return rate * np.sign(theta)


def student_t(theta: Any, more: Any, spread: Any) -> Any:
    """(ν + 1) θ / (ν ς² + θ²), with more = ν + 1 and spread = ν ς²."""
    return more * theta / (spread + theta * theta)


def shared_scale(theta: Any, df: Any, spread: Any) -> Any:
    """(ν + d) θ / (ν ς² + |θ|²) of d coordinates, with spread = ν ς²."""
    return (df + np.size(theta)) * theta / (spread + np.sum(theta * theta))


_normal, _laplace, _student_t = inlined(normal), inlined(laplace), inlined(student_t)
_NORMAL, _LAPLACE, _STUDENT_T, _SHARED_SCALE = range(4)


@compiled
def _fill(theta, out, ends, families, coefficients):  # type: ignore[no-untyped-def]
    start = 0
    for piece in range(ends.size):
        t, o = theta[start : ends[piece]], out[start : ends[piece]]
        a, b = coefficients[piece, 0], coefficients[piece, 1]
        if families[piece] == _NORMAL:
            for i in range(t.size):
                o[i] = _normal(t[i], a)
        elif families[piece] == _LAPLACE:
            for i in range(t.size):
                o[i] = _laplace(t[i], a)
        elif families[piece] == _STUDENT_T:
            for i in range(t.size):
                o[i] = _student_t(t[i], a, b)
        else:
            total = 0.0
            for i in range(t.size):
                total += t[i] * t[i]
            factor = (a + t.size) / (b + total)
            for i in range(t.size):
                o[i] = factor * t[i]
        start = ends[piece]


class Prior(ABC):
    """A density of one coordinate, centred at 0; the coordinates of a group are independent of each other.

    >>> [float(law.gradient([100.0])[0].round(2)) for law in (Normal(2.0), Laplace(2.0), StudentT(3.0, 2.0))]
    [25.0, 0.5, 0.04]
    """

    scale: float

    family: ClassVar[int]
    """Which of the formulas above is its gradient; the compiled pass branches on it."""
    formula: ClassVar[Callable[..., Any]]
    """The same formula for whole arrays."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_number("scale", self.scale, above=0))

    @property
    @abstractmethod
    def coefficients(self) -> tuple[float, ...]:
        """What the formula takes besides θ."""

    @abstractmethod
    def log_density(self, theta: Any) -> Array:
        """log p(θ) of every coordinate, in float64."""

    def gradient(self, theta: Any) -> Array:
        """−d/dθ log p(θ) of every coordinate, in float64: the prior's part of ∇U."""
        return np.asarray(self.formula(np.asarray(theta, np.float64), *self.coefficients))


@dataclass(frozen=True)
class Normal(Prior):
    """θ ~ N(0, ς²).

    Args:
        scale: ς.

    >>> Normal(scale=2.0).gradient([1.0, -4.0])
    array([ 0.25, -1.  ])
    """

    scale: float = 1.0

    family = _NORMAL
    formula = staticmethod(normal)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """1 / ς², by which the gradient multiplies θ."""
        return (self.scale**-2,)

    def log_density(self, theta: Any) -> Array:
        """−θ² / 2ς² − log ς√(2π)."""
        standardised = np.asarray(theta, np.float64) / self.scale
        return -0.5 * np.square(standardised) - math.log(self.scale * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class Laplace(Prior):
    """p(θ) = exp(−|θ| / ς) / 2ς: many coordinates near 0, some far out.

    Args:
        scale: ς.

    >>> Laplace(scale=0.5).gradient([3.0, -0.1, 0.0])
    array([ 2., -2.,  0.])
    """

    scale: float = 1.0

    family = _LAPLACE
    formula = staticmethod(laplace)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """1 / ς, the size of the gradient everywhere."""
        return (1 / self.scale,)

    def log_density(self, theta: Any) -> Array:
        """−|θ| / ς − log 2ς, of every entry."""
        return -np.abs(np.asarray(theta, np.float64)) / self.scale - math.log(2 * self.scale)


@dataclass(frozen=True)
class StudentT(Prior):
    """p(θ) ∝ (1 + θ² / ν ς²)^(−(ν + 1)/2): a normal's shape near 0, and tails that hardly hold a large weight back.

    Args:
        df: ν, the degrees of freedom; 1 is the Cauchy distribution.
        scale: ς.

    >>> StudentT(df=3.0, scale=2.0).gradient([2.0])
    array([0.5])
    """

    df: float
    scale: float = 1.0

    family = _STUDENT_T
    formula = staticmethod(student_t)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "df", real_number("df", self.df, above=0))

    @property
    def coefficients(self) -> tuple[float, ...]:
        """ν + 1 and ν ς²."""
        return self.df + 1, self.df * self.scale**2

    def log_density(self, theta: Any) -> Array:
        """−(ν + 1)/2 · log(1 + θ² / ν ς²) + log Γ((ν + 1)/2) − log Γ(ν/2) − log ς√(νπ)."""
        constant = math.lgamma((self.df + 1) / 2) - math.lgamma(self.df / 2)
        constant -= math.log(self.scale * math.sqrt(self.df * math.pi))
        squares = np.square(np.asarray(theta, np.float64) / self.scale)
        return constant - (self.df + 1) / 2 * np.log1p(squares / self.df)


@dataclass(frozen=True)
class SharedScale(Prior):
    """Each named group of d parameters is N(0, s² I) with a scale s of its own that is not known, and integrated out.

    With the hierarchical prior s² ~ InverseGamma(ν/2, ν ς²/2) the group is multivariate Student-t: p(θ) ∝ (1 + |θ|² /
    ν ς²)^(−(ν + d)/2). The more parameters a group has, the more it finds its own scale.

    Args:
        df: ν, how sure the scale is known beforehand; the larger, the nearer to a normal of scale ς.
        scale: ς, about what the scale is beforehand.

    >>> SharedScale(df=2.0, scale=1.0).gradient([1.0, 1.0])
    array([1., 1.])
    """

    df: float = 4.0
    scale: float = 1.0

    family = _SHARED_SCALE
    formula = staticmethod(shared_scale)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "df", real_number("df", self.df, above=0))

    @property
    def coefficients(self) -> tuple[float, ...]:
        """ν and ν ς², as compiled code takes them."""
        return self.df, self.df * self.scale**2

    def log_density(self, theta: Any) -> Array:
        """Of all coordinates together: one number."""
        values = np.asarray(theta, np.float64)
        d = values.size
        constant = math.lgamma((self.df + d) / 2) - math.lgamma(self.df / 2)
        constant -= d * math.log(self.scale * math.sqrt(self.df * math.pi))
        inside = np.log1p(np.square(values / self.scale).sum() / self.df)
        return np.asarray(constant - (self.df + d) / 2 * inside)


@dataclass(frozen=True, eq=False)
class Centred:
    """A prior about θ₀ instead of 0: p(θ) = law(θ − θ₀). For fine-tuning, and for posteriors near a point.

    Args:
        law: a prior, or a number, the scale of a normal.
        at: θ₀: None for where chains start, such as the weights of a trained module; a number or an array of the
            parameter's shape; or a mapping from names of parameters to those, such as a state dict's as arrays.

    >>> prior = FlatPrior(Centred(0.5), {"w": (2,)}, start=np.array([1.0, 2.0]))
    >>> prior.gradient(np.array([1.0, 3.0]))
    array([0., 4.])
    """

    law: Prior | float = 1.0
    at: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "law", _law("law", self.law))

    def centre(self, name: str, shape: tuple[int, ...], start: Array | None) -> Array:
        """θ₀ of a parameter, flat; ``start`` is where its chains start."""
        at = self.at
        if isinstance(at, Mapping):
            if name not in at:
                raise ArgumentError("at", list(at), f"has no entry {name!r}", "Add it, or give at=None for the start.")
            at = at[name]
        if at is None:
            if start is None:
                raise ArgumentError("at", None, "is needed: the model has no start of its own", "Give numbers.")
            return start
        values = np.asarray(at, np.float64)
        if values.shape not in ((), shape) or not np.isfinite(values).all():
            problem = f"has shape {values.shape} for {name!r}, or is not finite"
            raise ArgumentError("at", self.at, problem, f"Give one finite number, or an array of shape {shape}.")
        return np.broadcast_to(values, shape).ravel()


Law = Prior | Centred | float
Priors = Law | Mapping[str, Law]
"""One prior for all parameters, or by name; a number is the scale of a normal."""


class FlatPrior:
    """The prior of a flat θ whose named pieces may each have a law of their own.

    Args:
        prior: a :class:`Prior` or a number, the scale of a normal, for all parameters; or a mapping from names, in
            which * and ? stand for any characters, to those. A parameter gets the first entry whose name fits. A
            :class:`Centred` one is about another point than 0.
        layout: the names of the pieces of θ, in order, with their shapes.
        dtype: of θ.
        start: where chains start, flat: the centre of priors that have no other.

    >>> layout = {"conv.weight": (2, 2), "conv.bias": (2,), "fc.weight": (3,)}
    >>> prior = FlatPrior({"*.bias": Laplace(0.5), "conv.*": 10.0, "*": StudentT(df=3.0)}, layout)
    >>> prior.gradient(np.ones(9))
    array([0.01, 0.01, 0.01, 0.01, 2.  , 2.  , 1.  , 1.  , 1.  ])
    """

    def __init__(
        self,
        prior: Priors,
        layout: Mapping[str, tuple[int, ...]],
        dtype: Any = np.float64,
        start: Array | None = None,
    ) -> None:
        given = _by_name(prior, layout)
        self.of: dict[str, Prior] = {name: _about_zero(law) for name, law in given.items()}
        """The law of each named piece, about its centre."""
        self.ends = np.cumsum([math.prod(shape) for shape in layout.values()])
        """Where the pieces end in the flat θ."""
        self.centre = _centre(given, layout, self.ends, np.dtype(dtype), start)
        """θ₀, flat; None if it is 0 everywhere."""
        laws = list(self.of.values())
        self._families = np.array([law.family for law in laws], np.int64)
        self._coefficients = np.zeros((len(laws), 2), dtype)
        for row, law in zip(self._coefficients, laws, strict=True):
            row[: len(law.coefficients)] = law.coefficients

    def log_density(self, theta: Any) -> float:
        """log p(θ), summed over all pieces."""
        deviation = np.asarray(theta, np.float64) - (0 if self.centre is None else self.centre)
        pieces = np.split(deviation, self.ends[:-1])
        return float(sum(law.log_density(piece).sum() for law, piece in zip(self.of.values(), pieces, strict=True)))

    def gradient(self, theta: Array, out: Array | None = None) -> Array:
        """−∇log p(θ), one compiled pass; ``theta`` (n,) and ``out`` are C-contiguous and of one type."""
        if out is None:
            out = np.empty_like(theta)
        if self.centre is not None:
            theta = np.subtract(theta, self.centre, out=out)
        _fill(theta, out, self.ends, self._families, self._coefficients)
        return out


def _about_zero(law: Prior | Centred) -> Prior:
    found = law.law if isinstance(law, Centred) else law
    assert isinstance(found, Prior)  # numbers have become normals
    return found


def _centre(
    laws: Mapping[str, Prior | Centred],
    layout: Mapping[str, tuple[int, ...]],
    ends: Any,
    dtype: np.dtype[Any],
    start: Array | None,
) -> Array | None:
    if not any(isinstance(law, Centred) for law in laws.values()):
        return None
    centre = np.zeros(int(ends[-1]), dtype)
    for (name, law), end in zip(laws.items(), ends.tolist(), strict=True):
        piece = slice(end - math.prod(layout[name]), end)
        if isinstance(law, Centred):
            centre[piece] = law.centre(name, tuple(layout[name]), None if start is None else start[piece])
    return centre


def _by_name(prior: Any, layout: Mapping[str, tuple[int, ...]]) -> dict[str, Prior | Centred]:
    if not isinstance(prior, Mapping):
        return dict.fromkeys(layout, _law("prior", prior))
    laws = {pattern: _law(f"prior[{pattern!r}]", law) for pattern, law in prior.items()}
    fits = {name: [pattern for pattern in laws if fnmatchcase(name, pattern)] for name in layout}
    names = ", ".join(layout)
    for name, patterns in fits.items():
        if not patterns:
            problem = f"says nothing about the parameter {name!r}"
            raise ArgumentError("prior", prior, problem, f'Add an entry "*" for the rest. The parameters are: {names}.')
    for pattern in laws:
        if not any(pattern in patterns[:1] for patterns in fits.values()):
            problem = f"has an entry {pattern!r} that no parameter gets"
            remedy = f"The first entry that fits is taken, so put the special ones first. The parameters are: {names}."
            raise ArgumentError("prior", prior, problem, remedy)
    return {name: laws[patterns[0]] for name, patterns in fits.items()}


def _law(name: str, law: Any) -> Any:
    if isinstance(law, Prior) or (isinstance(law, Centred) and name != "law"):
        return law
    try:
        return Normal(real_number(name, law, above=0))
    except ArgumentError as error:
        remedy = (
            "Give a scale > 0, sg.priors.Normal(scale), Laplace(scale), StudentT(df, scale) or SharedScale(df, scale)."
        )
        raise ArgumentError(name, law, error.problem, remedy) from None
