"""How much φ̂ depends on how often φ is looked at: a chain that is looked at after every update says so.

The figures look at φ after some of the updates of a chain and take it to be linear in between (``evaluation.py``). Here
their chains are made again and looked at after each of their L = W·L̄ updates: φ̂ is then the average that it is meant to
be, with nothing in between, and beside it stands what the grid of the figures makes of the same chain, and what half of
that grid does.
"""

import time
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.version import VERSION
from stalegrad.engines import available_cores
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_run import KeepNothing, begin
from stalegrad.experiments.losses.evaluation import half_of, refuse_unless_a_place, running_average
from stalegrad.experiments.losses.side_by_side import side_by_side
from stalegrad.experiments.losses.tasks import TASKS, model_of
from stalegrad.experiments.parts import kept_array
from stalegrad.experiments.verdicts import CANNOT_TELL, DOES_NOT, HOLDS, Verdict
from stalegrad.protocol.executor import Executor

BOUND = 1e-3
"""Of what φ̂ may depend on the grid, relative to itself."""


def reproduce(
    out: Path,
    name: str = "mnist",
    *,
    workers: Sequence[int] = (1, 2, 4, 6, 9),
    iterations: int = 200,
    seed: int = 0,
    lr: float | None = None,
    deadline: float = float("inf"),
    processes: int | None = None,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Look at chains of figure 3 after every update, and write grids.json.

    Args:
        out: the folder. What has been made is in its folder ``every_update``, a chain as a whole or not at all.
        name: data set.
        workers: W of the chains.
        iterations: L̄.
        seed: the repetition of figure 3 whose chains they are.
        lr: learning rate, in place of the model's own.
        deadline: by :func:`time.time`, after which no chain is begun.
        processes: chains at a time; as many as there are cores.
        report: called with what is being done and the share that is done.
    """
    task = TASKS[name]
    refuse_unless_a_place(iterations, task.density)
    chains = [ChainName(name, count, 0, seed, lr or task.recipe.lr) for count in sorted({*workers}, reverse=True)]
    begun = takewhile(lambda _: time.time() < deadline, chains)
    losses, share = dict[ChainName, Array](), 0.0
    work = partial(every_loss, out / "every_update", iterations)
    for chain, found in side_by_side(work, begun, min(processes or available_cores(), len(chains))):
        losses[chain] = found
        share += chain.workers / sum(each.workers for each in chains)
        report(f"{name}: {chain.word}", share)
    rows = [_row(chain, losses[chain], iterations) for chain in sorted(losses)]
    numbers = {
        "dataset": name, "title": task.title, "stalegrad": VERSION, "iterations": iterations, "seed": seed,
        "lr": lr or task.recipe.lr, "left_out": [chain.workers for chain in chains if chain not in losses],
        "rows": rows, "verdicts": [verdict(rows).plain()],
    }  # fmt: skip
    write_numbers(out / "grids.json", numbers)
    return numbers


def every_loss(folder: Path, iterations: int, name: ChainName) -> Array:
    """φ(θ_0), φ(θ_1), … after every update of a chain up to L̄ = ``iterations``, or up to where it diverges."""
    return kept_array(folder / f"{name.word}-{iterations}.npy", partial(_looked_at, name, iterations))


def _looked_at(name: ChainName, iterations: int) -> Array:
    task = TASKS[name.task]
    model = model_of(task.name, task.recipe.batch_size, name.layers)
    trace, chain = begin(name, task, model)
    executor = Executor(trace, model.potential, chain, KeepNothing(chain.position), keep_rows=False)
    waiting, found = [chain.position[0].copy()], list[float]()
    last = name.workers * iterations
    for update in range(1, last + 1):
        try:
            executor.advance(1)
        except GradientError:
            last = update - 1
        else:
            waiting.append(chain.position[0].copy())
        if len(waiting) >= model.together or update >= last:
            found += (-model.log_likelihoods(np.array(waiting)).mean(1, dtype=np.float64)).tolist() if waiting else []
            waiting = []
        if update >= last:
            break
    return np.array(found)


def _row(chain: ChainName, loss: Array, iterations: int) -> dict[str, Any]:
    task = TASKS[chain.task]
    last = len(loss) - 1
    grid = chain.workers * task.looked_at(chain.workers, iterations)
    grid = grid[grid <= last]
    every, shown, coarser = (average(chain, loss, at) for at in (np.arange(1, last + 1), grid, half_of(grid)))
    return {
        "workers": chain.workers, "updates": last, "diverged": last < chain.workers * iterations,
        "looks": len(grid), "average": every, "error": shown / every - 1, "error_of_half": coarser / every - 1,
        "current": float(loss[-1]), "highest": float(loss.max()),
    }  # fmt: skip


def average(chain: ChainName, loss: Array, at: IntArray) -> float:
    """φ̂ after ``at[-1]`` updates, of φ after each of them, ``loss[1:]``, looked at ``at`` some of them alone."""
    return float(running_average(loss[0], loss[at], at, chain.weights(TASKS[chain.task], len(loss)))[-1])


def verdict(rows: Sequence[dict[str, Any]]) -> Verdict:
    """Whether the grid of the figures is fine enough; no interval, since both averages are of the same chains."""
    found = [(row["workers"], abs(row["error"])) for row in rows if not row["diverged"]]
    return Verdict(
        f"φ̂ on the grid of the figures is within {BOUND:.1%} of the average over every update",
        CANNOT_TELL if not found else HOLDS if max(error for _, error in found) < BOUND else DOES_NOT,
        ", ".join(f"W = {workers}: {error:.3%}" for workers, error in found) or "no chain is whole",
    )
