"""Which data a gradient looks at, as a pure function of whose gradient it is.

A minibatch has an address: (seed, chain, repeat, worker, count), where count says that it is the worker's k-th. No
generator is carried along, so a run that is resumed, replayed or spread over other machines sees the same minibatches.

All schemes turn the words of :mod:`stalegrad.kernels.noise.philox` into bounded integers ⌊w·m / 2⁶⁴⌋ with 64-bit w,
whose probabilities differ from 1/m by less than 2⁻⁶⁴: with N data, relatively by less than N / 2⁶⁴.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import IntArray
from stalegrad.kernels.noise.philox import MAX_CHAINS, MAX_COUNT, MAX_REPEATS, MAX_WORKERS
from stalegrad.potentials.minibatches.draws import IN_ORDER, draw, draw_many

MAX_DATA = (1 << 32) - 1
SCHEMES = ("subset", "replacement", "reshuffle")  # in the order of the codes in draws.py


@dataclass(frozen=True)
class Minibatches:
    """J of N data for every address.

    Args:
        n_data: N, the number of data, below 2³².
        batch_size: J, from 1 to N.
        scheme: how the J are drawn, one of

            ``"subset"``
                Without replacement: every set of J data is equally likely, and different addresses are independent.
                The order within a minibatch is not random. Floyd's algorithm, time O(J).
            ``"replacement"``
                J independent uniform draws; a datum may come twice.
            ``"reshuffle"``
                Each worker of each chain walks through a permutation of the data of its own, and through a fresh one
                in each epoch of ⌊N/J⌋ minibatches: within an epoch it never sees a datum twice, and it misses only
                the last N mod J places of the permutation. Up to N = 256 every permutation is equally likely
                (Fisher-Yates, time O(N)). Beyond, the permutation is a keyed pseudo-random one (an eight-round
                Feistel network, time O(J)): uniform as far as our tests of single data and pairs can tell,
                but not each of the N! permutations can occur.

    With J = N, ``"subset"`` and ``"reshuffle"`` give all data in order, and the gradient is exact.

    >>> batches = Minibatches(n_data=1000, batch_size=4)
    >>> batches.draw(seed=1, chain=0, worker=2, count=7)
    array([238, 702, 172, 753])
    >>> batches.draw_many(seed=1, chain=0, workers=[2, 0], counts=[7, 7], repeats=3).shape
    (2, 3, 4)
    """

    n_data: int
    batch_size: int
    scheme: str = "subset"
    _code: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n_data = checks.whole_number("n_data", self.n_data, least=1, most=MAX_DATA)
        batch_size = checks.whole_number("batch_size", self.batch_size, least=1)
        if batch_size > n_data:
            problem = f"is more than the {n_data} data there are"
            raise ArgumentError("batch_size", batch_size, problem, f"Give a whole number from 1 to {n_data}.")
        code = SCHEMES.index(checks.one_of("scheme", self.scheme, SCHEMES))
        if batch_size == n_data and self.scheme != "replacement":
            code = IN_ORDER
        object.__setattr__(self, "n_data", n_data)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "_code", code)

    @classmethod
    def of(cls, n_data: int, batch_size: int | None, scheme: str) -> "Minibatches":
        """As the constructor, but ``batch_size=None`` means all data in order, whatever the scheme."""
        if batch_size is None:
            checks.one_of("scheme", scheme, SCHEMES)
            return cls(n_data, n_data)
        return cls(n_data, batch_size, scheme)

    @property
    def for_compiled_code(self) -> tuple[int, int, int]:
        """What :func:`stalegrad.potentials.minibatches.draws.minibatch` has to know: the scheme's code, N and J."""
        return self._code, self.n_data, self.batch_size

    def draw(self, seed: int, chain: int, worker: int, count: int, repeat: int = 0) -> IntArray:
        """The indices, (J,) int64, of minibatch ``count`` of ``worker`` in ``chain``."""
        if not (
            type(seed) is type(chain) is type(worker) is type(count) is type(repeat) is int
            and 0 <= seed < 1 << 64
            and 0 <= chain < MAX_CHAINS
            and 0 <= worker < MAX_WORKERS
            and 0 <= count < MAX_COUNT
            and 0 <= repeat < MAX_REPEATS
        ):  # the quick look above is for the hot path; this is the thorough one
            seed, chain, repeat, _ = _address(seed, chain, repeat, 1)
            worker = checks.whole_number("worker", worker, most=MAX_WORKERS - 1)
            count = checks.whole_number("count", count, most=MAX_COUNT - 1)
        out = np.empty(self.batch_size, np.int64)
        draw(self._code, self.n_data, seed & 0xFFFFFFFF, seed >> 32, chain, repeat, worker, count, out)
        return out

    def draw_outside_run(self, seed: int, count: int) -> IntArray:
        """A minibatch that no worker of a run draws, from a separate epoch: two of one epoch share no datum."""
        return self.draw(seed, 0, MAX_WORKERS - 1, count * (self.n_data // self.batch_size))

    def draw_many(
        self, seed: int, chain: int, workers: Any, counts: Any, repeats: int, first_repeat: int = 0
    ) -> IntArray:
        """Minibatches of B addresses for R repetitions, (B, R, J) int64.

        Entry [b, r] is what ``draw`` gives for ``workers[b]``, ``counts[b]`` and repeat ``first_repeat + r``.
        """
        seed, chain, first_repeat, repeats = _address(seed, chain, first_repeat, repeats)
        workers, counts = _whole_numbers("workers", workers), _whole_numbers("counts", counts)
        if workers.shape != counts.shape:
            problem = f"has length {counts.size}, but workers has length {workers.size}"
            raise ArgumentError("counts", counts, problem, "Give one count for each worker.")
        out = np.empty((workers.size, repeats, self.batch_size), np.int64)
        bad = draw_many(
            self._code, self.n_data, seed & 0xFFFFFFFF, seed >> 32, chain, first_repeat, workers, counts, out
        )
        if bad >= 0:
            checks.whole_number(f"workers[{bad}]", workers[bad], most=MAX_WORKERS - 1)
            checks.whole_number(f"counts[{bad}]", counts[bad], most=MAX_COUNT - 1)
        return out


def _address(seed: int, chain: int, first_repeat: int, repeats: int) -> tuple[int, int, int, int]:
    first_repeat = checks.whole_number("repeat", first_repeat, most=MAX_REPEATS - 1)
    return (
        checks.whole_number("seed", seed, most=(1 << 64) - 1),
        checks.whole_number("chain", chain, most=MAX_CHAINS - 1),
        first_repeat,
        checks.whole_number("repeats", repeats, least=1, most=MAX_REPEATS - first_repeat),
    )


def _whole_numbers(name: str, values: Any) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        problem = f"has shape {array.shape} and type {array.dtype}"
        raise ArgumentError(name, values, problem, "Give a vector of whole numbers.")
    return np.ascontiguousarray(array, np.int64)
