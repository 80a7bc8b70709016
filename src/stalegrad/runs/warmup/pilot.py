"""Short chains that see where the posterior has its mass, and correct the coordinates by it, window by window."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.kernels import Harmonic
from stalegrad.kernels.noise import MAX_CHAINS, MAX_SEED
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.executor import execute
from stalegrad.protocol.trace import Trace
from stalegrad.runs.warmup.curvature import MOST_DENSE, stretched
from stalegrad.runs.warmup.model import PilotModel
from stalegrad.runs.warmup.steepness import steepness

_CHAIN = MAX_CHAINS - 2  # noise and minibatches of the pilot are nobody else's
_ROWS, _FEWER_ROWS = 8, 4  # chains side by side; the second where there are many parameters
_SHORTEST = 64  # updates of a window
_FIRST_WINDOW, _GROWTH = 20.0, 1.7  # in units of time, in which a well of curvature 1 forgets once
_FRICTION = 1.5
_STEP = 0.6  # of the inverse root of the largest curvature seen
_LONGEST = 0.5
_TRIES = 8
_KEPT = 400  # draws of a chain, at most
_MOST_NUMBERS = 1 << 25  # of all draws together
_SURE = 4.0  # standard errors
_CHANCE = 0.01  # that the worst of all parameters looks worse than it is, where there are many
_SURPRISING = 2.5  # standard errors of a variance
_PRIOR_DRAWS = 5  # that a scale found from curvature is worth
_HOT = 1.5  # times the temperature: a step that heats momenta so much is too long


LookOver = Callable[[Coordinates], Coordinates]


@dataclass(frozen=True)
class Pilot:
    """What the pilot chains have seen.

    Args:
        coordinates: corrected by it.
        draws: (chain, draw, n), of the last window, in these coordinates.
        rhat: of their worst coordinate.
        correction: the largest ratio of a standard deviation found to the one that was expected, either way.
        shift: how far the mean was from the centre, in standard deviations, at most.
        relaxation: time in which the slowest coordinate forgets.
        windows: how many there were.
    """

    coordinates: Coordinates
    draws: Array
    rhat: float
    correction: float
    shift: float
    relaxation: float
    windows: int


class _Seen(NamedTuple):
    mean: Array
    covariance: Array
    """(n, n), or its diagonal where there are many parameters."""
    effective: float
    """Independent draws that they are worth."""
    rhat: float
    relaxation: float
    """In draws."""

    @property
    def variances(self) -> Array:
        """Of every coordinate."""
        return np.diag(self.covariance) if self.covariance.ndim == 2 else self.covariance


def pilot(
    model: PilotModel,
    coordinates: Coordinates,
    *,
    temperature: float,
    budget: int,
    seed: int,
    report: Report,
    spread: float = 1.0,
    look_over: LookOver = lambda coordinates: coordinates,
) -> Pilot:
    """Chains from around the centre, in windows that grow, with coordinates that follow.

    Args:
        model: U.
        coordinates: to begin with.
        temperature: T of the run.
        budget: gradients of the pilot's model.
        seed: of the run.
        report: is told how far it is.
        spread: standard deviation of the starts, in z.
        look_over: what is done to coordinates that are not dense when they have been moved.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    dense = coordinates.factor is not None
    rows = _ROWS if dense else _FEWER_ROWS
    points = (spread * generator.standard_normal((rows, model.size))).astype(model.dtype)
    span, spent, window = _FIRST_WINDOW, 0, 0
    correction = shift = 1.0
    while True:
        target = InCoordinates(model, model.anchored(coordinates))
        fixed = partial(target.gradient, indices=model.minibatches.draw_outside_run(seed, window))
        worst = steepness(fixed, points[:2], model.dtype, seed + window)
        h = min(_LONGEST, _STEP / sqrt(max(worst.largest, 1e-6)))
        left = budget - spent
        steps = max(_SHORTEST, min(ceil(span / h), left // rows))
        report("pilot chains", 0.3 + 0.5 * min(1.0, spent / budget))
        draws, h = _walk(target, points, h, steps, temperature, (seed + 1 + window) % MAX_SEED)
        spent += steps * rows
        seen = _look(draws)
        window += 1
        correction, shift = _correction(seen, coordinates), float(np.abs(seen.mean).max())
        as_expected = _as_expected(seen)
        settled = window > 1 and seen.rhat < 1.1 and (as_expected or (correction < 1.3 and shift < 0.3))
        every = steps / draws.shape[1]
        last = settled or left - steps * rows < _SHORTEST * rows
        if not as_expected:
            updated = corrected(coordinates, seen) if dense else look_over(moved(coordinates, seen, draws))
            z = updated.inverse(coordinates.original(draws))
            coordinates, draws = updated, z
        if last:
            return Pilot(coordinates, draws, seen.rhat, correction, shift, seen.relaxation * every * h, window)
        points = np.ascontiguousarray(draws[:, -1], model.dtype)
        span *= _GROWTH


def corrected(coordinates: Coordinates, seen: _Seen) -> Coordinates:
    """Dense coordinates with mean and covariance of what was seen, as far as it is worth."""
    share = seen.effective / (seen.effective + 5)
    return stretched(coordinates, np.linalg.cholesky(_shrunk(seen, coordinates.size)), share * seen.mean)


def moved(coordinates: Coordinates, seen: _Seen, draws: Array) -> Coordinates:
    """The other forms with another centre, and other units of those parameters whose spread chance does not explain.

    With many parameters a few short chains know less of most scales than the curvature does. But along some the
    posterior may be far wider than its curvature at the mode, and these set the pace of all. Of where the mean is draws
    know more than the mode does: it moves by James and Stein's rule, as far as it is farther than chance explains.

    Args:
        coordinates: of low rank, or diagonal.
        seen: what the draws say in z.
        draws: (chain, draw, n), in z.
    """
    assert coordinates.scale is not None, "of these forms"
    worth, dtype = seen.effective, coordinates.centre.dtype
    away = float(np.square(seen.mean).mean())
    share = max(0.0, 1 - 1 / (away * worth)) if away > 0 else 0.0
    theta = np.stack([coordinates.original(chain) for chain in draws])
    ratio = theta.var(axis=(0, 1), dtype=np.float64) / coordinates.variances()
    surprising = np.abs(np.log(np.maximum(ratio, 1e-12))) > _SURPRISING * np.sqrt(2 / worth)
    wider = np.where(surprising, np.sqrt((worth * ratio + _PRIOR_DRAWS) / (worth + _PRIOR_DRAWS)), 1.0)
    centre = coordinates.original((share * seen.mean).astype(dtype))
    return replace(coordinates, centre=centre, scale=(coordinates.scale * wider).astype(dtype))


def _as_expected(seen: _Seen) -> bool:
    """Whether mean 0 and covariance I explain what was seen: a curvature that was measured is better than few draws.

    The eigenvalues of the covariance of m independent normal draws lie within (1 ± √(n/m))². Half of the draws that
    there seem to be count, and a quarter is allowed for a posterior that is not quite normal.
    """
    size, worth = len(seen.mean), seen.effective / 2
    if np.abs(seen.mean).max() > 0.1 + _SURE / np.sqrt(worth):
        return False
    if seen.covariance.ndim == 1:
        return bool(np.abs(np.log(seen.covariance)).max() < 0.25 + _SURE * np.sqrt(2 / worth))
    values, edge = np.linalg.eigvalsh(seen.covariance), np.sqrt(size / worth)
    return bool(values[-1] < 1.25 * (1 + edge) ** 2 and values[0] > max(0.0, 1 - edge) ** 2 / 1.25)


def _correction(seen: _Seen, coordinates: Coordinates) -> float:
    """The largest ratio of a standard deviation seen to 1, either way, as far as it is worth."""
    if coordinates.factor is not None:
        values = np.linalg.eigvalsh(_shrunk(seen, coordinates.size))
    else:
        share = seen.effective / (seen.effective + 5)
        values = np.sort(share * seen.variances + 1 - share)
    return float(np.sqrt(max(values[-1], 1 / max(values[0], 1e-12))))


def _shrunk(seen: _Seen, size: int) -> Array:
    """Between the covariance seen and the identity, which was expected: by how many draws it rests on."""
    share = seen.effective / (seen.effective + size + 10)
    return np.asarray(share * seen.covariance + (1 - share) * np.eye(size))


def _walk(
    target: InCoordinates, points: Array, h: float, steps: int, temperature: float, seed: int
) -> tuple[Array, float]:
    """The second half of the draws of each chain, (chain, draw, n), and the step size: smaller where chains got hot.

    The momentum's temperature tells a step that is too long before anything overflows: where a flat place has a steep
    wall, chains that run into it are thrown far away, and would come back only slowly.
    """
    sound = None
    for _ in range(_TRIES):
        kernel = Harmonic(step_size=h, friction=_FRICTION, temperature=temperature)
        chain = Chain(kernel, points, seed, _CHAIN)
        most = max(4, min(_KEPT, _MOST_NUMBERS // points.size))
        keep = np.unique(np.linspace(steps // 2, steps - 1, most).astype(int))
        kept = np.empty((len(points), len(keep), target.size), np.float64)
        places = {int(update): place for place, update in enumerate(keep)}
        heat = np.zeros(len(keep))

        def record(
            update: int,
            chain: Chain,
            gradient: Array,
            places: dict[int, int] = places,
            kept: Array = kept,
            heat: Array = heat,
        ) -> None:
            if update in places:
                kept[:, places[update]] = chain.position
                heat[places[update]] = float(
                    np.square(np.asarray(chain.kernel.momentum(chain.state), np.float64)).mean()
                )

        try:
            with np.errstate(all="ignore"):
                execute(Trace.constant_staleness(0, steps).chains[0], target, chain, record)
            if np.isfinite(kept).all() and np.abs(kept).max() < 1e8:
                sound = kept, h
                if heat.mean() < _HOT * temperature:
                    return sound
        except GradientError:
            pass
        h /= 3
    if sound is not None:
        return sound
    raise GradientError(
        f"the pilot chains of the warm-up overflow even with step_size={h:.3g}. Give initial= a point with a finite "
        "gradient, or warmup=None and a kernel with all its numbers"
    )


def _look(draws: Array) -> _Seen:
    """Mean, covariance and how much they are worth."""
    chains, count, size = draws.shape
    flat = draws.reshape(-1, size)
    mean = flat.mean(axis=0)
    centred = flat - mean
    dense = size <= MOST_DENSE
    covariance = centred.T @ centred / (len(flat) - 1) if dense else centred.var(axis=0)
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = draws.mean(axis=1).var(axis=0, ddof=1)
    total = within * (count - 1) / count + between
    excess = float(np.max(between / np.maximum(within, 1e-300)))
    if not dense:  # the largest of thousands: what chance makes of it is no disagreement
        from scipy.stats import chi2  # it takes a while to import

        excess /= float(chi2.isf(_CHANCE / size, chains - 1)) / (chains - 1)
    rhat = float(np.sqrt((count - 1) / count + excess))
    # variance of chain means: total/count · integrated time
    time = np.maximum(1.0, count * between / np.maximum(total, 1e-300))
    typical = float(np.median(time))
    return _Seen(mean, covariance, chains * count / typical, rhat, float(time.max()) / 2)
