"""How many workers a server of LeNet's size can keep busy, where the server is a lock.

    python benchmarks/saturation.py [--json FILE]

A server saturates when updates come as fast as it can make them one after the other: a gradient's time divided by the
time for which its update keeps others out. Workers sleep for as long as a gradient takes, so that few cores are enough
to have many of them.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import cores
import harness
from results import Bar, Result
from stalegrad.potentials import Minibatches, Potential

BAR = 40.0
TEXT = """
A chain of {parameters:,} float32 (LeNet's size) whose workers are threads, each of which takes {milliseconds:g} ms for
a gradient and applies it itself, SGHMC. *Serial* is what one update keeps all others from: the lock held, with the
update, the row of the trace and the copy of the new point. It is measured with {workers} workers, one for each core,
so that nobody loses the core while holding the lock: once with the noise made under the lock, once with the noise made
before, as workers do that have to wait for the lock. Saturation is a gradient over the serial part, the median of the
rounds. The last two rows are the real thing on {cores} cores, which have to make all the noise: the serial part with
{some} workers, which take the cores from each other, and what share of the gradients' rate of {many} workers reaches
the chain.
"""


class Sleeping(Potential):
    """A gradient of 0.01 in every coordinate that takes ``seconds`` without a core."""

    def __init__(self, size: int, seconds: float) -> None:
        super().__init__(size, Minibatches(1, 1), np.dtype(np.float32))
        self.seconds, self._value = seconds, np.full((1, size), 0.01, np.float32)

    def gradient(self, theta: Any, indices: Any) -> Any:
        """As :meth:`gradients`, for one point."""
        return self._value[0]

    def gradients(self, theta: Any, indices: Any, out: Any) -> None:
        """Sleep, then fill ``out``."""
        time.sleep(self.seconds)
        np.copyto(out, self._value)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Workers that saturate a chain shared by threads.")
    parser.add_argument("--parameters", type=int, default=431_080)
    parser.add_argument("--milliseconds", type=float, default=21.0, help="of a gradient (default %(default)s)")
    parser.add_argument("--workers", type=int, default=len(cores.current()), help="where the serial part is measured")
    parser.add_argument("--some", type=int, default=8, help="more than there are cores (default %(default)s)")
    parser.add_argument("--many", type=int, default=40, help="of the last row (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, parameters=20_000, some=3, many=4, seconds=0.2, rounds=1)


def sampled(given: argparse.Namespace, workers: int, ahead: bool) -> tuple[float, float]:
    """Seconds of the serial part of an update, and updates a second."""
    import stalegrad as sg
    from stalegrad.engines.threads import compiled_server, noise_ahead

    compiled_server.WORTH_COMPILING_FOR_PYTHON = 1
    usual = noise_ahead._BEGIN
    noise_ahead._BEGIN = 0 if ahead else 1 << 20
    try:
        seconds = given.milliseconds / 1e3
        steps = max(4 * workers, round(workers * given.seconds / seconds))
        run = sg.sample(
            Sleeping(given.parameters, seconds), sg.SGHMC(step_size=1e-6, friction=1.0), steps=steps, workers=workers,
            thin=steps, engine="threads", progress=False,
        )  # fmt: skip
    finally:
        noise_ahead._BEGIN = usual
    times: Any = run.trace.chains[0].time
    skip = steps // 5
    return run.timing.updates / run.timing.count, float((steps - 1 - skip) / (times[-1] - times[skip]))


def main() -> None:
    """Measure and report."""
    given = arguments()
    sampled(given, 2, True)  # compiles
    serial: dict[bool, list[float]] = {False: [], True: []}
    crowded, reached = [], []
    for _ in range(given.rounds):
        for ahead in (False, True):
            serial[ahead].append(sampled(given, given.workers, ahead)[0])
        crowded.append(sampled(given, given.some, True)[0])
        reached.append(sampled(given, given.many, True)[1])
    gradient = given.milliseconds / 1e3
    found = {ahead: statistics.median(values) for ahead, values in serial.items()}
    workers = {ahead: gradient / value for ahead, value in found.items()}
    share = statistics.median(reached) * gradient / given.many
    settings = vars(given)
    result = Result("Workers that saturate a chain", TEXT.format(cores=len(cores.current()), **settings), settings)
    result.table(
        f"{given.parameters:,} parameters, {given.milliseconds:g} ms a gradient",
        ["", "serial, ms", "workers that saturate it"],
        [["noise under the lock", 1e3 * found[False], workers[False]],
         ["noise made before", 1e3 * found[True], workers[True]],
         [f"noise made before, {given.some} workers", 1e3 * statistics.median(crowded), None],
         [f"{given.many} workers on these cores: {share:.0%} of their gradients' rate", None, None]],
    )  # fmt: skip
    name = f"workers that saturate {given.parameters:,} parameters, {given.milliseconds:g} ms a gradient"
    result.bars = [Bar(name, workers[True], None, BAR)]
    result.figures = {"serial": {str(k): v for k, v in serial.items()}, "crowded": crowded, "reached": reached}
    result.finish(given.json)


if __name__ == "__main__":
    main()
