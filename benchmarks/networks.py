"""A step of SGHMC on LeNet and on Cifar10-Quick: ours against the bare gradient and the peers; two workers against one.

On one core and one thread, by turns: *the bare gradient* is forward and backward of the same network, channels last,
on a minibatch that is already there, and nothing else. *Ours* is ``sg.sample`` inline with one worker: it draws and
gathers the minibatch, scales its pixels, adds the prior, checks the gradient, draws normals and updates. What the
others do is in :mod:`network_peers`. Then, on all cores: gradients a second that reach the chain from two worker
processes, over those from one.

    python benchmarks/networks.py [--network cifar10_quick] [--cpu-time] [--json FILE]
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from typing import Any

import numpy as np

import cores
import harness
import images
import network_peers
from results import Bar, Result
from samplers import Sampler
from stalegrad.engines.processes.freed_memory import (
    keep_freed_memory,  # so that nobody pays for pages that others gave back
)

TITLES = {"lenet": "LeNet", "cifar10_quick": "Cifar10-Quick"}
WANTED = {"lenet": {"posteriors": 1.5, "BlackJAX": 1.5}, "cifar10_quick": {"posteriors": 1.15, "BlackJAX": 1.8}}
TEXT = """
SGHMC on {title} with J = {batch_size}, as Caffe trains it, one core, one thread. *The bare gradient* is forward and
backward of the same network, channels last, on a minibatch that is already there. Ours draws and gathers its
minibatch, scales pixels, adds the prior, checks the gradient, draws all normals and updates; the peers keep one
minibatch in memory, which spares them the gathering. Bars on one core compare best rounds, so that what disturbs one
of them does not count. Two processes over one: gradients a second that reach the chain, on {cores} cores, with
start-up left out; beside it, bare gradients of as many processes without any server, which is what the machine allows.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="One step of SGHMC on a network: stalegrad and its peers.")
    parser.add_argument("--network", choices=list(TITLES), default="lenet")
    parser.add_argument("--steps", type=int, default=40, help="steps of one timed call (default 40 or 10)")
    parser.add_argument("--pairs", type=int, default=4, help="runs with one and two processes (default 4 or 2)")
    parser.add_argument("--exchanges", type=int, default=150, help="gradients a worker in them (default 150 or 40)")
    parser.add_argument("--cpu-time", action="store_true", help="count the processor's time, on a machine in use")
    harness.add_arguments(parser, rounds=7)
    if "cifar10_quick" in (sys.argv[1:] if given is None else given):  # its steps take ten times as long as LeNet's
        parser.set_defaults(steps=10, pairs=2, exchanges=40, rounds=5)
    return harness.parse(parser, given, steps=2, pairs=1, exchanges=10, rounds=1)


@dataclass(frozen=True)
class Task:
    """A network with its data and its recipe."""

    name: str

    @cached_property
    def data(self) -> images.Images:
        """MNIST or CIFAR-10."""
        return images.load("mnist" if self.name == "lenet" else "cifar10")

    @property
    def recipe(self) -> Any:
        """How Caffe trains it, at a fixed rate."""
        import stalegrad as sg

        return sg.networks.LENET if self.name == "lenet" else sg.networks.CIFAR10_QUICK

    @property
    def network(self) -> Callable[[], Any]:
        """Makes the torch module."""
        import stalegrad as sg

        return getattr(sg.networks, self.name)

    @cached_property
    def pixels(self) -> Callable[[Any], Any]:
        """From bytes to what the network wants."""
        import stalegrad as sg

        return sg.networks.lenet_pixels if self.name == "lenet" else sg.networks.CentredPixels(self.data.X)

    @cached_property
    def potential(self) -> Any:
        """Ours."""
        import stalegrad as sg

        return sg.potentials.from_torch(
            self.network(), "categorical", (self.data.X, self.data.y), batch_size=self.recipe.batch_size,
            transform=self.pixels,
        )  # fmt: skip

    @cached_property
    def sampler(self) -> Sampler:
        """SGHMC from the recipe's first learning rate and momentum."""
        kernel = self.recipe.kernel(len(self.data.y), gamma=0.0)
        return Sampler(kernel.step_size, kernel.friction)

    def minibatch(self) -> tuple[Any, Any]:
        """The first J data as tensors, for candidates that keep one in memory."""
        import torch

        size = self.recipe.batch_size
        return self.pixels(torch.from_numpy(self.data.X[:size])), torch.from_numpy(
            np.asarray(self.data.y[:size], np.int64)
        )


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

    return harness.Case("the bare gradient", run, steps)


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


def bare_rate(network: str, workers: int, gradients: int) -> float:
    """Bare gradients a second of so many processes that have nothing to do with each other: what the machine allows."""
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(_bare_gradients, [network] * workers, [2] * workers))  # each has started and is warm
        return sum(pool.map(_bare_gradients, [network] * workers, [gradients] * workers))


def _bare_gradients(network: str, gradients: int) -> float:
    """A second, in this process, once it is ready."""
    import torch

    torch.set_num_threads(1)
    keep_freed_memory()
    task = Task(network)
    case = bare_gradient(task.network(), *task.minibatch(), gradients)
    bare_gradient(task.network(), *task.minibatch(), 2).run()
    begun = time.perf_counter()
    case.run()
    return gradients / (time.perf_counter() - begun)


def main() -> None:
    """Measure and report."""
    given = arguments()
    all_cores = cores.one_core()  # before JAX is imported
    keep_freed_memory()

    import torch

    import stalegrad as sg

    torch.set_num_threads(1)
    task, title = Task(given.network), TITLES[given.network]
    x, y = task.minibatch()
    kernel, n_data = task.sampler.ours(), len(task.data.y)

    def ours() -> sg.Run:
        return sg.sample(task.potential, kernel, steps=given.steps, thin=given.steps, engine="inline", progress=False)

    cases = [
        harness.Case("stalegrad, inline", ours, given.steps),
        bare_gradient(task.network(), x, y, given.steps),
        *network_peers.posteriors_cases(task.network, x, y, n_data, task.sampler, given.steps),
        *network_peers.blackjax_cases(given.network, task.network(), x, y, n_data, task.sampler, given.steps),
    ]
    clock = time.process_time if given.cpu_time else time.perf_counter
    timings = harness.measure(cases, rounds=given.rounds, clock=clock)
    cores.give_back(all_cores)
    rates: dict[int, list[float]] = {1: [], 2: []}
    bare: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(given.pairs):
        for workers, found in rates.items():
            found.append(rate(task.potential, kernel, workers, given.exchanges))
            bare[workers].append(bare_rate(given.network, workers, given.exchanges))

    text = TEXT.format(title=title, batch_size=task.recipe.batch_size, cores=len(all_cores))
    settings = {"data": task.data.source, "batch_size": task.recipe.batch_size, **vars(given)}
    result = Result(f"Steps a second: {title}", text, settings)
    result.table(
        f"{title}, SGHMC, J = {task.recipe.batch_size}, one core ({task.data.source})",
        ["", "steps a second", "best round", "ours over it (best rounds)"],
        [[timing.name, timing.rate, timing.best_rate, timing.best / timings[0].best] for timing in timings],
    )
    result.table(
        f"{title}, worker processes, {len(all_cores)} cores",
        ["workers", "gradients a second, median", "best", "bare gradients, no server, median", "best"],
        [
            [str(workers), statistics.median(found), max(found), statistics.median(bare[workers]), max(bare[workers])]
            for workers, found in rates.items()
        ],
    )
    result.columns(given.network, f"{title}, SGHMC", "steps a second", {t.name: t.rate for t in timings})
    result.bars = bars(given.network, timings, rates, len(all_cores))
    result.figures = {"timings": [t.as_dict() for t in timings], "gradients_per_second": rates, "bare": bare}
    result.headline = headline(timings, rates)
    result.finish(given.json)


def headline(timings: Sequence[harness.Timing], rates: dict[int, list[float]]) -> dict[str, float]:
    """What stands at the top of the JSON, from best rounds: ratios above 1 say that ours is faster."""
    best = {timing.name: timing.best for timing in timings}
    ours = best["stalegrad, inline"]
    return {
        "step_over_gradient": ours / best["the bare gradient"],
        "ratio_to_posteriors": best["posteriors, documented"] / ours,
        "ratio_to_blackjax": min(time for name, time in best.items() if name.startswith("BlackJAX")) / ours,
        "two_processes": statistics.median(rates[2]) / statistics.median(rates[1]),
    }


def bars(network: str, timings: Sequence[harness.Timing], rates: dict[int, list[float]], n_cores: int) -> list[Bar]:
    """Against each peer as documented and at its best, the bare gradient, and one process."""
    title, best = TITLES[network], {timing.name: timing.best_rate for timing in timings}
    ours, wanted = best["stalegrad, inline"], WANTED[network]
    blackjax = max(rate for name, rate in best.items() if name.startswith("BlackJAX"))
    fastest = max(rate for name, rate in best.items() if name.startswith("posteriors"))
    found = [
        Bar(f"{title}: posteriors, documented", ours, best["posteriors, documented"], wanted["posteriors"]),
        Bar(f"{title}: posteriors, its fastest", ours, fastest, wanted["posteriors"]),
        Bar(f"{title}: BlackJAX, its fastest", ours, blackjax, wanted["BlackJAX"]),
    ]
    if network == "lenet":
        step, gradient = 1e3 / ours, 1e3 / best["the bare gradient"]
        found.append(Bar(f"{title}: step over gradient", step, gradient, 1.12, at_least=False, unit="ms"))
        if n_cores > 1:
            two, one = statistics.median(rates[2]), statistics.median(rates[1])
            found.append(Bar(f"{title}: two processes over one", two, one, 1.8, unit="gradients/s"))
    return found


if __name__ == "__main__":
    main()
