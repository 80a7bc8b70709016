"""What a sampler is: the contract of every file in this folder.

A kernel is a discretised Itô diffusion on x = (θ, auxiliary variables). It says

* what it keeps (its ``State``, a NamedTuple of arrays whose first field is the position θ),
* how a chain starts (:meth:`Kernel.start`),
* at which point it wants the gradient (:meth:`Kernel.point`), because a splitting wants it between two drifts,
* how one update goes: its ``formula``, elementwise and written once, which :meth:`Kernel.step` applies to whole arrays
  of any library and :meth:`Kernel.advance` compiles into one loop together with the noise.

Each file has the same parts in the same order: formula, fused loop, state, kernel. Arrays of states and gradients have
shape (repetition, coordinate) in :meth:`Kernel.advance`; :meth:`Kernel.step` takes any shape with coordinates last.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numba.extending import overload

from stalegrad.checks import real_number
from stalegrad.noise import Stream, normals
from stalegrad.plain import in_words
from stalegrad.schedules import Auto, Schedule, as_schedule
from stalegrad.types import Array

Part = Callable[[int, int], None]
"""Updates the coordinates from ``start``, a multiple of TILE, to before ``stop``."""

Split = Callable[[Part, int], None]
"""Calls a part for disjoint ranges that make up all n coordinates, and returns when all are done."""


def whole(part: Part, n: int) -> None:
    """All coordinates at once."""
    part(0, n)


State = Any  # a kernel's own NamedTuple of arrays; the first field is the position


class Address(NamedTuple):
    """Where an update's noise lives: see :mod:`stalegrad.noise.philox`."""

    seed: int
    chain: int
    update: int
    first_repeat: int = 0

    @classmethod
    def of_worker(cls, seed: int, chain: int, worker: int, count: int, first_repeat: int = 0) -> "Address":
        """Where the noise lives that a worker makes itself, for its gradient number ``count``.

        The worker takes the place of the upper bits of an update's number. Where workers make the noise, their server
        makes none, so that no address is used twice. Compiled code wants the seed's 64 bits as an int64.
        """
        return cls(seed if seed < 2**63 else seed - 2**64, chain, (worker << 32) | count, first_repeat)


@dataclass(frozen=True, kw_only=True)
class Kernel(ABC):
    """Base of all samplers.

    Args:
        step_size: h, a number or a schedule l ↦ h_l (:mod:`stalegrad.schedules`); or ``"auto"``, to have
            :func:`stalegrad.sample` find one before it begins, as :func:`stalegrad.find_step_size` does.
        temperature: T; the chain samples p(θ|D)^(1/T). 1 is the posterior.
    """

    step_size: float | Schedule | Literal["auto"]
    temperature: float = 1.0
    schedule: Schedule = field(init=False, repr=False, compare=False)

    order: ClassVar[int] = 1
    """K: on a closed-form target the bias falls as h^K."""

    noise_coefficient: ClassVar[int | None] = None
    """Which of the :meth:`coefficients` is σ, where gradient and noise enter the formula as −h g + σ ζ and not apart.
    With σ = 0 the fused loop makes no noise at all."""

    remembers: ClassVar[bool] = False
    """Whether auxiliary variables other than a momentum, which may be drawn afresh, have to be kept between updates."""

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, least=0)
        object.__setattr__(self, "schedule", as_schedule(self.step_size))

    @property
    def undecided(self) -> bool:
        """Whether the step size is still to be found."""
        return isinstance(self.schedule, Auto)

    def for_model(self, n_data: int, batch_size: int) -> Self:
        """The kernel for a model of N data in minibatches of J. Only samplers that need the per-datum scale change."""
        return self

    def with_step_size(self, step_size: float | Schedule) -> Self:
        """The same sampler with another step size."""
        return replace(self, step_size=step_size)

    def describe(self) -> dict[str, Any]:
        """Name and numbers, for reports and traces."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return {"kernel": type(self).__name__, **{k: v if _plain(v) else in_words(v) for k, v in settings.items()}}

    @abstractmethod
    def start(self, position: Array, address: Address) -> State:
        """The state of a chain that starts at ``position``; auxiliary variables come from their stationary law."""

    def point(self, state: State) -> Array:
        """Where the gradient of the next update is wanted. The position, unless the kernel splits its drift."""
        position: Array = state[0]
        return position

    def momentum(self, state: State) -> Array | None:
        """q, with the stationary law N(0, T I), or None where the kernel has none."""
        return getattr(state, "momentum", None)

    def noise_at(self, state: State, address: Address) -> Array:
        """The standard normals that :meth:`advance` uses at this address, in the shape that :meth:`step` takes.

        One a coordinate, (R, n), unless the kernel needs several.
        """
        seed, chain, update, repeat = address
        return normals(np.empty_like(state[0]), seed, Stream.UPDATE, chain, update, first_repeat=repeat)

    @abstractmethod
    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """The scalars in the formula, for an update with step h that is followed by one with step h_next."""

    @abstractmethod
    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays (NumPy, JAX or torch), with normals like those of :meth:`noise_at`; pure."""

    @abstractmethod
    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One update in place, noise included, in one compiled pass over memory that releases the GIL.

        ``coefficients`` are those of :meth:`coefficients` as an array of the state's dtype, so that a chain with a
        constant step makes them once. ``split`` may give parts of the coordinates to several threads: the noise of a
        coordinate does not depend on who draws it, so the bits are the same.
        """


def update(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
    """For compiled callers: :meth:`Kernel.advance` of the kernel that the state belongs to."""
    raise NotImplementedError("only compiled code calls this")


_UPDATES: dict[type, Callable[[Any], Any]] = {}


def updates_with(of: type) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Let :func:`update` know how a kernel's State is advanced: by the function that is chosen for its numba type."""
    # numba names compiled code after the class and the types of its fields: without a name of their own, two kernels
    # with fields of the same types would be linked to the same code.
    of.__name__ = f"{of.__module__.rpartition('.')[2]}_{of.__qualname__}"

    def note(choose: Callable[[Any], Any]) -> Callable[[Any], Any]:
        _UPDATES[of] = choose
        return choose

    return note


def has_compiled_update(state: State) -> bool:
    """Whether :func:`update` knows the state."""
    return type(state) in _UPDATES


@overload(update)
def _choose_update(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
    choose = _UPDATES.get(getattr(state, "instance_class", None))  # type: ignore[arg-type]
    return None if choose is None else choose(state)


def initial_momentum(position: Array, temperature: float, address: Address) -> Array:
    """q ~ N(0, T I), the stationary law of the momentum."""
    momentum = start_normals(position, address)
    momentum *= momentum.dtype.type(np.sqrt(temperature))
    return momentum


def start_normals(position: Array, address: Address, stream: Stream = Stream.START) -> Array:
    """Standard normals for a chain's start, one a coordinate; a kernel that needs several has a stream for each."""
    seed, chain, update, first_repeat = address
    return normals(np.empty_like(position), seed, stream, chain, update, first_repeat=first_repeat)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
