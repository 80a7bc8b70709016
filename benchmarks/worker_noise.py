"""Does noise that the workers make raise the server's ceiling? Updates a second of a server with and without noise.

Candidates take turns on the same sizes: the server's update by each kernel, noise included, and the same update of
``sg.WorkerNoise``, to which the noise has come with the gradient. The third column is what a worker pays: the noise of
one gradient. A server that makes u updates a second keeps u · (seconds of a gradient) workers busy. Seconds are those
of the processor, so that whoever else uses the machine matters less.

    python benchmarks/worker_noise.py [--parameters 431080 10000000] [--json FILE]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
from stalegrad.kernels import SGHMC, SGLD, SGNHT, Kernel
from stalegrad.kernels.noise import Stream, normals
from stalegrad.protocol.architectures import StaleGradients, WorkerNoise
from stalegrad.protocol.architectures.base import Place

KERNELS: dict[str, Kernel] = {
    "SGLD": SGLD(step_size=1e-3),
    "SGHMC": SGHMC(step_size=1e-3, friction=10.0),
    "SGHMC, splitting": SGHMC(step_size=1e-3, friction=10.0, integrator="splitting"),
    "SGNHT": SGNHT(step_size=1e-3),
}
SIZES = (431_080, 10_000_000)
"""Parameters of LeNet, and more than fit into a cache."""


def update(architecture: StaleGradients | WorkerNoise, kernel: Kernel, size: int) -> Callable[[], object]:
    """One update of the server's chain."""
    chain = architecture.chain(kernel, Place(np.zeros((1, size), np.float32), 0, 0), 1)
    gradient = np.full((1, size), 0.01, np.float32)
    return lambda: chain.advance(gradient)


def noise(size: int) -> Callable[[], object]:
    """What a worker does besides its gradient."""
    gradient, buffer = np.full((1, size), 0.01, np.float32), np.empty((1, size), np.float32)
    update = iter(range(1 << 40))

    def run() -> None:
        drawn = normals(buffer, 0, Stream.UPDATE, 0, next(update))
        drawn *= np.float32(0.1)
        np.subtract(gradient, drawn, out=gradient)

    return run


def measured(size: int, rounds: int) -> list[dict[str, float | str]]:
    """A row a kernel."""
    times = max(1, 2_000_000 // size)
    cases = [harness.Case("noise", _many(noise(size), times), times)]
    for name, kernel in KERNELS.items():
        for who, architecture in (("server", StaleGradients()), ("workers", WorkerNoise())):
            cases.append(harness.Case(f"{name}/{who}", _many(update(architecture, kernel, size), times), times))
    timings = {timing.name: timing for timing in harness.measure(cases, rounds=rounds, clock=time.process_time)}
    return [
        {
            "kernel": name,
            "parameters": size,
            "server_noise_updates_per_second": 1e6 / timings[f"{name}/server"].best,
            "worker_noise_updates_per_second": 1e6 / timings[f"{name}/workers"].best,
            "ceiling": timings[f"{name}/server"].best / timings[f"{name}/workers"].best,
            "ceiling_median": timings[f"{name}/server"].median / timings[f"{name}/workers"].median,
            "worker_noise_milliseconds": timings["noise"].best / 1e3,
        }
        for name in KERNELS
    ]


def _many(run: Callable[[], object], times: int) -> Callable[[], object]:
    def many() -> None:
        for _ in range(times):
            run()

    return many


def main() -> None:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parameters", type=int, nargs="+", default=SIZES)
    harness.add_arguments(parser)
    given = harness.parse(parser, parameters=(10_000,), rounds=1)
    rows = [row for size in given.parameters for row in measured(size, given.rounds)]
    table = Table("kernel", "parameters", "noise at the server", "at the workers", "ceiling", "a worker pays",
                  title="Updates a second of one server on one thread, best rounds")  # fmt: skip
    for row in rows:
        table.add_row(
            f"{row['kernel']}", f"{row['parameters']:,}", f"{row['server_noise_updates_per_second']:,.0f}",
            f"{row['worker_noise_updates_per_second']:,.0f}", f"{row['ceiling']:.1f}×",
            f"{row['worker_noise_milliseconds']:.2f} ms",
        )  # fmt: skip
    Console().print(table)
    harness.write_json({"rows": rows}, given.json)


if __name__ == "__main__":
    main()
