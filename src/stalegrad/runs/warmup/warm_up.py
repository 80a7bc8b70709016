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
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.natural import NaturalPotential
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.settings import Settings
from stalegrad.runs.prepare import Prepared, with_architecture, with_numbers
from stalegrad.runs.warmup.landscape import explore
from stalegrad.runs.warmup.model import Counter
from stalegrad.runs.warmup.noise import with_less_noise
from stalegrad.runs.warmup.options import Warmup
from stalegrad.runs.warmup.record import WarmupRecord
from stalegrad.runs.warmup.starts import dispersed_starts
from stalegrad.runs.warmup.steps import Conditions, chosen, forgetting

_LEAST_PILOT, _MOST_PILOT = 8_000, 40_000
_PILOT_SHARE = 0.25
_BURN_IN = 8.0  # times the time to forget


class Found(NamedTuple):
    """What the process that leads has found."""

    coordinates: Coordinates | None
    numbers: list[dict[str, float]]
    """Those that each chain's kernel leaves to be found."""
    start: Array
    """z_0 of every chain."""
    burn_in: int
    record: Table


def can_warm_up(potential: Potential, settings: Settings) -> bool:
    """Whether a model can be looked at in other coordinates, and all chains sample its posterior."""
    plain = not potential.addressed and not isinstance(potential, NaturalPotential) and potential.epoch == 1
    return plain and settings.architecture.one_law


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
    if not own_architecture:
        settings = replace(run.settings, architecture=StaleGradients(linear=1.0))
        run = replace(run, settings=with_architecture(settings, run.potential, run.kernels, even=run.team.even))

    def find() -> Found:
        with progress_bar(shown=progress) as report:
            found = _Search(run, options, burn_in, report).run()
        if progress:
            print(printable(str(WarmupRecord.from_table(found.record))), file=sys.stderr)
        return found

    found = run.team.broadcast(find, _encoded, _decoded)
    return replace(
        run, kernels=with_numbers(run.kernels, found.numbers, "Give a number."), start=found.start,
        initial=found.start, coordinates=found.coordinates, warmup=found.record,
        settings=replace(run.settings, burn_in=found.burn_in),
    )  # fmt: skip


class _Search:
    """One warm-up on its way."""

    def __init__(self, run: Prepared, options: Warmup, burn_in: int | None, report: Report) -> None:
        self._run, self._options, self._burn_in, self._report = run, options, burn_in, report
        self._potential, self._settings = run.potential, run.settings
        self._seed = run.settings.seed
        self._counter = Counter()
        self._concerns: list[str] = []

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
        conditions = Conditions(
            staleness_by_turns(settings.workers, settings.max_staleness), max(1.0, steep.typical),
            max(1.0, steep.largest), noise.largest, settings.architecture, settings.workers, options.bias,
        )  # fmt: skip
        kernels = [chosen(kernel, conditions) for kernel in self._run.kernels]
        numbers = [
            {name: float(getattr(full, name)) for name in kernel.missing}
            for kernel, full in zip(self._run.kernels, kernels, strict=True)
        ]
        memory = max(forgetting(kernel, conditions) for kernel in kernels)
        memory = max(memory, seen.relaxation / min(float(kernel.schedule(0)) for kernel in kernels))
        burn_in = self._burn_in_for(memory)
        start = dispersed_starts(target, seen.draws, settings.servers, options.dispersion, self._seed)
        data = self._counter.data
        record = WarmupRecord(
            mode=known.mode, coordinates=noise.coordinates.form, correction=seen.correction, shift=seen.shift,
            pilot_rhat=seen.rhat, curvature=steep.typical, steepest=steep.largest, noise=noise.largest,
            plain_noise=noise.plain, control_variates=noise.anchored, staleness=conditions.staleness,
            kernel=type(kernels[0]).__name__, numbers=tuple(numbers), forgetting=memory, burn_in=burn_in,
            burn_in_chosen=self._burn_in is None, gradients=ceil(data / potential.batch_size),
            passes=data / potential.n_data, concerns=tuple(self._concerns),
        )  # fmt: skip
        return Found(noise.coordinates, numbers, start, burn_in, record.table())

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
            self._concerns.append(
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
