"""What a sampler is: the contract of every file in the folder ``samplers``, and of every kernel of your own.

A kernel is a discretised Itô diffusion on x = (θ, auxiliary variables). It says

* how one update goes: its ``formula``, elementwise and written once, in :attr:`Kernel.updates`, of which
  :mod:`stalegrad.kernels.fused` makes :meth:`Kernel.step` on whole arrays and the compiled :meth:`Kernel.advance`,
* what it keeps (its ``State``, a NamedTuple of arrays whose first field is the position θ),
* how a chain starts (:meth:`Kernel.start`), and the scalars of the formula (:meth:`Kernel.coefficients`),
* at which point it wants the gradient, because a splitting wants it between two drifts: the state's field ``point``,
* and what others may know of it (:mod:`stalegrad.kernels.declared`), if its author knows.

Each file has the same parts in the same order: formula, state, kernel. Arrays of states and gradients have shape
(repetition, coordinate) in :meth:`Kernel.advance`; :meth:`Kernel.step` takes any shape with coordinates last.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import as_int64
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number
from stalegrad.kernels.declared import Declared
from stalegrad.kernels.fused import STREAMS, Split, Update, loop_of, register, whole
from stalegrad.kernels.noise import Stream, normals
from stalegrad.kernels.schedules import AUTO, Auto, Changed, Constant, Cyclical, Schedule, as_schedule
from stalegrad.kernels.temperatures import Exploration, Stages, as_temperature, stages

SAMPLERS: dict[str, type["Kernel"]] = {}
"""stalegrad's own, by name: the classes in the files that :mod:`stalegrad.kernels` imports from its ``samplers``."""

State = Any  # a kernel's own NamedTuple of arrays; the first field is the position


class Address(NamedTuple):
    """Where an update's noise lives: see :mod:`stalegrad.kernels.noise.philox`.

    >>> Address(seed=0, chain=1, update=7).update
    7
    """

    seed: int
    chain: int
    update: int
    first_repeat: int = 0

    @classmethod
    def of_worker(cls, seed: int, chain: int, worker: int, count: int, first_repeat: int = 0) -> "Address":
        """Where the noise lives that a worker makes itself, for its gradient number ``count``.

        The worker takes the place of the upper bits of an update's number. Where workers make the noise, their server
        makes none, so that no address is used twice.
        """
        return cls(as_int64(seed), chain, (worker << 32) | count, first_repeat)


@dataclass(frozen=True, kw_only=True)
class Kernel(Declared, ABC):
    """Base of all samplers.

    Args:
        step_size: h, a number or a schedule l ↦ h_l (:mod:`stalegrad.kernels.schedules`); or ``"auto"``, to have
            :func:`stalegrad.sample` find one before it begins, in coordinates that it finds as well.
        temperature: T; the chain samples p(θ|D)^(1/T). 1 is the posterior, and 0 optimises. It may be a schedule
            l ↦ T_l (:mod:`stalegrad.kernels.temperatures`), such as those of :meth:`after_optimising` and
            :meth:`in_cycles`; where the formulas below have T it is then that of the update, see :meth:`at`.
    """

    step_size: float | Schedule | Literal["auto"] = AUTO
    temperature: Any = 1.0  # a number, or a schedule; a number in every method of a kernel that at() gives
    schedule: Schedule = field(init=False, repr=False, compare=False)
    heat: Schedule | None = field(init=False, repr=False, compare=False)

    updates: ClassVar[Update | tuple[Update, ...]] = ()
    """The formula of the state that :meth:`start` makes, or those of several kinds of state."""

    n_normals: ClassVar[int] = 1
    """How many normals a coordinate an update takes: none, or up to four."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("stalegrad.kernels.samplers."):
            SAMPLERS[cls.__name__] = cls
        if "updates" in vars(cls):
            for update in (cls.updates,) if isinstance(cls.updates, Update) else cls.updates:
                register(update, cls.n_normals, cls.noise_coefficient)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_schedule(self.step_size))
        object.__setattr__(self, "heat", as_temperature(self.temperature))
        object.__setattr__(self, "_tempered", self)  # the last kernel that at() has made
        if self.heat is not None and self.undecided:
            problem = "is found for one temperature, and this one changes"
            raise ArgumentError(self.missing[0], AUTO, problem, "Give a number, such as sg.find_step_size finds.")

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the numbers that are still to be found."""
        return ("step_size",) if isinstance(self.schedule, Auto) else ()

    @property
    def undecided(self) -> bool:
        """Whether any number is still to be found."""
        return bool(self.missing)

    def completed(self, numbers: Mapping[str, Any]) -> Self:
        """The same sampler with what was missing; what was given stays."""
        return replace(self, **{name: numbers[name] for name in self.missing})

    def for_model(self, n_data: int, batch_size: int) -> Self:
        """The kernel for a model of N data in minibatches of J. Only samplers that need the per-datum scale change."""
        return self

    def with_step_size(self, step_size: float | Schedule) -> Self:
        """The same sampler with another step size."""
        return replace(self, step_size=step_size)

    def at(self, update: int) -> Self:
        """The kernel with T_l of an update as its temperature: itself, unless the temperature changes."""
        if self.heat is None:
            return self
        temperature, known = float(self.heat(update)), vars(self)["_tempered"]
        if known is self or known.temperature != temperature:
            known = replace(self, temperature=temperature)
            object.__setattr__(self, "_tempered", known)
        return cast(Self, known)

    @property
    def stages(self) -> Stages:
        """Which updates sample; all of them, unless the temperature says otherwise."""
        return stages(self.temperature)

    def after_optimising(self, updates: int, step_size: float | Schedule | None = None) -> Self:
        """The same sampler after so many updates at T = 0, of which none is kept.

        Args:
            updates: of the first stage, in which gradients alone move the chain.
            step_size: of that stage; None for the sampler's own.

        >>> from stalegrad.kernels import SGLD
        >>> kernel = SGLD(step_size=1e-3).after_optimising(500, step_size=1e-2)
        >>> kernel.schedule(499), kernel.at(499).temperature, kernel.schedule(500), kernel.at(500).temperature
        (0.01, 0.0, 0.001, 1.0)
        """
        changes: dict[str, Any] = {"temperature": Changed(0.0, self.temperature, updates)}
        if step_size is not None:
            changes["step_size"] = Changed(step_size, self.step_size, updates)  # type: ignore[arg-type]
        return replace(self, **changes)

    def in_cycles(self, period: int, explore: float = 0.8, floor: float = 0.0) -> Self:
        """Cyclical SG-MCMC (Zhang et al., ICLR 2020): in every cycle the step size falls from the sampler's to 0.

        The first part of a cycle explores at T = 0 and is not kept; the rest samples.

        Args:
            period: updates of a cycle.
            explore: the share of a cycle that explores.
            floor: added to the step size, see :class:`~stalegrad.kernels.schedules.Cyclical`.

        >>> from stalegrad.kernels import SGLD
        >>> SGLD(step_size=1e-3).in_cycles(1000).stages
        Stages(begin=0, cycle=1000, explore=800)
        """
        if not isinstance(self.schedule, Constant) or callable(self.temperature):
            problem = "changes already, and its cycles are made of numbers"
            raise ArgumentError("kernel", self, problem, "Give the sampler a step_size and a temperature in numbers.")
        share = real_number("explore", explore, least=0)
        part = Exploration(period, round(share * period), self.temperature)
        return replace(self, step_size=Cyclical(self.schedule.value, period, floor), temperature=part)

    @abstractmethod
    def start(self, position: Array, address: Address) -> State:
        """The state of a chain that starts at ``position``; auxiliary variables come from their stationary law."""

    def point(self, state: State) -> Array:
        """Where the gradient of the next update is wanted: the state's ``point``, or else its position."""
        point: Array = getattr(state, "point", state[0])
        return point

    def momentum(self, state: State) -> Array | None:
        """q, with the stationary law N(0, T I), or None where the kernel has none."""
        return getattr(state, "momentum", None)

    def noise_at(self, state: State, address: Address) -> Array:
        """The standard normals that :meth:`advance` uses at this address, in the shape that :meth:`step` takes.

        One a coordinate, (R, n); of several (k, R, n).
        """
        seed, chain, update, repeat = address
        drawn = [
            normals(np.empty_like(state[0]), seed, stream, chain, update, first_repeat=repeat)
            for stream in STREAMS[: self.n_normals]
        ]
        return drawn[0] if self.n_normals == 1 else np.array(drawn, state[0].dtype)

    @abstractmethod
    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """The scalars in the formula, for an update with step h that is followed by one with step h_next."""

    def further(self, state: State) -> tuple[Any, ...]:
        """Arrays that the formula takes besides the state's, of the same shape."""
        return ()

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays (NumPy, JAX or torch), with normals like those of :meth:`noise_at`; pure."""
        c = self.coefficients(h, h if h_next is None else h_next)
        return loop_of(state).step(state, self.further(state), gradient, noise, c)

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One update in place, noise included, in one compiled pass over memory that releases the GIL.

        ``coefficients`` are those of :meth:`coefficients` as an array of the state's dtype, so that a chain with a
        constant step makes them once. ``split`` may give parts of the coordinates to several threads: the noise of a
        coordinate does not depend on who draws it, so the bits are the same.
        """
        loop = loop_of(state)
        if loop.compiles and split is whole:  # Python's time counts: it is that of a hundred coordinates
            loop.fused(*state, gradient, coefficients, *address, 0, gradient.shape[1])
            if loop.row is not None:
                state[loop.row][...] = loop.settle(state[loop.row], 0.0, coefficients)
        else:
            loop.advance(state, self.further(state), gradient, coefficients, address, split)

    def advance_given(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split, noise: Array
    ) -> None:
        """The same update, with the same bits, given the normals that ``kernels/fused.py`` ``fill_noise`` has made."""
        loop_of(state).advance(state, self.further(state), gradient, coefficients, address, split, noise)


def initial_momentum(position: Array, temperature: float, address: Address) -> Array:
    """q ~ N(0, T I), the stationary law of the momentum.

    >>> q = initial_momentum(np.zeros((1, 10_000)), 4.0, Address(seed=0, chain=0, update=0))
    >>> q.shape, round(float(q.std()), 1)
    ((1, 10000), 2.0)
    """
    momentum = start_normals(position, address)
    momentum *= momentum.dtype.type(np.sqrt(temperature))
    return momentum


def half_step_ahead(kernel: Kernel, position: Array, momentum: Array, address: Address) -> Array:
    """θ + (h/2) q, where a splitting that begins with a drift wants its first gradient."""
    point: Array = position + position.dtype.type(0.5 * kernel.schedule(address.update)) * momentum
    return point


def start_normals(position: Array, address: Address, stream: Stream = Stream.START) -> Array:
    """Standard normals for a chain's start, one a coordinate; a kernel that needs several has a stream for each."""
    seed, chain, update, first_repeat = address
    return normals(np.empty_like(position), seed, stream, chain, update, first_repeat=first_repeat)
