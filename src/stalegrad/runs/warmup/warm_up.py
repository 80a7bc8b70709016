"""The warm-up of a run, from its parts: found by the process that leads, and sent to all others."""

import base64
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.progress_bar import Report, progress_bar
from stalegrad._internal.tables import Table
from stalegrad._internal.text import printable
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.recommendation import OWNED
from stalegrad.analysis.diagnostics.step_finder import LEAST_GRADIENTS
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.natural import NaturalPotential
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.settings import Settings
from stalegrad.runs.prepare import Prepared, with_architecture, with_numbers
from stalegrad.runs.warmup.landscape import explore
from stalegrad.runs.warmup.large import MOST_WHITENED, found_for_network, memory_of
from stalegrad.runs.warmup.model import Counter
from stalegrad.runs.warmup.noise import with_less_noise
from stalegrad.runs.warmup.options import Warmup
from stalegrad.runs.warmup.record import WarmupRecord
from stalegrad.runs.warmup.starts import dispersed_starts
from stalegrad.runs.warmup.steepness import Steepness
from stalegrad.runs.warmup.steps import Conditions, chosen, forgetting
from stalegrad.runs.warmup.trial import Trial, stood

_LEAST_PILOT, _MOST_PILOT = 16_000, 40_000
_PILOT_SHARE = 0.25
_NOISY = 8.0  # times as long a step without noise is worth a word
_BURN_IN = 8.0  # times the time to forget
_UNEVEN = 30.0  # times as steep at some places as at most: a step must be shown to suit both
_INDEPENDENT = 100  # times that a chain forgets where it was, so that a step suits the wide places


class Found(NamedTuple):
    """What the process that leads has found."""

    coordinates: Coordinates | None
    numbers: list[dict[str, float]]
    """Those that each chain's kernel leaves to be found."""
    start: Array
    """z_0 of every chain."""
    burn_in: int
    record: Table


def can_warm_up(potential: Potential, kernels: Sequence[Kernel], settings: Settings) -> bool:
    """Whether a model can be looked at in other coordinates, and all chains sample its posterior there."""
    plain = not potential.addressed and not isinstance(potential, NaturalPotential) and potential.epoch == 1
    fit = all(k.has_theory() and not k.learns_metric and k.temperature > 0 for k in kernels if k.undecided)
    return plain and fit and settings.architecture.one_law


def staleness_by_turns(workers: int, max_staleness: int | None) -> int:
    """τ of workers that are equally fast, within the bound."""
    return workers - 1 if max_staleness is None else min(workers - 1, max_staleness)


def warmed_up(
    run: Prepared, options: Warmup, *, burn_in: int | None, own_architecture: bool, progress: bool
) -> Prepared:
    """The run with everything found that it leaves to be found.

    Args:
        run: as it was prepared.
        options: what the user says of the warm-up.
        burn_in: as given; None to choose it.
        own_architecture: whether the user gave one; if not, the server owns the linear part of gradients.
        progress: show a bar meanwhile, and say what was found.
    """
    large = run.potential.size > MOST_WHITENED
    if not own_architecture and not large:
        settings = replace(run.settings, architecture=OWNED)
        run = replace(run, settings=with_architecture(settings, run.potential, run.kernels, even=run.team.even))

    def find() -> Found:
        with progress_bar(shown=progress) as report:
            search = _Search(run, options, burn_in, report)
            found = search.run_for_network() if large else search.run()
        if progress:
            print(printable(str(WarmupRecord.from_table(found.record))), file=sys.stderr)
        return found

    found = run.team.broadcast(find, _encoded, _decoded)
    return replace(
        run, kernels=with_numbers(run.kernels, found.numbers, "Give a number."), start=found.start,
        initial=run.initial if found.coordinates is None else found.start, coordinates=found.coordinates,
        warmup=found.record, settings=replace(run.settings, burn_in=found.burn_in),
    )  # fmt: skip


class _Search:
    """One warm-up on its way."""

    def __init__(self, run: Prepared, options: Warmup, burn_in: int | None, report: Report) -> None:
        self._run, self._options, self._burn_in, self._report = run, options, burn_in, report
        self._potential, self._settings = run.potential, run.settings
        self._seed = run.settings.seed
        self._counter = Counter()
        self._concerns: list[str] = []
        self._hints: list[str] = []
        self._trials: dict[Kernel, Trial] = {}

    def run(self) -> Found:
        """Mode, coordinates, pilot, noise, steps, starts, burn-in."""
        potential, settings, options = self._potential, self._settings, self._options
        temperature = float(np.mean([kernel.temperature for kernel in self._run.kernels]))
        known = explore(
            potential, self._run.start[0], options, temperature=temperature, budget=self._budget(), seed=self._seed,
            counter=self._counter, report=self._report,
        )  # fmt: skip
        seen, steep = known.pilot, known.steep
        self._concerns += known.concerns
        self._report("noise and curvature", 0.85)
        noise = with_less_noise(potential, seen.coordinates, seen.draws, options, self._counter, self._seed)
        target = InCoordinates(potential, noise.coordinates)
        owned = settings.architecture.owned_along(np.full(potential.size, potential.size**-0.5))
        conditions = Conditions(
            staleness_by_turns(settings.workers, settings.max_staleness), max(1.0, steep.effective),
            max(1.0, steep.largest), noise.largest, settings.architecture, owned, settings.workers, options.bias,
        )  # fmt: skip
        self._report("step size and friction", 0.9)
        kernels = [self._tried(kernel, chosen(kernel, conditions), target, seen.draws) for kernel in self._run.kernels]
        numbers = [
            {name: float(getattr(full, name)) for name in kernel.missing}
            for kernel, full in zip(self._run.kernels, kernels, strict=True)
        ]
        self._advise_batch(conditions)
        memory = max(forgetting(kernel, conditions) for kernel in kernels)
        memory = max(memory, seen.relaxation / min(float(kernel.schedule(0)) for kernel in kernels))
        self._look_for_funnel(steep, memory)
        burn_in = self._burn_in_for(memory)
        start = dispersed_starts(target, seen.draws, settings.servers, options.dispersion, self._seed)
        data = self._counter.data
        record = WarmupRecord(
            mode=known.mode, coordinates=noise.coordinates.form, correction=seen.correction, shift=seen.shift,
            pilot_rhat=seen.rhat, curvature=steep.effective, steepest=steep.largest, noise=noise.largest,
            plain_noise=noise.plain, control_variates=noise.anchored, staleness=conditions.staleness,
            kernel=type(kernels[0]).__name__, numbers=tuple(numbers), forgetting=memory, burn_in=burn_in,
            burn_in_chosen=self._burn_in is None, gradients=ceil(data / potential.batch_size),
            passes=data / potential.n_data, concerns=tuple(self._concerns), hints=tuple(self._hints),
        )  # fmt: skip
        return Found(noise.coordinates, numbers, start, burn_in, record.table())

    def _tried(self, given: Kernel, kernel: Kernel, target: InCoordinates, draws: Array) -> Kernel:
        """The sampler with a step that chains stand, where it was found here."""
        if "step_size" not in given.missing:
            return kernel
        if kernel not in self._trials:
            settings = self._settings
            trial = stood(
                kernel, target, draws, settings.architecture, workers=settings.workers, steps=settings.steps,
                staleness=staleness_by_turns(settings.workers, settings.max_staleness), bias=self._options.bias,
                seed=self._seed,
            )  # fmt: skip
            self._counter.data += trial.gradients * self._potential.batch_size
            self._trials[kernel] = trial
            if not trial.stood:
                self._concerns.append(f"chains {trial.problem}")
        return self._trials[kernel].kernel

    def _look_for_funnel(self, steep: Steepness, memory: float) -> None:
        """Say so where U curves far more at some places than at most, unless one step is seen to suit them all.

        It suits the steep ones if trial chains get neither thrown out nor hot there, and the others if the run forgets
        where it was often enough: so it is at the steep walls of a posterior that is flat inside. In a funnel one of
        the two fails.
        """
        ratio = steep.largest / max(1.0, float(np.median(steep.points)))
        tried = len(self._trials) > 0 and all(trial.stood and trial.heat_known for trial in self._trials.values())
        if ratio > _UNEVEN and not (tried and self._settings.steps >= _INDEPENDENT * memory):
            self._concerns.append(
                f"U curves up to {ratio:.0f} times as much at some places as at most: no step suits both, as in a "
                "funnel. Reparametrise the model (non-centred), or use NUTS"
            )

    def run_for_network(self) -> Found:
        """Step size and friction alone, in the coordinates of θ."""
        self._report("step size and friction", 0.1)
        run, settings, options = self._run, self._settings, self._options
        staleness = staleness_by_turns(settings.workers, settings.max_staleness)
        budget = max(LEAST_GRADIENTS, min(self._budget(), settings.servers * settings.steps // 10))
        found = {
            kernel: found_for_network(
                run.potential, kernel, run.start[0], staleness=staleness, bias=options.bias, gradients=budget,
                seed=self._seed,
            )
            for kernel in dict.fromkeys(run.kernels)
        }  # fmt: skip
        numbers = [{name: float(getattr(found[k][0], name)) for name in k.missing} for k in run.kernels]
        first, how = found[run.kernels[0]]
        memory = max(memory_of(*one, staleness) for one in found.values())
        record = WarmupRecord(
            mode=False, coordinates="", correction=1.0, shift=0.0, pilot_rhat=1.0,
            curvature=0.0 if how is None else how.curvature, steepest=0.0 if how is None else how.curvature,
            noise=0.0 if how is None else how.noise, plain_noise=0.0 if how is None else how.noise,
            control_variates=False, staleness=staleness, kernel=type(first).__name__, numbers=tuple(numbers),
            forgetting=memory, burn_in=(burn_in := self._burn_in_for(memory)), burn_in_chosen=self._burn_in is None,
            gradients=sum(how.gradients for _, how in found.values() if how is not None), passes=0.0,
            concerns=tuple(self._concerns), hints=tuple(self._hints),
        )  # fmt: skip
        return Found(None, numbers, run.start, burn_in, record.table())

    def _advise_batch(self, conditions: Conditions) -> None:
        """Say so where minibatches are so noisy that theory has steps short; trials have other reasons."""
        quiet = replace(conditions, noise=0.0)
        steps = [
            [float(chosen(own, given).schedule(0)) for given in (quiet, conditions)]
            for own in self._run.kernels
            if own.undecided
        ]
        gains = [without / with_noise for without, with_noise in steps]
        if gains and max(gains) > _NOISY:
            potential = self._potential
            batch = min(potential.n_data, ceil(potential.batch_size * max(gains)))
            self._hints.append(
                f"the noise of minibatches of {potential.batch_size:,} makes steps {max(gains):.0f} times shorter than "
                f"the posterior needs: batch_size={batch:,} would mix about so much faster an update"
            )

    def _budget(self) -> int:
        if self._options.gradients is not None:
            return self._options.gradients
        run = self._settings.servers * self._settings.steps
        return int(min(max(_PILOT_SHARE * run, _LEAST_PILOT), _MOST_PILOT))

    def _burn_in_for(self, memory: float) -> int:
        if self._burn_in is not None:
            return self._burn_in
        settings = self._settings
        wanted, most = ceil(_BURN_IN * memory), max(0, (settings.steps - settings.thin) // 2)
        if wanted > most:
            self._hints.append(
                f"{settings.steps:,} steps are few: a chain forgets its start in about {memory:,.0f} updates. Give "
                f"steps={ceil(wanted * 20 / 1000) * 1000:,} or more"
            )
        return min(wanted, most)


def _encoded(found: Found) -> str:
    content = io.BytesIO()
    arrays = {} if found.coordinates is None else found.coordinates.arrays()
    np.savez(content, **{f"coordinates/{name}": array for name, array in arrays.items()}, start=found.start)  # type: ignore[arg-type]
    packed = base64.b64encode(content.getvalue()).decode()
    return json.dumps([packed, found.numbers, found.burn_in, found.record])


def _decoded(text: str) -> Found:
    packed, numbers, burn_in, record = json.loads(text)
    with np.load(io.BytesIO(base64.b64decode(packed)), allow_pickle=False) as opened:
        arrays = dict(opened)
    start = arrays.pop("start")
    coordinates = {name.removeprefix("coordinates/"): array for name, array in arrays.items()}
    return Found(Coordinates.from_arrays(coordinates) if coordinates else None, numbers, start, burn_in, record)


def refuse_missing(kernels: Sequence[Kernel]) -> None:
    """Without a warm-up a friction is not found."""
    for kernel in kernels:
        others: list[Any] = [name for name in kernel.missing if name != "step_size"]
        if others:
            raise ArgumentError(
                others[0], "auto", "is found by the warm-up alone, which this run does not have",
                "Give a number, or leave out warmup=None.",
            )  # fmt: skip
