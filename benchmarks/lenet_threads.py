"""LeNet on two threads that share a chain, over two chains that have nothing to do with each other, on the same cores.

    python benchmarks/lenet_threads.py [--json FILE]

The chains that are independent run inline, each in a process of its own, at the same time: what the machine allows.
"""

import argparse
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import cores
import harness
from networks import Task
from results import Bar, Result
from stalegrad.engines.processes.freed_memory import keep_freed_memory

BAR = 0.95
WORKERS = 2
TEXT = """
Gradients of LeNet a second (SGHMC, J = 64, as Caffe trains it), all of which update a chain: two threads with one chain
between them, and two processes with a chain each, which run inline at the same time on the same {cores} cores, one
thread of torch each. They take turns; the ratio is the median of those within a round. The threads compute gradients in
torch and apply them themselves, close behind each other, in one compiled call.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="LeNet on two threads over two independent chains.")
    parser.add_argument("--steps", type=int, default=150, help="gradients a worker in a round (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, steps=5, rounds=1)


def alone(steps: int) -> float:
    """Steps a second of a chain in this process."""
    import time

    import torch

    import stalegrad as sg

    torch.set_num_threads(1)
    keep_freed_memory()
    global _task
    _task = _task or Task("lenet")
    kernel = _task.sampler.ours()
    begun = time.perf_counter()
    sg.sample(_task.potential, kernel, steps=steps, thin=steps, engine="inline", progress=False)
    return steps / (time.perf_counter() - begun)


_task: Task | None = None


def together(task: Task, steps: int) -> float:
    """Gradients a second of two threads, after a fifth of the run."""
    import stalegrad as sg

    total = WORKERS * steps
    run = sg.sample(
        task.potential, task.sampler.ours(), steps=total, workers=WORKERS, thin=total, engine="threads", progress=False
    )
    times: Any = run.trace.chains[0].time
    skip = total // 5
    return float((total - 1 - skip) / (times[-1] - times[skip]))


def main() -> None:
    """Measure and report."""
    import torch

    from stalegrad.engines.threads import compiled_server

    given = arguments()
    torch.set_num_threads(1)
    keep_freed_memory()
    task = Task("lenet")
    compiled_server.WORTH_COMPILING_FOR_PYTHON = 1  # as in a run of an hour, of which a round is a minute
    together(task, 4)
    ours, independent = [], []
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        list(pool.map(alone, [2] * WORKERS))  # each has started and is warm
        for _ in range(given.rounds):
            independent.append(sum(pool.map(alone, [given.steps] * WORKERS)))
            ours.append(together(task, given.steps))
    share = statistics.median(mine / theirs for mine, theirs in zip(ours, independent, strict=True))
    settings = {"data": task.data.source, **vars(given)}
    result = Result("LeNet on two threads", TEXT.format(cores=len(cores.current())), settings)
    result.table(
        f"Gradients a second that update a chain ({task.data.source})",
        ["", "median", "best round"],
        [["one chain, two threads", statistics.median(ours), max(ours)],
         ["two chains, two processes", statistics.median(independent), max(independent)]],
    )  # fmt: skip
    result.bars = [Bar("LeNet, two threads over two independent chains", share, None, BAR)]
    result.figures = {"ours": ours, "independent": independent}
    result.finish(given.json)


if __name__ == "__main__":
    main()
