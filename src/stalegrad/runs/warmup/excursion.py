"""Whether chains come back from as far as a run of this length will take them: tried, with momenta that are rare."""

from math import ceil, inf, log, sqrt

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.types import Array
from stalegrad.kernels import Kernel
from stalegrad.kernels.noise import MAX_CHAINS
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.architectures import Architecture
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.executor import execute
from stalegrad.protocol.trace import Trace

_CHAIN = MAX_CHAINS - 4  # noise and minibatches of excursions are nobody else's
_RARE = 1e-3  # chance that a run has a momentum as large anywhere
_TIME = 20.0  # by then an excursion is over: a friction of 0.5 leaves e⁻⁵ of it
_SHARE, _MOST = 0.5, 10_000  # of the updates of a chain of the run, and updates, of all rows together
_MOST_ROWS, _FEWER_ROWS = 64, 8  # the second where there are many parameters
_MANY = 1000  # parameters
_GONE = 100.0  # times as far as a chain may be: it does not come back


def come_back(
    kernel: Kernel,
    target: InCoordinates,
    draws: Array,
    architecture: Architecture,
    *,
    workers: int,
    staleness: int,
    steps: int,
    seed: int,
    far: float,
) -> tuple[bool, int]:
    """Whether chains that were pushed come back, and how many gradients it took to see it.

    A chain of late gradients may be stable where it mostly is and run away from further out: there the force is another
    one than that of the well which the server knows, and comes half a period late. On an ordinal regression with eight
    workers that was five standard deviations away along the logarithm of a gap, which 20,000 updates reach about every
    tenth time, and trial chains that start at draws do not. Nor does a longer step make it more likely to be seen: what
    counts is the phase in which late gradients arrive.

    The law of the momentum is N(0, T) in every model, so that what a run will meet is known: among L updates of n
    coordinates one has a momentum above √(2T log(Ln/p)) with a probability below p. A chain with such a momentum
    has the energy of the rarest places of the run, and its own motion takes it there. Pushed are the directions along
    which a single parameter goes furthest, Sᵀ e_i, to either side; where there are too many, those of the parameters
    whose draws are least normal. Where steps are so short that not even two chains can be afforded, nobody is pushed.

    Args:
        kernel: with the step that is asked about.
        target: the model in the coordinates of the run, on its minibatches.
        draws: (chain, draw, n), of the pilot, in z.
        architecture: that makes the run.
        workers: W.
        staleness: τ.
        steps: of a chain of the run.
        seed: of everything random.
        far: beyond it no chain belongs, in z.
    """
    h = float(kernel.schedule(0))
    updates = min(ceil(_TIME / h), steps)
    pairs = int(min(min(_SHARE * steps, _MOST) / updates, _MOST_ROWS if target.size <= _MANY else _FEWER_ROWS)) // 2
    flat = draws.reshape(-1, target.size)
    if pairs == 0:
        return True, 0
    pushed = _directions(target, flat, pairs)
    directions = np.concatenate([pushed, -pushed])
    rows = len(directions)
    points = np.ascontiguousarray(flat[np.linspace(0, len(flat) - 1, rows).astype(int)], target.dtype)
    chain = architecture.chain(kernel, Place(points, seed, _CHAIN), workers)
    momentum = kernel.momentum(chain.state)
    if momentum is None:
        return True, 0
    momentum[...] = sqrt(2 * kernel.temperature * log(steps * target.size / _RARE)) * directions
    chain.restore(0, chain.snapshot())  # it looks ahead from its new momentum
    furthest = inf

    def record(update: int, chain: Chain, gradient: Array) -> None:
        nonlocal furthest
        furthest = float(np.abs(chain.position).max())
        if not furthest < _GONE * far:
            raise GradientError("it has gone")

    try:
        with np.errstate(all="ignore"):
            trace = Trace.constant_staleness(min(staleness, updates), updates).chains[0]
            execute(trace, architecture.work(target, [kernel], workers), chain, record)
    except (GradientError, ArithmeticError):
        return False, rows * updates
    return furthest < far, rows * updates


def _directions(target: InCoordinates, flat: Array, count: int) -> Array:
    """Unit vectors in z, (count, n): of so many parameters, or of all again and again where there are fewer."""
    theta = target.original(flat.astype(target.dtype)).astype(np.float64)
    standard = (theta - theta.mean(axis=0)) / np.maximum(theta.std(axis=0), 1e-300)
    order = np.argsort(-np.abs((standard**3).mean(axis=0)), kind="stable")
    units = np.zeros((min(count, target.size), target.size), target.dtype)
    units[np.arange(len(units)), order[: len(units)]] = 1
    pulled = target.coordinates.pulled(units)
    pulled /= np.linalg.norm(pulled, axis=1, keepdims=True)
    return pulled[np.arange(count) % len(pulled)]
