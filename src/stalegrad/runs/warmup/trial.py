"""Whether chains stand the step that was chosen for them: tried, with the staleness that there will be."""

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

_CHAIN = MAX_CHAINS - 3  # noise and minibatches of trials are nobody else's
_ROWS, _FEWER_ROWS = 8, 2  # the second where there are many parameters
_MANY = 1000  # parameters
_SHARE = 1.0  # of the updates of a chain of the run, of all rows of a trial together
_FEWEST, _MOST = 150, 2500  # updates of a row
_MARGIN = 1.4  # the step of a trial is so many times the one that it is for
_SHORTER = 1.5
_TRIALS = 10
_OUTSIDE = 4.0  # times as far as any draw of the pilot: there no chain belongs


def stood(
    kernel: Kernel,
    target: InCoordinates,
    draws: Array,
    architecture: Architecture,
    *,
    workers: int,
    staleness: int,
    steps: int,
    seed: int,
) -> tuple[Kernel, int]:
    """The sampler with a step at which trial chains neither overflow nor leave; and the gradients that it took.

    The theory of a sampler is one of Gaussian targets. Where the curvature changes from place to place, as in the tail
    of a skewed posterior, a chain may be thrown out of a place that it seldom visits, so it is sent there before.

    Args:
        kernel: with the step that theory allows.
        target: the model in the coordinates of the run, on its minibatches.
        draws: (chain, draw, n), of the pilot, in z.
        architecture: that makes the run.
        workers: W.
        staleness: τ.
        steps: of a chain of the run.
        seed: of everything random.
    """
    rows = _ROWS if target.size <= _MANY else _FEWER_ROWS
    updates = int(np.clip(_SHARE * steps / rows, _FEWEST, _MOST))
    flat = draws.reshape(-1, target.size)
    far = _OUTSIDE * float(np.abs(flat).max())
    points = np.ascontiguousarray(flat[np.linspace(0, len(flat) - 1, rows).astype(int)], target.dtype)
    spent = 0
    for number in range(_TRIALS):
        h = float(kernel.schedule(0))
        trial = kernel.with_step_size(_MARGIN * h)
        spent += rows * updates
        if _stays(trial, target, points, architecture, workers, min(staleness, updates), updates, seed + number, far):
            break
        kernel = kernel.with_step_size(h / _SHORTER)
    return kernel, spent


def _stays(
    kernel: Kernel, target: InCoordinates, points: Array, architecture: Architecture, workers: int, staleness: int,
    updates: int, seed: int, far: float,
) -> bool:  # fmt: skip
    chain = architecture.chain(kernel, Place(points.copy(), seed, _CHAIN), workers)
    farthest = 0.0

    def record(update: int, chain: Chain, gradient: Array) -> None:
        nonlocal farthest
        farthest = max(farthest, float(np.abs(chain.position).max()))
        if not farthest < far:
            raise GradientError("it has left")

    try:
        with np.errstate(all="ignore"):
            trace = Trace.constant_staleness(staleness, updates).chains[0]
            execute(trace, architecture.work(target, [kernel], workers), chain, record)
    except (GradientError, ArithmeticError):
        return False
    return bool(np.isfinite(farthest))
