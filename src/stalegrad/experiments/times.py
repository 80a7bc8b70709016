"""How fast workers are: measured with a real engine, and simulated with measured or assumed times."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad.chain import Chain
from stalegrad.engines import Engine, Inline, Processes, Threads
from stalegrad.experiments.scaling import updates_per_second
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.run import sample
from stalegrad.simulation import LogNormal, Network, simulate
from stalegrad.trace import Trace
from stalegrad.worker import Worker

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


@dataclass(frozen=True)
class Calibration:
    """Seconds on the machine at hand.

    Args:
        gradient: one gradient, computed in this thread: the median, which interruptions do not move.
        variation: spread of those over their mean, likewise robust.
        update: one update of a chain, in this thread: the median.
        served: what the server is busy with one gradient in a real run: its update, and checking and recording it.
        exchange: the rest of a single worker's round trip: messages, waking up, waiting for the processor.
        updates_per_second: of a single worker.
        engine: with which the round trips were measured.
    """

    gradient: float
    variation: float
    update: float
    served: float
    exchange: float
    updates_per_second: float
    engine: str

    def machine(self) -> Machine:
        """This machine, if it had a core for every worker."""
        return Machine(self.gradient, self.variation, self.served, self.exchange / 2)


class Measured(NamedTuple):
    """What a real run says about time."""

    updates_per_second: float
    served: float | None
    """Seconds that the server was busy with each gradient; None if time was virtual."""


def measure_times(
    potential: Potential, kernel: Kernel, workers: int, engine: str, *, steps: int, slowed: float = 0.0
) -> Measured:
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

    def once() -> Measured:
        run = sample(potential, kernel, steps=steps, workers=workers, engine=chosen, thin=steps, progress=False)
        rate, timing = updates_per_second(run.trace.chains[0]), run.timing
        # Of the workers' round trips, W/rate seconds each, the share in which the server is busy: start-up left out.
        share = None if timing is None else timing.updates / (timing.gradients + timing.waiting)
        return Measured(rate, None if share is None else share * workers / rate)

    return max((once() for _ in range(2)), key=lambda measured: measured.updates_per_second)


def calibrate(potential: Potential, kernel: Kernel, engine: str, *, steps: int) -> Calibration:
    """Time a gradient and an update directly; the rest of a single worker's round trip is the exchange.

    Args:
        potential: the model.
        kernel: the sampler.
        engine: of the round trips, as for :func:`measure_times`.
        steps: how many of them.
    """
    gradient, variation, update = time_step(potential, kernel)
    alone = measure_times(potential, kernel, 1, engine, steps=steps)  # last: by now all code is compiled
    served = max(alone.served or 0.0, update)
    return Calibration(
        gradient=gradient,
        variation=variation,
        update=update,
        served=served,
        exchange=max(0.0, 1 / alone.updates_per_second - gradient - served),
        updates_per_second=alone.updates_per_second,
        engine=engine,
    )


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
    gradients = _seconds(lambda number: worker.compute(start, number, out), count, warm_up)
    updates = _seconds(lambda number: chain.advance(out), count, warm_up)
    low, gradient, high = np.quantile(gradients, [0.25, 0.5, 0.75])
    return Step(float(gradient), float((high - low) / 1.35 / gradient), float(np.median(updates)))


def simulated_rates(machine: Machine, workers: Sequence[int], size: int, seed: int, steps: int = 4000) -> list[float]:
    """Updates a second of a simulated cluster for each number of workers."""
    return [updates_per_second(machine.trace(count, steps, size, seed).chains[0]) for count in workers]


def _seconds(action: Callable[[int], object], count: int, warm_up: int) -> list[float]:
    """Seconds of each call, after some that compile and fill the caches."""
    times = []
    for number in range(warm_up + count):
        begun = time.perf_counter()
        action(number)
        times.append(time.perf_counter() - begun)
    return times[warm_up:]
