"""Step sizes that the user leaves to be found: by one process before the run, for all of them."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from stalegrad.analysis.diagnostics.step_finder import find_step_size
from stalegrad.kernels import Kernel
from stalegrad.runs.prepare import Prepared, with_step_sizes


def with_found_step_sizes(run: Prepared, progress: bool) -> Prepared:
    """The run with a number wherever a step size was to be found."""
    if not any(kernel.undecided for kernel in run.kernels):
        return run
    settings = run.settings
    staleness = staleness_by_turns(settings.workers, settings.max_staleness)

    def find(server: int, kernel: Kernel) -> float:
        found = find_step_size(
            run.potential, kernel, staleness=staleness, initial=run.start[server], seed=settings.seed,
            gradients=min(max(settings.servers * settings.steps // 10, 2_000), 50_000), progress=progress,
        )  # fmt: skip
        if progress:
            print(found, file=sys.stderr)
        return found.step_size

    known = run.team.broadcast(lambda: found_step_sizes(run.kernels, find), json.dumps, json.loads)
    return replace(run, kernels=with_step_sizes(run.kernels, known, "Give a step size."))


def found_step_sizes(kernels: Sequence[Kernel], find: Callable[[int, Kernel], float]) -> list[float | None]:
    """A step size for each chain that leaves it to be found, found once for equal kernels; None for the others."""
    found: dict[Kernel, float] = {}
    for server, kernel in enumerate(kernels):
        if kernel.undecided and kernel not in found:
            found[kernel] = find(server, kernel)
    return [found.get(kernel) for kernel in kernels]


def staleness_by_turns(workers: int, max_staleness: int | None) -> int:
    """τ of workers that are equally fast, within the bound."""
    return workers - 1 if max_staleness is None else min(workers - 1, max_staleness)
