"""What a job takes on the machine at hand: a gradient, an update, and the round trips of short real runs."""

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError, GradientError
from stalegrad._internal.types import Array
from stalegrad.engines import Engine, Inline, available_cores
from stalegrad.kernels import Harmonic, Kernel
from stalegrad.planning.timing import RoundTrip, call_seconds, median_and_variation, round_trip
from stalegrad.potentials import Minibatches, Potential
from stalegrad.protocol.chain import Chain
from stalegrad.runs.failures import RunFailed
from stalegrad.runs.jobs import JobFile
from stalegrad.runs.prepare import kernels_for, prepare
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample
from stalegrad.runs.step_sizes import with_everything_found

BATCH_FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Minibatches of so many times J are timed."""

_MOST_WORKERS = 8  # that are started for a calibration
_TRIALS = 3  # runs of each layout here, of which the middle one counts
_ROUNDS = 2  # runs with each number of workers, of which the faster counts: others may use the machine too
_FEWEST_ROUNDS = 8  # gradients of each worker in a run, however long they take
_FIRST_GUESS = 2e-4  # seconds of an exchange, before any has been seen
_MOST_CALLS, _FEWEST_CALLS = 2000, 3
_DRAWS = 4  # kept of a run: where to measure the curvature
_SHRINK, _ATTEMPTS = 1e-2, 4  # the step size of a job that diverges, to measure its times nevertheless

Report = Callable[[str], None]
"""Called with what is being done."""


@dataclass(frozen=True)
class Calibration:
    """Seconds on the machine at hand.

    Args:
        engine: with which round trips were measured.
        cores: that this process may use.
        servers: S of those runs.
        parameters: n.
        message_bytes: of θ and of a gradient in memory.
        wire_bytes: of a point and of a gradient as they travel.
        n_data: N.
        batch_size: J.
        gradients: seconds of a gradient computed in this thread, by minibatch size: medians.
        variation: of the gradients at J: spread over mean, from quartiles, which interruptions do not move.
        update: seconds of an update of a chain in this thread: the median.
        busy_elsewhere: share of the processor's time that others took from this thread while it computed.
        round_trips: of real runs, by increasing number of workers; the first has one.
        diverged: whether the chain diverged at the job's step size, so that a smaller one was used for the runs.
        process_bytes: memory that this process, which has the model and its data, has taken at most.

    >>> trips = (RoundTrip(1, 0.02, 0.001, 45.0, 0.0), RoundTrip(2, 0.02, 0.001, 88.0, 1.0))
    >>> measured = Calibration(
    ...     engine="processes", cores=2, servers=1, parameters=20, message_bytes=160, wire_bytes=(160, 160),
    ...     n_data=10_000, batch_size=100, gradients={50: 0.012, 100: 0.02}, variation=0.1, update=0.001,
    ...     busy_elsewhere=0.0, round_trips=trips,
    ... )
    >>> f"{measured.exchange * 1e3:.1f} ms", f"{measured.gradient_seconds(200) * 1e3:.0f} ms"
    ('1.2 ms', '36 ms')
    """

    engine: str
    cores: int
    servers: int
    parameters: int
    message_bytes: int
    wire_bytes: tuple[int, int]
    n_data: int
    batch_size: int
    gradients: dict[int, float]
    variation: float
    update: float
    busy_elsewhere: float
    round_trips: tuple[RoundTrip, ...]
    diverged: bool = False
    process_bytes: float = 0.0

    @property
    def alone(self) -> RoundTrip:
        """The round trip of a single worker."""
        return self.round_trips[0]

    @property
    def exchange(self) -> float:
        """Seconds of a single worker's round trip that are neither gradient nor server: messages and waking up."""
        return max(0.0, 1 / self.alone.updates_per_second - self.alone.gradient - self.alone.served)

    def gradient_seconds(self, batch_size: int) -> float:
        """Of a worker, for minibatches of another size: a straight line through what was timed, never falling.

        The line gives the ratio to J; its level is that of the worker in a real run.
        """
        sizes = np.array(list(self.gradients), np.float64)
        seconds = np.array(list(self.gradients.values()))
        if len(sizes) < 2:
            return self.alone.gradient
        slope, fixed = np.polyfit(sizes, seconds, 1)
        slope, fixed = max(float(slope), 0.0), max(float(fixed), 0.0)
        at_job = fixed + slope * self.batch_size
        return self.alone.gradient * (fixed + slope * batch_size) / at_job if at_job > 0 else self.alone.gradient


class Measured(NamedTuple):
    """A calibration, and a short run of the job whose draws say where the chain went."""

    calibration: Calibration
    run: Run
    kernels: tuple[Kernel, ...]
    warmed_up: bool
    """Whether a warm-up has found step sizes, in coordinates of its own."""
    target: Potential
    """The model, in those coordinates."""


def calibrate(
    job: JobFile, potential: Potential, *, seconds: float = 20.0, seed: int = 0, report: Report = lambda what: None
) -> Measured:
    """Time gradients at several minibatch sizes, an update, and real runs with one, two and a few more workers.

    Args:
        job: what is to be run: its kernel, engine, servers and staleness bound are used.
        potential: its model.
        seconds: to spend, about; starting processes and compiling code come on top.
        seed: of the runs.
        report: called with what is being measured.

    Raises:
        ArgumentError: the job's engine is inline, whose time is virtual.

    >>> from stalegrad.runs.jobs import JobFile
    >>> kernel = {"name": "SGLD", "step_size": 1e-3}
    >>> job = JobFile.from_table({"steps": 100, "model": "stalegrad.testing:small_model", "kernel": kernel})
    >>> measured = calibrate(job, job.potential(), seconds=0.2).calibration
    >>> measured.parameters, measured.update > 0
    (5, True)
    """
    engine = job.engine_object()
    if isinstance(engine, Inline):
        remedy = "Give one whose workers are real, such as --engine threads or --engine processes."
        raise ArgumentError("engine", job.engine, "has no times to measure: its time is virtual", remedy)
    kernels = kernels_for(job.kernels(potential.n_data) or Harmonic(), job.settings.servers, potential)
    report("gradients at several minibatch sizes")
    gradients, variation, busy = _time_gradients(potential, seconds / 5, seed)
    warmed_up = any(kernel.undecided for kernel in kernels)
    if warmed_up:
        report("coordinates and step sizes that work")
        settings = replace(job.settings, seed=seed)
        found = with_everything_found(
            prepare(potential, kernels, settings, engine="inline"), job.warmup_object(), burn_in=0,
            own_architecture=True, progress=False,
        )  # fmt: skip
        potential, kernels = found.target, found.kernels
    report("updates")
    update = _time_updates(potential, kernels[0], seconds / 20, seed)
    runs = _Runs(job, potential, kernels, engine, seed)
    report(f"starting {job.engine}")
    runs.warm_up()
    cores = available_cores()
    counts = worker_counts(cores, job.settings.servers)
    each = 0.75 * seconds / (len(counts) * _ROUNDS)
    guess = 1 / (gradients[potential.batch_size] + update + _FIRST_GUESS)
    best: dict[int, tuple[RoundTrip, Run]] = {}
    for turn in range(_ROUNDS):
        for count in counts:  # by turns: a slow second hurts all alike
            report(f"a run with {count} worker{'s' * (count != 1)} a chain, {turn + 1} of {_ROUNDS}")
            known = best[1][0].updates_per_second if 1 in best else guess
            at_once = max(1.0, min(count, cores / job.settings.servers))
            measured = runs.measure(count, round(each * known * at_once))
            if count not in best or measured[0].updates_per_second > best[count][0].updates_per_second:
                best[count] = measured
    calibration = Calibration(
        engine=job.engine,
        cores=cores,
        servers=job.settings.servers,
        parameters=potential.size,
        message_bytes=potential.size * potential.dtype.itemsize,
        wire_bytes=job.settings.wire.message_bytes(potential.size, potential.dtype.itemsize),
        n_data=potential.n_data,
        batch_size=potential.batch_size,
        gradients=gradients,
        variation=variation,
        update=update,
        busy_elsewhere=busy,
        round_trips=tuple(best[count][0] for count in counts),
        diverged=runs.diverged,
        process_bytes=_process_bytes(),
    )
    return Measured(calibration, best[1][1], kernels, warmed_up, potential)


def measure_layouts(
    job: JobFile,
    measured: Measured,
    wanted: Sequence[tuple[int, int]],
    *,
    seconds: float,
    seed: int = 0,
    report: Report = lambda what: None,
) -> dict[tuple[int, int], RoundTrip]:
    """Short real runs of so many chains with so many workers each, (S, W), all at once on this machine.

    Chains that share a machine share its cores, its memory and, on most engines, the process of their servers, so that
    S of them are not S times as fast as one. How fast they are nothing but a run tells.

    Args:
        job: what is to be run.
        measured: its calibration.
        wanted: (S, W) of each run.
        seconds: to spend, about.
        seed: of the runs.
        report: called with what is being measured.
    """
    kernels, known = measured.kernels, measured.calibration.alone.updates_per_second
    each = seconds / max(1, len(wanted) * _TRIALS)
    trips: dict[tuple[int, int], list[RoundTrip]] = {layout: [] for layout in wanted}
    for turn in range(_TRIALS):
        for servers, workers in wanted:  # by turns: a slow second hurts all alike
            report(f"{servers} × {workers} workers here, {turn + 1} of {_TRIALS}")
            here = replace(job, settings=replace(job.settings, servers=servers))
            chains = tuple(kernels[s % len(kernels)] for s in range(servers))
            runs = _Runs(here, measured.target, chains, job.engine_object(), seed)
            at_once = min(workers, measured.calibration.cores / servers)
            trip, _ = runs.measure(workers, round(each * known * at_once))
            trips[servers, workers].append(trip)
    middle = _TRIALS // 2  # not the best: threads that share cores fall into step in some runs and not in others
    return {layout: sorted(of, key=lambda trip: trip.updates_per_second)[middle] for layout, of in trips.items()}


def _process_bytes() -> float:
    """The most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def worker_counts(cores: int, servers: int) -> tuple[int, ...]:
    """How many workers a chain to measure with: one, two, and as many as have a core each, eight in all at most.

    >>> worker_counts(2, 1), worker_counts(64, 1), worker_counts(64, 16)
    ((1, 2), (1, 2, 8), (1, 2, 4))
    """
    return tuple(sorted({1, 2, max(2, min(cores // servers, _MOST_WORKERS))}))


class _Runs:
    """Short runs of a job, with a smaller step size if the job's own makes it diverge."""

    def __init__(
        self, job: JobFile, potential: Potential, kernels: tuple[Kernel, ...], engine: Engine, seed: int
    ) -> None:
        self._job, self._potential, self._kernels, self._engine, self._seed = job, potential, kernels, engine, seed
        self.diverged = False

    def warm_up(self) -> None:
        """A few updates that are not timed: code is compiled, files are read."""
        self._run(1, _FEWEST_ROUNDS)

    def measure(self, workers: int, steps: int) -> tuple[RoundTrip, Run]:
        """One run of so many updates a chain, but at least some of each worker."""
        run = self._run(workers, max(steps, _FEWEST_ROUNDS * workers))
        return round_trip(run, workers), run

    def _run(self, workers: int, steps: int) -> Run:
        job, problem = self._job, ""
        for _ in range(_ATTEMPTS):
            try:
                return sample(
                    self._potential, self._kernels, steps=steps, workers=workers, servers=job.settings.servers,
                    max_staleness=job.settings.max_staleness, policy=job.settings.policy, seed=self._seed,
                    architecture=job.settings.architecture, engine=self._engine, thin=max(1, steps // _DRAWS),
                    progress=False,
                )  # fmt: skip
            except (GradientError, RunFailed) as error:
                problem = str(error)
                self.diverged = True
                self._kernels = tuple(k.with_step_size(_SHRINK * float(k.schedule(0))) for k in self._kernels)
        raise GradientError(f"the job cannot be measured, not even with steps of a millionth of its own: {problem}")


def _time_gradients(potential: Potential, seconds: float, seed: int) -> tuple[dict[int, float], float, float]:
    """Median seconds by minibatch size, their relative spread at J, and the share of time that others took."""
    sizes = sorted({min(max(1, round(f * potential.batch_size)), potential.n_data) for f in BATCH_FACTORS})
    point, scheme = potential.initial()[None], potential.minibatches.scheme
    medians, variation = {}, 0.0
    begun, worked = time.perf_counter(), time.process_time()
    for size in sizes:
        out, batches = np.empty_like(point), Minibatches(potential.n_data, size, scheme)

        def compute(count: int, out: Array = out, batches: Minibatches = batches) -> None:
            potential.gradients(point, batches.draw(seed, 0, 0, count)[None], out)

        medians[size], spread = median_and_variation(_seconds(compute, seconds / len(sizes)))
        if size == potential.batch_size:
            variation = spread
    passed = time.perf_counter() - begun
    return medians, variation, max(0.0, 1 - (time.process_time() - worked) / passed)


def _time_updates(potential: Potential, kernel: Kernel, seconds: float, seed: int) -> float:
    """Median seconds of an update with a gradient of 0, which no step size makes diverge."""
    start = potential.initial()[None]
    chain, gradient = Chain(kernel, start, seed, 0), np.zeros_like(start)
    return float(np.median(_seconds(lambda count: chain.advance(gradient), seconds)))


def _seconds(action: Callable[[int], object], budget: float) -> list[float]:
    return call_seconds(action, most=_MOST_CALLS, least=_FEWEST_CALLS, budget=budget)
