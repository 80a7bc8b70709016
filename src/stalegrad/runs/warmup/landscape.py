"""Where the posterior has its mass and how wide it is: a mode, and pilot chains from there or from the start."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.curvature import MOST_DENSE, stretched
from stalegrad.runs.warmup.mode import Mode, dense_mode, refined
from stalegrad.runs.warmup.model import PART, Counter, Fixed, PilotModel
from stalegrad.runs.warmup.modes import OtherMode, other_mode
from stalegrad.runs.warmup.options import Warmup
from stalegrad.runs.warmup.pilot import Pilot, pilot
from stalegrad.runs.warmup.scales import units
from stalegrad.runs.warmup.steepness import Steepness, steepness
from stalegrad.runs.warmup.wide import looked_over, wide_mode

_MISLEADING = 2.5  # a correction of a scale, or a shift in standard deviations, beyond which a mode was no guide
_WIDE_BUDGET = 3000  # gradients of the pilot where there are many parameters
_WORK = 5e7  # data times parameters of a part that is looked at
_POINTS = 16
_FEW = 200  # parameters up to which other modes are looked for
_MOVES = 2  # to a mode that has more of the posterior
_AGREE = 1.2  # R-hat of pilot chains that have come to the same place


class Landscape(NamedTuple):
    """What is known of the posterior before steps are chosen."""

    mode: bool
    """Whether a mode was found."""
    pilot: Pilot
    steep: Steepness
    """At draws of the pilot, in its coordinates."""
    concerns: tuple[str, ...]


def explore(
    potential: Potential,
    start: Array,
    options: Warmup,
    *,
    temperature: float,
    budget: int,
    seed: int,
    counter: Counter,
    report: Report,
) -> Landscape:
    """A mode and pilot chains from there; where it misleads, or there is none, pilot chains from the start as well.

    Where next to nothing of the posterior is there, and most of it at another mode, all of it once more from that one.

    Args:
        potential: the model.
        start: θ_0.
        options: of the warm-up.
        temperature: T of the run.
        budget: gradients of the pilot chains.
        seed: of everything random.
        counter: is told what is spent.
        report: is told how far it is.
    """
    report("looking for the mode", 0.0)
    dense = options.coordinates == "dense" or (options.coordinates == "auto" and potential.size <= MOST_DENSE)
    rows = max(potential.batch_size, min(PART, int(_WORK / potential.size)))
    part = Fixed(potential, rows if potential.n_data > 2 * rows else None, counter, seed)
    origin = np.asarray(start, np.float64)
    model = PilotModel(potential, counter)
    budget = budget if dense else min(budget, _WIDE_BUDGET)

    def look_over(coordinates: Coordinates) -> Coordinates:
        generator = np.random.Generator(np.random.Philox(key=seed))
        return coordinates if coordinates.form == "diagonal" else looked_over(part, coordinates, generator)

    def walk(coordinates: Coordinates, spread: float) -> Pilot | None:
        try:
            return pilot(
                model, coordinates, temperature=temperature, budget=budget, seed=seed, report=report, spread=spread,
                look_over=look_over,
            )  # fmt: skip
        except GradientError:
            return None

    def looked_at(origin: Array) -> tuple[Mode, Pilot]:
        mode = _mode(potential, part, origin, dense, options, counter, seed)
        seen = walk(mode.coordinates, 1.0) if mode.found else None
        if dense and (seen is None or max(seen.correction, seen.shift) > _MISLEADING):
            report("pilot chains from the start", 0.5)
            dtype = potential.dtype
            around = Coordinates(origin.astype(dtype), scale=units(part, origin).astype(dtype))
            other = walk(stretched(around, np.eye(potential.size)), 0.1)
            if other is not None and (seen is None or _better(other, seen)):
                seen = other
        if seen is None:
            seen = pilot(model, mode.coordinates, temperature=temperature, budget=budget, seed=seed, report=report)
        return mode, seen

    def beside(seen: Pilot) -> OtherMode | None:
        if not dense or potential.size > _FEW:
            return None
        report("looking for other modes", 0.8)
        return other_mode(part, seen.coordinates, seen.draws, seed)

    mode, seen = looked_at(origin)
    elsewhere = beside(seen)
    for _ in range(_MOVES):
        if elsewhere is None or not elsewhere.heavier(part):
            break
        mode, seen = looked_at(elsewhere.place)
        elsewhere = beside(seen)
    flat = seen.draws.reshape(-1, potential.size)
    points = flat[np.linspace(0, len(flat) - 1, _POINTS if dense else _POINTS // 4).astype(int)]
    steep = steepness(InCoordinates(part, seen.coordinates).full_gradient, points, potential.dtype, seed)
    return Landscape(mode.found, seen, steep, _concerns(mode, seen, elsewhere))


def _mode(
    potential: Potential, part: Fixed, origin: Array, dense: bool, options: Warmup, counter: Counter, seed: int
) -> Mode:
    if not dense:
        return wide_mode(part, origin.astype(potential.dtype), low_rank=options.coordinates != "diagonal", seed=seed)
    mode = dense_mode(part, origin)
    if mode.found and not part.whole:
        return refined(Fixed(potential, None, counter, seed), mode.coordinates, rounds=1) or mode
    return mode


def _better(one: Pilot, other: Pilot) -> bool:
    """Whether chains have settled more."""
    return (one.rhat - 1) * max(one.correction, one.shift) < (other.rhat - 1) * max(other.correction, other.shift)


def _concerns(mode: Mode, seen: Pilot, other: OtherMode | None) -> tuple[str, ...]:
    found = []
    if other is not None:
        found.append(
            f"there is another mode {other.distance:.3g} standard deviations away, where the density is "
            f"{np.exp(-other.height):.2g} times that here: chains that start here do not get there"
        )
    if seen.rhat > _AGREE:
        found.append(
            f"the pilot chains do not agree (R-hat {seen.rhat:.2f}): several modes, or directions that mix very slowly"
        )
    if not mode.found and seen.correction > _MISLEADING:
        found.append("there is no mode, and the pilot chains were still finding new places when they ended")
    return tuple(found)
