"""How many workers a server of LeNet's size can keep busy, where the server is a lock.

    python benchmarks/saturation.py [--json FILE]

A server saturates when updates come as fast as they can follow each other: a gradient's time divided by the time for
which an update keeps the next one out. Workers sleep for as long as a gradient takes, so that few cores are enough to
have many of them.
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
a gradient and applies it itself, SGHMC. *Serial* is for how long an update keeps the next one out: all of it where
updates are whole, under the lock, and one of {sections} sections where they follow each other through the chain, as
they do. It is measured with {workers} workers, one for each core. Saturation is a gradient over the serial part, the
median of the rounds, and supposes that every worker has a core: an update by section takes as much of a processor as a
whole one. The last rows are the real thing on {cores} cores, which have to make all updates: what share of the
gradients' rate of {many} workers reaches the chain. The bar is of updates by section.
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
    parser.add_argument("--many", type=int, default=40, help="of the last row (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, parameters=20_000, many=4, seconds=0.2, rounds=1)


def sampled(given: argparse.Namespace, workers: int, sections: int) -> tuple[float, float]:
    """Seconds of the serial part of an update in so many sections, and updates a second."""
    import stalegrad as sg
    from stalegrad.engines.threads import compiled_server, shared

    compiled_server.WORTH_COMPILING_FOR_PYTHON = 1
    usual = shared.cut
    if sections == 1:
        shared.cut = lambda n: np.array([0, n])
    try:
        seconds = given.milliseconds / 1e3
        steps = max(4 * workers, round(workers * given.seconds / seconds))
        run = sg.sample(
            Sleeping(given.parameters, seconds), sg.SGHMC(step_size=1e-6, friction=1.0), steps=steps, workers=workers,
            thin=steps, engine="threads", progress=False,
        )  # fmt: skip
    finally:
        shared.cut = usual
    times: Any = run.trace.chains[0].time
    skip = steps // 5
    return run.timing.updates / run.timing.count / sections, float((steps - 1 - skip) / (times[-1] - times[skip]))


def main() -> None:
    """Measure and report."""
    from stalegrad.engines.threads.shared import cut

    given = arguments()
    sections = len(cut(given.parameters)) - 1
    sampled(given, 2, sections)  # compiles
    serial: dict[int, list[float]] = {1: [], sections: []}
    reached: dict[int, list[float]] = {1: [], sections: []}
    for _ in range(given.rounds):
        for parts in serial:
            serial[parts].append(sampled(given, given.workers, parts)[0])
            reached[parts].append(sampled(given, given.many, parts)[1])
    gradient = given.milliseconds / 1e3
    found = {parts: statistics.median(values) for parts, values in serial.items()}
    shares = {parts: statistics.median(rates) * gradient / given.many for parts, rates in reached.items()}
    settings = vars(given)
    text = TEXT.format(cores=len(cores.current()), sections=sections, **settings)
    result = Result("Workers that saturate a chain", text, settings)
    names = {1: "whole updates, under the lock", sections: f"{sections} sections"}
    result.table(
        f"{given.parameters:,} parameters, {given.milliseconds:g} ms a gradient",
        ["", "serial, ms", "workers that saturate it", f"{given.many} workers here: share that arrives"],
        [[names[parts], 1e3 * found[parts], gradient / found[parts], shares[parts]] for parts in found],
    )  # fmt: skip
    name = f"workers that saturate {given.parameters:,} parameters, {given.milliseconds:g} ms a gradient"
    result.bars = [Bar(name, gradient / found[sections], None, BAR)]
    result.figures = {"serial": {names[k]: v for k, v in serial.items()}, "reached": list(reached.values())}
    result.finish(given.json)


if __name__ == "__main__":
    main()
