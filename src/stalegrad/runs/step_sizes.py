"""What the user leaves to be found: by one process before the run, for all of them."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.diagnostics.step_finder import find_step_size
from stalegrad.kernels import Kernel
from stalegrad.runs.prepare import Prepared, with_numbers
from stalegrad.runs.warmup.options import Warmup
from stalegrad.runs.warmup.warm_up import can_warm_up, refuse_missing, staleness_by_turns, warmed_up


def with_everything_found(
    run: Prepared, warmup: Any, *, burn_in: int | None, own_architecture: bool, progress: bool
) -> Prepared:
    """The run with what its user has left to be found: by a warm-up, or its step sizes alone.

    Args:
        run: as it was prepared.
        warmup: as for :func:`stalegrad.sample`.
        burn_in: likewise.
        own_architecture: whether the user gave one.
        progress: show how far it is.
    """
    if isinstance(warmup, bool):
        warmup = Warmup() if warmup else None
    if warmup is not None and warmup != "auto" and not isinstance(warmup, Warmup):
        remedy = "Give sg.Warmup(...), True, 'auto', or None or False for none."
        raise ArgumentError("warmup", warmup, f"is a {type(warmup).__name__}, not a Warmup", remedy)
    possible = can_warm_up(run.potential, run.kernels, run.settings)
    if isinstance(warmup, Warmup) and not possible:
        name, made = type(run.potential).__name__, type(run.settings.architecture).__name__
        problem = f"does not go with {name}, {made} and this kernel: it needs plain gradients, chains that sample one "
        problem += "law, and a sampler whose theory is known and that learns no metric of its own"
        raise ArgumentError("warmup", warmup, problem, "Give warmup=None and a kernel with its numbers.")
    if isinstance(warmup, Warmup) or (warmup == "auto" and possible and any(k.undecided for k in run.kernels)):
        options = warmup if isinstance(warmup, Warmup) else Warmup()
        return warmed_up(run, options, burn_in=burn_in, own_architecture=own_architecture, progress=progress)
    refuse_missing(run.kernels)
    return _with_found_step_sizes(run, progress)


def _with_found_step_sizes(run: Prepared, progress: bool) -> Prepared:
    """The run with a number wherever a step size was to be found, in the coordinates of θ."""
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
    return replace(run, kernels=with_numbers(run.kernels, known, "Give a step size."))


def found_step_sizes(kernels: Sequence[Kernel], find: Callable[[int, Kernel], float]) -> list[Mapping[str, float]]:
    """A step size for each chain that leaves it to be found, found once for equal kernels; nothing for the others."""
    found: dict[Kernel, float] = {}
    for server, kernel in enumerate(kernels):
        if kernel.undecided and kernel not in found:
            found[kernel] = find(server, kernel)
    return [{"step_size": found[kernel]} if kernel in found else {} for kernel in kernels]
