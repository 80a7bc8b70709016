"""Whether chains stand the step that was chosen for them: tried, with the staleness that there will be."""

from math import inf, log, sqrt
from typing import NamedTuple

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
from stalegrad.runs.warmup.excursion import come_back

_CHAIN = MAX_CHAINS - 3  # noise and minibatches of trials are nobody else's
_ROWS, _FEWER_ROWS = 8, 2  # the second where there are many parameters
_MANY = 1000  # parameters
_SHARE = 1.0  # of the updates of a chain of the run, of all rows of a trial together
_FEWEST, _MOST = 150, 2500  # updates of a row
_MARGIN = 1.4  # the step of a trial is so many times the one that it is for
_SHORTER, _SHORTEST = 1.25, 2.0  # a step that is not stood becomes so many times shorter, by how hot it makes chains
_TRIALS, _PUSHES = 12, 8  # how often a step is shortened because it is hot, and because chains do not come back
_OUTSIDE = 4.0  # times as far as any draw of the pilot: there no chain belongs
_SETTLING = 0.1  # of a trial, that the temperature does not count
_HOT = 3.0  # times the bias: 1.4 times a step doubles the error of a sampler of order 2, and half as much for chance
_CHANCE = 0.01  # that a step that heats nothing is shortened


class Trial(NamedTuple):
    """A step that trial chains were made with, and whether they stand it."""

    kernel: Kernel
    """With a step that chains stand, or the best of those that were tried."""
    gradients: int
    """What it took."""
    problem: str
    """What chains do at every step that was tried; "" if they stand this one."""
    heat_known: bool
    """Whether the momentum of that sampler says how hot it is."""

    @property
    def stood(self) -> bool:
        """Whether chains stand that step."""
        return not self.problem


def stood(
    kernel: Kernel,
    target: InCoordinates,
    draws: Array,
    architecture: Architecture,
    *,
    workers: int,
    staleness: int,
    steps: int,
    bias: float,
    seed: int,
) -> Trial:
    """The sampler with a step at which trial chains neither overflow nor leave nor get hot, and come back from afar.

    The theory of a sampler is one of Gaussian targets. Where the curvature changes from place to place, as in the tail
    of a skewed posterior or at the steep walls of a flat one, a chain may be thrown out of a place that it seldom
    visits, so it is sent there before. Long before it overflows, the work that a wall does on it shows in its momentum,
    whose mean square is T along every coordinate if the step is right: on separable classes, two weights under a vague
    prior, the step that makes it 10 % too hot puts means a tenth of a standard deviation off. With a step that is cool
    chains are then pushed as far out as the run will go, and must come back (:mod:`stalegrad.runs.warmup.excursion`).

    Args:
        kernel: with the step that theory allows.
        target: the model in the coordinates of the run, on its minibatches.
        draws: (chain, draw, n), of the pilot, in z.
        architecture: that makes the run.
        workers: W.
        staleness: τ.
        steps: of a chain of the run.
        bias: the error of a variance that is allowed.
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
        heat = _heat(trial, target, points, architecture, workers, min(staleness, updates), updates, seed + number, far)
        if heat <= _HOT * bias:
            break
        kernel = kernel.with_step_size(h / min(max(sqrt(1 + heat), _SHORTER), _SHORTEST))
    else:
        problem = f"leave or get hot at every step that was tried, down to {float(kernel.schedule(0)):.2g}"
        return Trial(kernel, spent, problem, _tells_heat(kernel))
    shorter = kernel
    for number in range(_PUSHES):
        back, taken = come_back(
            shorter, target, draws, architecture, workers=workers, staleness=staleness, steps=steps, seed=seed + number,
            far=far,
        )  # fmt: skip
        spent += taken
        if back:
            return Trial(shorter, spent, "", _tells_heat(shorter))
        least = float(shorter.schedule(0))
        shorter = shorter.with_step_size(least / _SHORTER)
    # As in a funnel: a step for its neck would be none for all else.
    problem = f"do not come back from where a run will take them, at any step down to {least:.2g}"
    return Trial(kernel, spent, problem, _tells_heat(kernel))


def _heat(
    kernel: Kernel, target: InCoordinates, points: Array, architecture: Architecture, workers: int, staleness: int,
    updates: int, seed: int, far: float,
) -> float:  # fmt: skip
    """By how much the momenta of trial chains are hotter than they should be, beyond chance; inf if a chain leaves."""
    chain = architecture.chain(kernel, Place(points.copy(), seed, _CHAIN), workers)
    settled, squares = int(_SETTLING * updates), np.zeros(points.shape[1])

    def record(update: int, chain: Chain, gradient: Array) -> None:
        nonlocal squares
        if not float(np.abs(chain.position).max()) < far:
            raise GradientError("it has left")
        momentum = chain.kernel.momentum(chain.state)
        if momentum is not None and update >= settled:
            squares += np.square(np.asarray(momentum, np.float64)).mean(axis=0)

    try:
        with np.errstate(all="ignore"):
            trace = Trace.constant_staleness(staleness, updates).chains[0]
            execute(trace, architecture.work(target, [kernel], workers), chain, record)
    except (GradientError, ArithmeticError):
        return inf
    h = float(kernel.schedule(0))
    expected = kernel.free_kinetic_temperature(h)
    if expected is None or not _tells_heat(kernel):
        return 0.0
    excess = squares / ((updates - settled) * expected) - 1
    return max(
        float(excess.max()) - _by_chance(kernel, h, len(points), updates - settled, len(excess)),
        float(excess.mean()) - _by_chance(kernel, h, len(points) * len(excess), updates - settled, 1),
    )


def _tells_heat(kernel: Kernel) -> bool:
    """Whether the mean square of its momentum is known, and no thermostat makes it so."""
    return kernel.free_kinetic_temperature(float(kernel.schedule(0))) is not None and kernel.thermostat is None


def _by_chance(kernel: Kernel, h: float, rows: int, updates: int, entries: int) -> float:
    """How hot the hottest of some coordinates looks at T: squares of a momentum forget in the time 2/B at most.

    A normal deviate exceeds √(2 log(k/p)) with a probability below p/k.
    """
    friction = kernel.fixed_friction or 1.0
    independent = rows * max(1.0, min(updates, updates * h * friction / 2))
    return sqrt(2 / independent) * sqrt(2 * log(entries / _CHANCE))
