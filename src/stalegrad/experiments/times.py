"""How fast workers are: measured with a real engine, and simulated with measured or assumed times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad.engines import Engine, Inline, Processes, Threads
from stalegrad.engines.simulation import LogNormal, Network, simulate
from stalegrad.kernels import Kernel
from stalegrad.planning.scaling import updates_per_second
from stalegrad.planning.timing import RoundTrip, call_seconds, median_and_variation, round_trip
from stalegrad.potentials import Potential
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.trace import Trace
from stalegrad.protocol.worker import Worker
from stalegrad.runs.sample import sample

ENGINES: dict[str, Callable[..., Any]] = {"threads": Threads, "processes": Processes, "inline": Inline}


@dataclass(frozen=True)
class Machine:
    """The times of a simulated cluster with a core for every worker.

    Args:
        gradient: mean seconds of a gradient.
        variation: its standard deviation over its mean.
        update: seconds that the server is busy with a gradient.
        latency: seconds that a message travels.
        bandwidth: bytes a second of the server's link.
    """

    gradient: float
    variation: float
    update: float
    latency: float
    bandwidth: float = float("inf")

    def trace(self, workers: int, steps: int, size: int, seed: int) -> Trace:
        """The trace of one server with so many workers on a model of ``size`` parameters, in float32."""
        network = Network(latency=self.latency, bandwidth=self.bandwidth, message_bytes=4 * size)
        law = LogNormal(self.gradient, self.variation)
        return simulate(workers=workers, steps=steps, compute=law, network=network, update=self.update, seed=seed)


def measure_times(
    potential: Potential, kernel: Kernel, workers: int, engine: str, *, steps: int, slowed: float = 0.0
) -> RoundTrip:
    """Sample with a real engine and look at the clock: the faster of two runs, since others may use the machine too.

    Args:
        potential: the model.
        kernel: the sampler.
        workers: W.
        engine: ``"processes"`` or ``"threads"``. ``"inline"`` stands in for them where nothing is to be measured: its
            time is virtual.
        steps: L.
        slowed: seconds that every worker sleeps after each gradient: a gradient that takes long, and no processor.
    """
    slow = dict.fromkeys(range(workers), slowed) if slowed else {}
    chosen: Engine = Inline(compute=slowed or 1.0) if engine == "inline" else ENGINES[engine](slow=slow)

    def once() -> RoundTrip:
        run = sample(potential, kernel, steps=steps, workers=workers, engine=chosen, thin=steps, progress=False)
        return round_trip(run, workers)

    return max((once() for _ in range(2)), key=lambda measured: measured.updates_per_second)


class WorkerTimes(NamedTuple):
    """Seconds of a lone worker's round trip on the machine at hand."""

    gradient: float
    """One gradient, computed in this thread: the median."""
    variation: float
    """Spread of those over their median, from quartiles."""
    update: float
    """One update of a chain, in this thread: the median."""
    served: float
    """What the server is busy with one gradient in a real run: its update, and checking and recording it."""
    exchange: float
    """The rest: messages, waking up, waiting for the processor."""
    updates_per_second: float
    """Of the whole round trip, again and again."""

    def machine(self) -> Machine:
        """This machine, if it had a core for every worker."""
        return Machine(self.gradient, self.variation, self.served, self.exchange / 2)


def time_worker(potential: Potential, kernel: Kernel, engine: str, *, steps: int, count: int = 2000) -> WorkerTimes:
    """Time a gradient and an update directly; the rest of a single worker's round trip is the exchange.

    Args:
        potential: the model.
        kernel: the sampler.
        engine: of the round trips, as for :func:`measure_times`.
        steps: how many of them.
        count: how many gradients and updates are timed directly.
    """
    step = time_step(potential, kernel, count)
    alone = measure_times(potential, kernel, 1, engine, steps=steps)  # last: by now all code is compiled
    served = float(np.fmax(alone.served, step.update))  # NaN if time was virtual
    exchange = max(0.0, 1 / alone.updates_per_second - step.gradient - served)
    return WorkerTimes(*step, served, exchange, alone.updates_per_second)


class Step(NamedTuple):
    """Seconds of one step in this thread: medians, which interruptions do not move."""

    gradient: float
    variation: float
    """Spread of the gradient's seconds over their mean, likewise robust."""
    update: float


def time_step(potential: Potential, kernel: Kernel, count: int = 2000) -> Step:
    """Time ``count`` gradients and as many updates directly, without any engine."""
    start = potential.initial()[None]
    worker, chain, out = Worker(potential, 0, 0, 0), Chain(kernel, start, 0, 0), np.zeros_like(start)
    warm_up = min(50, count)
    gradients = call_seconds(lambda number: worker.compute(start, number, out), most=count, warm_up=warm_up)
    updates = call_seconds(lambda number: chain.advance(out), most=count, warm_up=warm_up)
    return Step(*median_and_variation(gradients), float(np.median(updates)))


def simulated_rates(machine: Machine, workers: Sequence[int], size: int, seed: int, steps: int = 4000) -> list[float]:
    """Updates a second of a simulated cluster for each number of workers."""
    return [updates_per_second(machine.trace(count, steps, size, seed).chains[0]) for count in workers]
