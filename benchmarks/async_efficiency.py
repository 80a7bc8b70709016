"""How much of two cores' gradients reach one chain: worker processes against chains that have nothing to do with it.

The gradient burns a fixed amount of CPU time. *Independent* is as many processes as there are workers, each with a
chain of its own: it computes gradients in a loop and updates all parameters with fresh noise, and tells nobody. *Ours*
is ``engine="processes"`` with SGLD: every gradient travels to the server, which updates one chain, and the new point
travels back. They take turns; efficiency is the ratio of updates a second, the median of those within a round. On as
many cores as workers the server has no core to itself.

    python benchmarks/async_efficiency.py [--json FILE]
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import harness
import stalegrad as sg
from burning import Burning
from results import Bar, Result
from stalegrad.protocol.chain import Chain

BAR = 0.9
TEXT = """
Updates a second of one chain with {workers} worker processes, over those of {workers} processes with a chain each,
which compute the same gradients and make the same updates and exchange nothing: SGLD, {parameters:,} parameters, a
gradient of {milliseconds:g} ms of processor time. They take turns; efficiency is the median of the ratios within a
round. The server has no core to itself.
"""


def _loop(size: int, seconds: float, begin: Any, duration: float, counts: Any) -> None:
    model = Burning(size, seconds)
    chain = Chain(sg.SGLD(step_size=1e-6), np.zeros((1, size), np.float32), 0, 0)
    out = np.zeros((1, size), np.float32)
    indices = np.zeros((1, 1), np.int64)
    model.gradients(chain.point, indices, out)
    chain.advance(out)
    begin.wait()
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < duration:
        model.gradients(chain.point, indices, out)
        chain.advance(out)
        count += 1
    counts.put(count / (time.perf_counter() - begun))


def ideal(workers: int, size: int, seconds: float, duration: float) -> float:
    """Updates a second of chains that have nothing to do with each other."""
    context = multiprocessing.get_context("spawn")
    begin, counts = context.Barrier(workers), context.Queue()
    loops = [context.Process(target=_loop, args=(size, seconds, begin, duration, counts)) for _ in range(workers)]
    for loop in loops:
        loop.start()
    total = sum(counts.get() for _ in loops)
    for loop in loops:
        loop.join()
    return float(total)


def ours(workers: int, size: int, seconds: float, duration: float) -> tuple[float, sg.Run]:
    """Gradients a second that reach the chain, after a start-up of a fifth of the run."""
    steps = max(20, round(workers * duration / seconds))
    run = sg.sample(
        Burning(size, seconds), sg.SGLD(step_size=1e-6), steps=steps, workers=workers, thin=steps,
        engine="processes", progress=False,
    )  # fmt: skip
    times = run.trace.chains[0].time
    assert times is not None
    skip = steps // 5
    return float((steps - 1 - skip) / (times[-1] - times[skip])), run


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Efficiency of asynchronous workers against independent chains.")
    parser.add_argument("--parameters", type=int, default=431_080)
    parser.add_argument("--milliseconds", type=float, default=5.0, help="CPU time of a gradient (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of a round (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, parameters=10_000, duration=0.2, rounds=1)


def main() -> None:
    """Measure and report."""
    given = arguments()
    setting = (given.workers, given.parameters, given.milliseconds / 1e3, given.duration)
    independent, real, served = [], [], []
    for _ in range(given.rounds):
        independent.append(ideal(*setting))
        rate, run = ours(*setting)
        real.append(rate)
        assert run.timing is not None
        served.append(run.timing.updates / run.timing.count)
    efficiency = statistics.median(r / b for r, b in zip(real, independent, strict=True))
    result = Result("Efficiency of asynchronous workers", TEXT.format(**vars(given)), vars(given))
    result.table(
        f"{given.workers} workers, {given.parameters:,} parameters, {given.milliseconds:g} ms a gradient",
        ["", "updates a second", "best round"],
        [["independent chains", statistics.median(independent), max(independent)],
         ["stalegrad, processes", statistics.median(real), max(real)],
         ["the server, ms a gradient", 1e3 * statistics.median(served), None]],
    )  # fmt: skip
    result.bars = [Bar("one chain of two processes over two independent chains", efficiency, None, BAR)]
    result.figures = {"independent": independent, "ours": real, "server_seconds_per_gradient": served}
    result.finish(given.json)


if __name__ == "__main__":
    main()
