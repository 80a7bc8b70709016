"""A step of SGHMC on LeNet: ours against the bare gradient, posteriors and BlackJAX; and two workers against one.

On one core and one thread, by turns: *the bare gradient* is forward and backward of the same network, channels last, on
a minibatch that is already there, and nothing else. *Ours* is ``sg.sample`` inline with one worker: it draws and
gathers the minibatch, scales its pixels, adds the prior, checks the gradient, draws 431,080 normals and updates. What
the others do is in :mod:`lenet_peers`. Memory that is freed stays with the process, so that nobody pays for pages that
somebody else gave back.

Then, on all cores: gradients a second that reach the chain from two worker processes, over those from one.

    python benchmarks/lenet.py [--cpu-time] [--json FILE]

writes, besides the timings, ``step_over_gradient`` (ours over the bare gradient), ``ratio_to_posteriors`` (its
documented form over ours), ``ratio_to_blackjax`` (the faster of its two over ours) and ``two_processes``, each from the
best rounds.
"""

import argparse
import ctypes
import os
import statistics
import time
from typing import Any

import numpy as np
from rich.console import Console

import harness
import lenet_peers
from blackjax_logistic import one_thread

N_DATA = 60_000


def images() -> tuple[str, Any, Any]:
    """MNIST where ``STALEGRAD_DATA`` names a folder that has it, else bytes of the same shape."""
    if "STALEGRAD_DATA" in os.environ:
        import stalegrad as sg

        data = sg.datasets.mnist()
        return "MNIST", data.X, data.y
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(N_DATA, 28, 28), dtype=np.uint8)
    return "synthetic", pixels, rng.integers(10, size=N_DATA)


def keep_freed_memory() -> None:
    """Tell the C library not to return memory to the system, where it can be told."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
        library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD


def bare_gradient(network: Any, x: Any, y: Any, steps: int) -> harness.Case:
    """Forward and backward, channels last."""
    import torch
    from torch.nn.functional import cross_entropy

    network = network.to(memory_format=torch.channels_last)
    x = torch.empty_like(x, memory_format=torch.channels_last).copy_(x)

    def run() -> None:
        for _ in range(steps):
            network.zero_grad(set_to_none=True)
            cross_entropy(network(x), y, reduction="sum").backward()

    return harness.Case("bare gradient, channels last", run, steps)


def rate(potential: Any, kernel: Any, workers: int, steps: int) -> float:
    """Gradients a second that reach the chain, after a fifth of the run."""
    import stalegrad as sg

    run = sg.sample(
        potential, kernel, steps=steps * workers, workers=workers, thin=steps * workers, engine="processes",
        progress=False,
    )  # fmt: skip
    times = run.trace.chains[0].time
    assert times is not None
    skip = len(times) // 5
    return float((len(times) - 1 - skip) / (times[-1] - times[skip]))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="One step of SGHMC on LeNet.")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50, help="steps of one timed call (default %(default)s)")
    parser.add_argument(
        "--pairs", type=int, default=5, help="runs with one and with two processes (default %(default)s)"
    )
    parser.add_argument(
        "--exchanges", type=int, default=150, help="gradients of a worker in them (default %(default)s)"
    )
    parser.add_argument("--cpu-time", action="store_true", help="count the processor's time, on a machine in use")
    harness.add_arguments(parser)
    arguments = parser.parse_args()
    cores = os.sched_getaffinity(0)
    one_thread()  # before JAX is imported
    keep_freed_memory()

    import torch

    import stalegrad as sg

    torch.set_num_threads(1)
    source, X, y = images()
    network, recipe = sg.models.lenet, sg.models.LENET
    potential = sg.potentials.from_torch(
        network(), "categorical", (X, y), batch_size=arguments.batch_size, transform=sg.models.lenet_pixels
    )
    kernel = recipe.kernel(potential.n_data)
    x_batch = sg.models.lenet_pixels(torch.from_numpy(X[: arguments.batch_size]))
    y_batch = torch.from_numpy(y[: arguments.batch_size].astype(np.int64))

    def ours() -> sg.Run:
        return sg.sample(
            potential, kernel, steps=arguments.steps, thin=arguments.steps, engine="inline", progress=False
        )

    cases = [
        harness.Case("stalegrad, inline", ours, arguments.steps),
        bare_gradient(network(), x_batch, y_batch, arguments.steps),
        *lenet_peers.posteriors_cases(network, x_batch, y_batch, potential.n_data, arguments.steps),
        *lenet_peers.blackjax_cases(
            x_batch.permute(0, 2, 3, 1).numpy(), y_batch.numpy(), potential.n_data, arguments.steps
        ),
    ]
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    timings = harness.measure(cases, rounds=arguments.rounds, clock=clock)
    step, gradient, documented, _, *blackjax = [timing.best for timing in timings]

    os.sched_setaffinity(0, cores)
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(arguments.pairs):
        for workers, found in rates.items():
            found.append(rate(potential, kernel, workers, arguments.exchanges))

    figures = {
        "step_over_gradient": step / gradient,
        "ratio_to_posteriors": documented / step,
        "ratio_to_blackjax": min(blackjax) / step,
        "two_processes": max(rates[2]) / max(rates[1]),
        "two_processes_median": statistics.median(b / a for a, b in zip(rates[1], rates[2], strict=True)),
        "gradients_per_second": {str(workers): found for workers, found in rates.items()},
    }
    settings = {
        "data": source,
        "batch_size": arguments.batch_size,
        "steps": arguments.steps,
        "clock": "cpu" if arguments.cpu_time else "wall",
        "load_average": os.getloadavg()[0],
    }
    title = f"SGHMC on LeNet, J = {arguments.batch_size}, one core, one thread ({source})"
    harness.report(title, timings, settings=settings, figures=figures, json_to=arguments.json)
    console = Console(stderr=arguments.json == "-")
    for name in ("step_over_gradient", "ratio_to_posteriors", "ratio_to_blackjax", "two_processes"):
        console.print(f"{name}: {figures[name]:.2f}")


if __name__ == "__main__":
    main()
