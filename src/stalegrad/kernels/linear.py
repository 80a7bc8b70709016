"""Samplers whose theory follows from their formula, because on a Gaussian posterior it is linear.

Of a kernel that derives from :class:`Linear` nobody has to work out a recursion: F, k and N of
y ← F y − k g + N ζ are read off the formula, by applying it to one unit at a time. With them the sampler has everything
that stalegrad's own have: step sizes that are found (``step_size="auto"``), the diagnosis of step size, staleness and
gradient noise, and ``stalegrad plan``.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel
from stalegrad.theory import Direction, LinearRecursion, Staleness
from stalegrad.theory.gaussian import delayed, staleness_law


class Parts(NamedTuple):
    """An update y ← F y − k g + N ζ along one coordinate; g is taken at pᵀ y."""

    free: Array
    kick: Array
    noise: Array
    point: Array


@dataclass(frozen=True, kw_only=True)
class Linear(Kernel):
    """A sampler whose update is linear in its state, its gradient and its normals, for given coefficients.

    Derive from it, write the formula, and the theory is there:

    >>> from stalegrad.kernels import Update
    >>> class State(NamedTuple):
    ...     position: Any
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Plain(Linear):
    ...     updates = Update(State, lambda theta, g, z, h, sigma: theta - h * g + sigma * z)
    ...     def start(self, position, address):
    ...         return State(position)
    ...     def coefficients(self, h, h_next):
    ...         return h, (2 * h * self.temperature) ** 0.5
    >>> from stalegrad.theory import stale_sgld
    >>> own, known = Plain(step_size=0.1).recursion(0.1, 3, Direction(curvature=2.0)), stale_sgld(2.0, 0.1, 3)
    >>> bool(np.isclose(own.variance, known.variance, rtol=1e-12))
    True
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "updates" in vars(cls) and "inertial" not in vars(cls):
            first: Any = cls.updates[0] if isinstance(cls.updates, tuple) else cls.updates
            cls.inertial = "momentum" in first.state._fields

    def parts(self, h: float) -> Parts:
        """F, k, N and p at a step size, from the formula applied to units; refuses one that is not linear."""
        like = self.start(np.zeros((1, 1)), Address(0, 0, 0))
        kind, fields = type(like), type(like)._fields
        size, normals = len(fields), self.n_normals

        def update(y: Array, g: float, z: Array) -> Array:
            state = kind(*(np.full((1, 1), entry) for entry in y))
            noise = np.full((1, 1), z[0]) if normals == 1 else z.reshape(normals, 1, 1)
            return np.array([np.asarray(part).item() for part in self.step(state, np.full((1, 1), g), noise, h)])

        none, nothing = np.zeros(size), np.zeros(max(normals, 1))
        free = np.column_stack([update(unit, 0.0, nothing) for unit in np.eye(size)])
        kick = -update(none, 1.0, nothing)
        units = np.eye(max(normals, 1))[:normals]
        noise = np.column_stack([update(none, 0.0, unit) for unit in units]) if normals else np.zeros((size, 1))
        y, z = np.linspace(-1.5, 2.0, size), np.linspace(0.5, -1.0, max(normals, 1))
        both = free @ y - 0.7 * kick + noise @ z[: noise.shape[1]] * bool(normals)
        if not np.allclose(update(y, 0.7, z), both, rtol=1e-9, atol=1e-12):
            remedy = "Derive from stalegrad.kernels.Kernel, and give its recursion if it is known."
            raise ArgumentError("formula", type(self).__name__, "is not linear in state, gradient and normals", remedy)
        point = np.array([float(name == ("point" if "point" in fields else fields[0])) for name in fields])
        return Parts(free, kick, noise, point)

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """The chain along one direction of a Gaussian, as the formula makes it."""
        free, kick, noise, point = self.parts(h)
        fields = type(self.start(np.zeros((1, 1)), Address(0, 0, 0)))._fields
        momentum = np.array([float(name == "momentum") for name in fields])
        law = staleness_law(staleness)
        starts = np.array([[float(name in (fields[0], "point")), float(name == "momentum")] for name in fields])
        return delayed(
            free=free, kick=kick, point=point, strength=direction.curvature - direction.owned, fresh=direction.owned,
            noise=np.column_stack([noise, np.sqrt(direction.noise) * kick]),
            law=law, ahead=direction.ahead * momentum, kept=direction.kept,
            start=starts if momentum.any() else starts[:, :1], target=(0.0, self.temperature / direction.curvature),
            description=f"{type(self).__name__}(curvature={direction.curvature:g}, step_size={h:g})",
        )  # fmt: skip

    def relative_noise(self, h: float, direction: Direction) -> float | None:
        """v k²/Σ N², of whatever the gradient acts on first: the gradient's noise over the injected noise."""
        _, kick, noise, _ = self.parts(h)
        entry = int(np.abs(kick).argmax())
        injected = float(np.square(noise[entry]).sum())
        return float(direction.noise * kick[entry] ** 2 / injected) if injected > 0 else None

    def drift_ahead(self, h: float, updates: float, owned: float = 0.0) -> float | None:
        """How far a momentum of 1 carries θ in so many updates, with the force −aθ on the way."""
        free, kick, _, point = self.parts(h)
        fields = type(self.start(np.zeros((1, 1)), Address(0, 0, 0)))._fields
        if "momentum" not in fields:
            return None
        whole = int(updates)
        motion, y = free - owned * np.outer(kick, point), np.array([float(name == "momentum") for name in fields])
        for _ in range(whole):
            y = motion @ y
        return float(y[0] + (updates - whole) * ((motion @ y)[0] - y[0]))
