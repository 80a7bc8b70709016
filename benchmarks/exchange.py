"""Exchanges a second: a gradient up, a point down, when the gradient is free.

*Raw* is the bare transport: the same shared memory and the same eventfds with nothing but a copy on each side. *Ours*
are the engines with SGLD: checks, staleness, the update with its noise, the trace and the bookkeeping of workers
included. They take turns.

    python benchmarks/exchange.py [--parameters 124] [--json FILE]
"""

import argparse
import os
import statistics
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from burning import Burning
from stalegrad.engines.shared import Bell, Slots, anonymous_file


def raw(workers: int, size: int, duration: float) -> float:
    """Exchanges a second of forked processes that only copy."""
    memory = anonymous_file(Slots.bytes(workers, size, np.float32))
    slots = Slots(memory, workers, size, np.float32)
    server, bells = Bell.make(), [Bell.make() for _ in range(workers)]
    children = []
    for worker in range(workers):
        pid = os.fork()
        if pid == 0:
            header = slots.headers[worker]
            while True:
                bells[worker].wait()
                if header[Slots.STATE] == Slots.STOP:
                    os._exit(0)
                np.copyto(slots.gradients[worker], slots.points[worker])
                header[Slots.STATE] = Slots.DONE
                server.ring()
        children.append(pid)
    point = np.zeros((1, size), np.float32)
    for worker in range(workers):
        bells[worker].ring()
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < duration:
        server.wait()
        for worker, header in enumerate(slots.headers):
            if header[Slots.STATE] == Slots.DONE:
                header[Slots.STATE] = Slots.WORK
                np.copyto(slots.points[worker], point)
                bells[worker].ring()
                count += 1
    for header, bell in zip(slots.headers, bells, strict=True):
        while header[Slots.STATE] == Slots.WORK:
            time.sleep(0.001)
        header[Slots.STATE] = Slots.STOP
        bell.ring()
    for pid in children:
        os.waitpid(pid, 0)
    for bell in (server, *bells):
        bell.close()
    os.close(memory)
    return count / passed


def ours(engine: str, workers: int, size: int, steps: int) -> float:
    """Exchanges a second of an engine, after a quarter of the run."""
    run = sg.sample(
        Burning(size, 0.0), sg.SGLD(step_size=1e-6), steps=steps, workers=workers, thin=steps, engine=engine,
        progress=False,
    )  # fmt: skip
    times = run.trace.chains[0].time
    assert times is not None
    skip = steps // 4
    return float((steps - 1 - skip) / (times[-1] - times[skip]))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Exchanges a second with a free gradient.")
    parser.add_argument("--parameters", type=int, default=124)
    parser.add_argument("--steps", type=int, default=40_000, help="updates of one round (default %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    harness.add_arguments(parser, rounds=3)
    arguments = harness.parse(parser, steps=200, workers=[1], rounds=1)
    size = arguments.parameters
    rates: dict[str, dict[int, list[float]]] = {name: {} for name in ("raw", "processes", "threads")}
    for _ in range(arguments.rounds):
        for workers in arguments.workers:
            rates["raw"].setdefault(workers, []).append(raw(workers, size, 1.0))
            for engine in ("processes", "threads"):
                rates[engine].setdefault(workers, []).append(ours(engine, workers, size, arguments.steps))
    table = Table(title=f"Exchanges a second, {size:,} float32, free gradient: median (best) of {arguments.rounds}")
    table.add_column("")
    for workers in arguments.workers:
        table.add_column(f"{workers} worker{'s' * (workers != 1)}", justify="right")
    for name, row in rates.items():
        cells = [f"{statistics.median(values):,.0f} ({max(values):,.0f})" for values in row.values()]
        table.add_row(name, *cells)
    Console(stderr=arguments.json == "-").print(table)
    document = {"parameters": size, "exchanges_per_second": rates}
    harness.write_json(document, arguments.json)


if __name__ == "__main__":
    main()
