"""One Markov chain: a kernel, its state, and how many updates it has had."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from stalegrad._internal.errors import GradientError, NotFinite, StoreError
from stalegrad._internal.jit import as_int64, compiled
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel
from stalegrad.kernels.fused import Split, fill_noise, loop_of, room_for_noise, whole
from stalegrad.kernels.schedules import Constant
from stalegrad.potentials.wire.formats import EXACT, Counter, WireFormat
from stalegrad.protocol.draws import Window


class Chain:
    """The state of one chain, or of R repetitions of it that differ in their randomness alone.

    Args:
        kernel: the sampler.
        position: θ_0, of shape (R, n); it is copied.
        seed: the run's seed.
        chain: which chain of the run this is; with the seed it names the noise.
        first_repeat: number of the first repetition.
        split: how the coordinates of an update are given to threads.

    ``position`` is θ_l and ``point`` is where the next gradient is wanted: arrays (R, n) that every update overwrites.

    A chain of an architecture of its own (:mod:`stalegrad.protocol.architectures`) carries more and says so in
    :meth:`_arrays`, or sends workers other points, see :meth:`point_for`.
    """

    per_worker_points: ClassVar[bool] = False
    """Whether workers are sent different points at the same version."""

    needs_all: ClassVar[bool] = False
    """Whether each worker has a part that no other worker can take over."""

    wire: WireFormat = EXACT
    """How points travel to workers."""

    def __init__(
        self,
        kernel: Kernel,
        position: Array,
        seed: int,
        chain: int,
        first_repeat: int = 0,
        split: Split = whole,
    ) -> None:
        self.kernel, self._split = kernel, split
        self.version = 0
        self.seed, self.chain, self.first_repeat = seed, chain, first_repeat
        self._key = as_int64(seed)
        start = np.array(position, order="C", ndmin=2)
        self.state = kernel.at(0).start(start, self._address())
        self.position: Array = self.state[0]
        self.point: Array = kernel.point(self.state)
        self._constant = kernel.schedule.value if isinstance(kernel.schedule, Constant) else None
        self._steps: tuple[float, float, Kernel] | None = None  # what the coefficients at hand are made of
        self._coefficients = np.empty(0, start.dtype)
        self._noise: Array | None = None
        self._noise_of: int | None = None  # the update whose normals are in there
        self._rounded: Array | None = None

    def snapshot(self) -> dict[str, Array]:
        """A copy of all that the chain carries from one update to the next, besides its version."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, version: int, arrays: Mapping[str, Array]) -> None:
        """Put the chain where it was when :meth:`snapshot` was taken, after ``version`` updates."""
        state = self._arrays()
        expected = {name: (array.shape, array.dtype) for name, array in state.items()}
        given = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        if given != expected:
            raise StoreError(f"the chain's saved state is {given}; its kernel needs {expected}")
        for name, array in state.items():
            array[...] = arrays[name]
        self.version = version
        self._steps = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Not the arrays as they are: position and point share memory with the state.
        return _rebuilt, (
            type(self), self._arguments(), self.position.copy(), self.version, self.snapshot(), self.wire
        )  # fmt: skip

    def _arrays(self) -> dict[str, Array]:
        """All that the chain carries, by name."""
        return {name: array for name, array in self.state._asdict().items() if array is not None}

    def _arguments(self) -> dict[str, Any]:
        """What makes such a chain, besides a position."""
        return {"kernel": self.kernel, "seed": self.seed, "chain": self.chain, "first_repeat": self.first_repeat}

    def point_for(self, worker: int, current: Array) -> Array:
        """The point that a worker is sent when ``current`` is the chain's: the same for all, unless they differ.

        A server asks when it sends, with its :attr:`point`; the executor of a trace asks when the answer lands, with
        the point of the version that the worker had read.
        """
        return current

    def as_sent(self, point: Array, version: int) -> Array:
        """A point of this version as it reaches workers: rounded, in an array that the next call overwrites, or itself.

        A server asks when it sends; the executor of a trace when the answer lands. Both round alike, by the version.
        """
        if not self.wire.rounds:
            return point
        if self._rounded is None:
            self._rounded = np.empty_like(point)
        counter = Counter.of_point(self.chain, version, self.first_repeat)
        return self.wire.point.round(point, self._rounded, self.seed, counter)

    @property
    def runs_in_blocks(self) -> bool:
        """Whether :mod:`stalegrad.protocol.block` knows all that an update does, which it does not of a subclass."""
        return type(self) is Chain

    @property
    def present_point(self) -> Array:
        """Where the kernel wants its gradient: :attr:`point`, unless workers are sent ahead of it."""
        return self.point

    def foresight_rows(self, updates: int, step_sizes: Array | None = None) -> tuple[Any, Array]:
        """For compiled loops: A and (α, c, s) of :class:`stalegrad.protocol.foresight.ForesightChain`, here none.

        Args:
            updates: of how many updates from here on.
            step_sizes: theirs, or None to follow the kernel's schedule.
        """
        return None, np.array([[1, 0, 0]], self.position.dtype)

    def weighted(self, gradient: Array, worker: int) -> Array:
        """What the chain makes of a worker's answer before it is used: by default nothing."""
        return gradient

    def apply(self, gradient: Array, worker: int, record: "Record", step_size: float | None = None) -> float:
        """The one way in which an answer (R, n), which has been checked, becomes an update; returns its step size.

        Real servers and the executor of a trace both call this. ``record`` is called with the update and the
        answer as it was used.
        """
        update = self.version
        used = self.weighted(gradient, worker)
        h = self.advance(used, step_size, worker)
        record(update, self, used)
        return h

    def advance(self, gradient: Array, step_size: float | None = None, worker: int = 0) -> float:
        """Update with the answer (R, n) of a worker as it is used; returns the step size."""
        h = self._choose_coefficients(step_size)
        if self._noise is not None and self._noise_of == self.version:
            of_update = gradient, self._coefficients, self._address(), self._split
            self.kernel.advance_given(self.state, *of_update, self._noise)
        else:
            self.kernel.advance(self.state, gradient, self._coefficients, self._address(), self._split)
        self.version += 1
        return h

    @property
    def can_prepare(self) -> bool:
        """Whether :meth:`prepare_noise` is of use: the kernel's updates are those of its formula, and take noise."""
        if not self.runs_in_blocks or type(self.kernel).advance is not Kernel.advance:
            return False
        self._choose_coefficients(None)
        return loop_of(self.state).makes_noise(self._coefficients)

    def prepare_noise(self) -> bool:
        """Make the noise of the next update before its gradient is there, unless that is done; whether it was not.

        It depends on nothing but the update's number, so the bits are the same. It is for idle moments of a server
        whose chain :attr:`can_prepare`.
        """
        if self._noise_of == self.version:
            return False
        if self._noise is None:
            self._noise = room_for_noise(self.state)
        fill_noise(self._noise, self._key, self.chain, self.first_repeat, self.version)
        self._noise_of = self.version
        return True

    def advanced(self, updates: int) -> None:
        """So many updates were made outside, on :attr:`state`, with :meth:`coefficient_rows`."""
        self.version += updates

    def coefficient_rows(self, updates: int, step_sizes: Array | None = None) -> tuple[Array, Array]:
        """The coefficients of the next updates, one row each or one for all, and the step sizes these are made with.

        Args:
            updates: how many.
            step_sizes: their step sizes, or None to follow the kernel's schedule.
        """
        constant, kernel = self._constant, self.kernel
        same = constant is not None and (step_sizes is None or bool(np.all(step_sizes == constant)))
        if constant is not None and same and kernel.heat is None:
            pairs, used = [(constant, constant)], np.full(updates, constant)
        else:
            ahead = np.array([float(kernel.schedule(self.version + k)) for k in range(updates + 1)])
            used = ahead[:-1] if step_sizes is None else np.asarray(step_sizes, np.float64)
            pairs = list(zip(used.tolist(), ahead[1:].tolist(), strict=True))
        rows = [kernel.at(self.version + k).coefficients(*pair) for k, pair in enumerate(pairs)]
        return np.array(rows, self.position.dtype), used

    @property
    def key(self) -> int:
        """The seed as compiled code takes it."""
        return self._key

    def _choose_coefficients(self, step_size: float | None) -> float:
        """Have those of this update at hand; returns its step size."""
        kernel = self.kernel if self.kernel.heat is None else self.kernel.at(self.version)
        h, h_next = self._step_sizes(step_size)
        known = self._steps
        if known is None or known[0] != h or known[1] != h_next or known[2] is not kernel:
            self._coefficients = np.array(kernel.coefficients(h, h_next), self.position.dtype)
            self._steps = h, h_next, kernel
        return h

    def _step_sizes(self, step_size: float | None) -> tuple[float, float]:
        """h of this update and of the next one."""
        h = self._constant  # asked first: this runs at every update
        if h is not None:
            return (h if step_size is None else step_size), h
        schedule = self.kernel.schedule
        return float(schedule(self.version)) if step_size is None else step_size, float(schedule(self.version + 1))

    def _address(self) -> Address:
        return Address(self._key, self.chain, self.version, self.first_repeat)


class Record(ABC):
    """Called with every update of one chain, whose arrays the next update overwrites: it copies what it keeps."""

    @abstractmethod
    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        """Update number ``update``, counted from 0, has been made with this gradient."""

    def window(self, version: int, updates: int) -> tuple[Window, int] | None:
        """Where compiled code may write the draws of so many updates after ``version``, and for how many there is room.

        None if it must be called for every update.
        """
        return None

    def filled(self, version: int) -> None:
        """The updates up to ``version`` have been made, and their draws written into the window."""
        raise NotImplementedError("a record that gives a window must implement filled")


class Each(Record):
    """Calls a function of (update, chain, gradient) for each update.

    Args:
        function: it is called.
    """

    def __init__(self, function: Callable[[int, Chain, Array], object]) -> None:
        self._function = function

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        """Call the function with the same arguments."""
        self._function(update, chain, gradient)


def _rebuilt(
    kind: type[Chain],
    arguments: dict[str, Any],
    position: Array,
    version: int,
    arrays: Mapping[str, Array],
    wire: WireFormat,
) -> Chain:
    """A chain out of a pickle."""
    rebuilt = kind(position=position, **arguments)
    rebuilt.wire = wire
    rebuilt.restore(version, arrays)
    return rebuilt


def refuse_bad_gradient(gradient: Array, like: Array) -> None:
    """Raise :class:`GradientError` unless ``gradient`` has the shape and type of ``like`` and is finite."""
    if not isinstance(gradient, np.ndarray) or gradient.shape != like.shape or gradient.dtype != like.dtype:
        given = f"{getattr(gradient, 'dtype', type(gradient).__name__)} of shape {np.shape(gradient)}"
        raise GradientError(f"the gradient is {given}; wanted is {like.dtype} of shape {like.shape}")
    if not all_finite(gradient):
        bad = int(gradient.size - np.count_nonzero(np.isfinite(gradient)))
        raise NotFinite(f"{bad} of {gradient.size} {_NOT_FINITE}")


_NOT_FINITE = "entries of the gradient are NaN or infinite"


def is_not_finite(reason: str) -> bool:
    """Whether a gradient was refused for want of finite numbers, which is the chain's fault more often than not."""
    return _NOT_FINITE in reason


def diverged(chain: int, updates: int, reason: str) -> GradientError:
    """What to say of a chain that cannot go on, because no gradient at its point is finite."""
    if updates == 0:  # no step has been taken that could have been too long
        return GradientError(
            f"chain {chain} cannot begin: {reason}. Look for NaN and infinity in the data, or begin elsewhere: initial="
        )
    return NotFinite(
        f"chain {chain} has diverged after {updates:,} updates: {reason}. Use a smaller step_size; a stale chain is "
        "stable only while step_size · largest curvature · (staleness + ½) stays below about 1. If it is as small as "
        "that, look for NaN in the data"
    )


@compiled
def all_finite(values):  # type: ignore[no-untyped-def]
    """Whether a 2-d array has neither NaN nor infinity: x − x is 0 for finite x and NaN otherwise."""
    bad = 0
    for r in range(values.shape[0]):
        for i in range(values.shape[1]):
            bad += values[r, i] - values[r, i] != 0
    return bad == 0
