"""How much of two cores' gradients reach the chain: worker processes against loops that only compute.

The gradient burns a fixed amount of CPU time. *Ideal* is as many independent processes as there are workers, each
computing gradients in a loop and telling nobody. *Ours* is ``engine="processes"`` with SGLD: every gradient travels to
the server, updates all parameters with fresh noise, and the new point travels back. They take turns; efficiency is the
ratio of gradients a second. On as many cores as workers the server has no core to itself, so its work is part of it.

    python benchmarks/async_efficiency.py [--json FILE]
"""

import argparse
import multiprocessing
import statistics
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from burning import Burning


def _loop(size: int, seconds: float, begin: Any, duration: float, counts: Any) -> None:
    model = Burning(size, seconds)
    point, out = np.zeros((2, 1, size), np.float32)
    indices = np.zeros((1, 1), np.int64)
    model.gradients(point, indices, out)
    begin.wait()
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < duration:
        model.gradients(point, indices, out)
        count += 1
    counts.put(count / (time.perf_counter() - begun))


def ideal(workers: int, size: int, seconds: float, duration: float) -> float:
    """Gradients a second of loops that only compute."""
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


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Efficiency of asynchronous workers against loops that only compute.")
    parser.add_argument("--parameters", type=int, default=431_080)
    parser.add_argument("--milliseconds", type=float, default=5.0, help="CPU time of a gradient (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of a round (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    arguments = parser.parse_args()
    setting = (arguments.workers, arguments.parameters, arguments.milliseconds / 1e3, arguments.duration)
    bare, real, shares = [], [], []
    for _ in range(arguments.rounds):
        bare.append(ideal(*setting))
        rate, run = ours(*setting)
        real.append(rate)
        assert run.timing is not None
        shares.append(run.timing.updates / run.timing.count)
    efficiency = statistics.median(r / b for r, b in zip(real, bare, strict=True))
    title = (
        f"{arguments.workers} workers, {arguments.parameters:,} parameters, {arguments.milliseconds:g} ms a gradient"
    )
    table = Table(title=title)
    for heading in ("", "gradients/s, median", "best"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("loops that only compute", f"{statistics.median(bare):.1f}", f"{max(bare):.1f}")
    table.add_row("stalegrad, processes", f"{statistics.median(real):.1f}", f"{max(real):.1f}")
    console = Console(stderr=arguments.json == "-")
    console.print(table)
    console.print(f"efficiency {efficiency:.3f}; the server spends {1e3 * statistics.median(shares):.2f} ms a gradient")
    document = {
        "efficiency": efficiency,
        "ideal_per_second": bare,
        "ours_per_second": real,
        "server_seconds_per_gradient": statistics.median(shares),
        "workers": arguments.workers,
        "parameters": arguments.parameters,
        "milliseconds": arguments.milliseconds,
    }
    harness.write_json(document, arguments.json)


if __name__ == "__main__":
    main()
