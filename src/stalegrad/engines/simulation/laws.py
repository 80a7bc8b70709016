"""How long a worker takes for a gradient: laws of compute time, addressed by (seed, chain, worker, count).

A number in place of a law means :class:`Constant`. ``factors`` makes stragglers: a mapping from worker to how many
times slower it is, or a sequence with one factor per worker.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np

from stalegrad._internal.elementary import circle64, log64
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.kernels.noise import Stream
from stalegrad.kernels.noise.philox import philox, worker_counter

Factors = Mapping[int, float] | Sequence[float]
_DELAY = int(Stream.DELAY)
_FACTORS = "Give one factor per worker, or a mapping from worker to factor."


def _exponential_and_normal(seed: int, chain: int, worker: int, count: int) -> tuple[float, float]:
    """A unit exponential and a standard normal, made from one Philox block; use one of them."""
    both: tuple[float, float] = _from_block(seed & 0xFFFFFFFF, seed >> 32, chain, worker, count)
    return both


@compiled
def _from_block(key0, key1, chain, worker, count):  # type: ignore[no-untyped-def]
    """The key comes in two words: as one Python int, a seed of 2⁶³ and more is too big for compiled code's int64."""
    c1, c2, c3 = worker_counter(_DELAY, chain, 0, worker, count)
    a, b, c, d = philox(np.uint64(0), c1, c2, c3, np.uint64(key0), np.uint64(key1))
    exponential = -log64((np.float64(a) + (np.float64(b) + 0.5) * 2.0**-32) * 2.0**-32)
    return exponential, np.sqrt(2.0 * exponential) * circle64(c, d)[0]


@dataclass(frozen=True, kw_only=True)
class Law(ABC):
    """A law of compute times in seconds.

    >>> isinstance(Exponential(0.02), Law)
    True
    >>> law = Constant(0.02, factors={1: 3.0})
    >>> [law.seconds(seed=0, chain=0, worker=worker, count=0) for worker in (0, 1)]
    [0.02, 0.06]
    """

    factors: Factors = ()

    def __post_init__(self) -> None:
        if not isinstance(self.factors, Iterable):
            raise ArgumentError("factors", self.factors, "is neither a sequence nor a mapping", _FACTORS)
        if isinstance(self.factors, Mapping):
            self._keep(factors={w: real_number("factors", factor, above=0) for w, factor in self.factors.items()})
        else:
            self._keep(factors=tuple(real_number("factors", factor, above=0) for factor in self.factors))

    def _keep(self, **checked: Any) -> None:
        """Numbers as Python's own, so that times are float64 whatever was given."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def check_workers(self, workers: int) -> None:
        """Refuse factors that do not fit the number of workers."""
        if isinstance(self.factors, Mapping):
            for worker in self.factors:
                whole_number("factors", worker, most=workers - 1)
        elif len(self.factors) not in (0, workers):
            problem = f"has {len(self.factors)} entries for {workers} workers"
            raise ArgumentError("factors", self.factors, problem, _FACTORS)

    def seconds(self, seed: int, chain: int, worker: int, count: int) -> float:
        """How long this worker takes for its minibatch number ``count``."""
        if isinstance(self.factors, Mapping):
            factor = self.factors.get(worker, 1.0)
        else:
            factor = self.factors[worker] if self.factors else 1.0
        return factor * self._seconds(seed, chain, worker, count)

    @abstractmethod
    def _seconds(self, seed: int, chain: int, worker: int, count: int) -> float: ...


@dataclass(frozen=True)
class Constant(Law):
    """A duration without randomness: always ``value``.

    >>> Constant(2.0).seconds(seed=0, chain=0, worker=0, count=0)
    2.0
    """

    value: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep(value=real_number("value", self.value, least=0))

    def _seconds(self, seed: int, chain: int, worker: int, count: int) -> float:
        return self.value


@dataclass(frozen=True)
class Exponential(Law):
    """Memoryless, with the given mean: the law under which a worker's lateness says nothing of what is left.

    >>> Exponential(mean=2.0).seconds(seed=0, chain=0, worker=0, count=0) > 0
    True
    """

    mean: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep(mean=real_number("mean", self.mean, above=0))

    def _seconds(self, seed: int, chain: int, worker: int, count: int) -> float:
        return self.mean * _exponential_and_normal(seed, chain, worker, count)[0]


@dataclass(frozen=True)
class LogNormal(Law):
    """Right-skewed, with the given mean and ``variation`` = standard deviation / mean, as measured on real machines.

    >>> law = LogNormal(mean=2.0, variation=0.5)
    >>> times = [law.seconds(seed=0, chain=0, worker=0, count=count) for count in range(2_000)]
    >>> 1.9 < sum(times) / 2_000 < 2.1
    True
    """

    mean: float
    variation: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep(mean=real_number("mean", self.mean, above=0))
        self._keep(variation=real_number("variation", self.variation, least=0))

    def _seconds(self, seed: int, chain: int, worker: int, count: int) -> float:
        variance = log(1 + self.variation**2)  # of the logarithm
        z = _exponential_and_normal(seed, chain, worker, count)[1]
        return self.mean * exp(sqrt(variance) * z - variance / 2)


@dataclass(frozen=True, kw_only=True)
class Several(Law):
    """An answer that takes several gradients, one after the other; each takes as long as another law says.

    Args:
        of: the law of a gradient; it knows who is slow.
        numbers: the gradients behind an answer, given seed, chain, worker and the answer's number.
    """

    of: Law
    numbers: Callable[[int, int, int, int], range]

    def check_workers(self, workers: int) -> None:
        """Refuse factors that do not fit the number of workers."""
        self.of.check_workers(workers)

    def _seconds(self, seed: int, chain: int, worker: int, count: int) -> float:
        return sum(self.of.seconds(seed, chain, worker, k) for k in self.numbers(seed, chain, worker, count))


@dataclass(frozen=True)
class Network:
    """The server's link: every message takes ``latency`` on the way, and occupies the link for its size / bandwidth.

    Gradients come in and points go out of the one link of a server, which is full duplex: messages queue for each
    direction apart. That queue is what limits one server with many workers.

    Args:
        latency: seconds one way.
        bandwidth: bytes a second each way.
        message_bytes: size of θ and of a gradient.
        gradient_bytes: of a gradient, where that is another; None for the same.

    >>> Network(latency=1e-4, bandwidth=1e9, message_bytes=4e6).transfer
    0.004
    """

    latency: float = 0.0
    bandwidth: float = inf
    message_bytes: float = 0.0
    gradient_bytes: float | None = None

    def __post_init__(self) -> None:
        real_number("latency", self.latency, least=0)
        real_number("message_bytes", self.message_bytes, least=0)
        if self.gradient_bytes is not None:
            real_number("gradient_bytes", self.gradient_bytes, least=0)
        if self.bandwidth != inf:
            real_number("bandwidth", self.bandwidth, above=0)

    @property
    def transfer(self) -> float:
        """Seconds that a point occupies the link."""
        return self.message_bytes / self.bandwidth

    @property
    def gradient_transfer(self) -> float:
        """Seconds that a gradient occupies the link."""
        return self.transfer if self.gradient_bytes is None else self.gradient_bytes / self.bandwidth

    @property
    def longer_transfer(self) -> float:
        """Seconds that an exchange occupies the direction which it occupies longer."""
        return max(self.transfer, self.gradient_transfer)


def as_law(name: str, value: Any) -> Law:
    """A number becomes :class:`Constant`."""
    return value if isinstance(value, Law) else Constant(real_number(name, value, least=0))


def as_network(value: Any) -> Network:
    """None is a network without delay; a number is a latency."""
    if isinstance(value, Network):
        return value
    return Network() if value is None else Network(latency=real_number("network", value, least=0))
