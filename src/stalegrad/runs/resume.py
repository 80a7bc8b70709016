"""What becomes of a stored run: it goes on, :func:`resume`, or is looked at, :func:`load`."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stalegrad.engines import Engine
from stalegrad.potentials import Potential
from stalegrad.protocol.settings import OnStoreError
from stalegrad.runs.averages import check_functions
from stalegrad.runs.carry_out import run_stored
from stalegrad.runs.onlookers import Onlookers
from stalegrad.runs.prepare import Kernels
from stalegrad.runs.result import Run, TestFunction

if TYPE_CHECKING:
    from stalegrad.runs.observers.observer import Observer
    from stalegrad.runs.watch.options import Watch


def resume(
    path: str | os.PathLike[str],
    potential: Potential | None = None,
    kernel: Kernels | None = None,
    *,
    engine: str | Engine | None = None,
    workers: int | None = None,
    steps: int | None = None,
    step_size: Any = None,
    progress: bool = True,
    functions: Mapping[str, TestFunction] | None = None,
    averages: Mapping[str, Any] | None = None,
    checkpoint_every: float | None = None,
    on_store_error: OnStoreError | None = None,
    observers: "Sequence[Observer] | Observer | None" = None,
    watch: "bool | Watch" = False,
) -> Run:
    """Go on with a stored run that was interrupted, killed or has failed, or make one that has finished longer.

    The chains continue from their last checkpoints, on any engine and with any number of workers, unless the
    architecture has a part for each. The whole run, from its very start, still replays bit for bit from
    its trace.

    Args:
        path: the folder that was given as ``store``.
        potential: the model of the run. None if the run was described by a file, which then says how to make it.
        kernel: the sampler of the run; None takes it from the store.
        engine: as for :func:`stalegrad.sample`; None for the one that the run had.
        workers: W; None for what the run had.
        steps: L in all, counted from the run's start; None for what the run had.
        step_size: h from here on, a number or a schedule; None for what the run had. A run that has diverged needs a
            smaller one. Its chains go on from their last checkpoints, those that were on their way to infinity by then
            from their starts.
        progress: as for :func:`stalegrad.sample`.
        functions: as for :func:`stalegrad.sample`.
        averages: the functions that the run was begun with, under the same names: their averages go on.
        checkpoint_every: as for :func:`stalegrad.sample`; None for what the run had.
        on_store_error: likewise.
        observers: as for :func:`stalegrad.sample`.
        watch: likewise.

    Raises:
        StoreError: the folder is no run, is damaged, of another version or of another model, or is being written.

    >>> import tempfile, stalegrad as sg
    >>> model, settings = sg.testing.small_model(), {"engine": "inline", "progress": False}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, store=f"{folder}/run", **settings)
    ...     sg.resume(f"{folder}/run", model, steps=150, progress=False).draws.shape
    (1, 150, 5)
    """
    from stalegrad.runs.storage import Storage

    changes = {
        "workers": workers, "steps": steps, "checkpoint_every": checkpoint_every, "on_store_error": on_store_error
    }  # fmt: skip
    onlookers = Onlookers.of(progress, functions, observers, watch)
    storage = Storage.open(
        path, potential, kernel, engine=engine, step_size=step_size, changes=changes, averages=check_functions(averages)
    )
    if progress and storage.prepared.team.leads:
        print(storage.beginning, file=sys.stderr)
    return run_stored(storage, onlookers)


def load(path: str | os.PathLike[str], potential: Potential | None = None) -> Run:
    """A stored run as it is on disk, also while it goes on: all that the last checkpoints of its chains hold.

    Args:
        path: the folder that was given as ``store``.
        potential: the model, if constrained parameters are to be named and transformed by it.

    >>> import tempfile, stalegrad as sg
    >>> model, settings = sg.testing.small_model(), {"engine": "inline", "progress": False}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, store=f"{folder}/run", **settings)
    ...     sg.load(f"{folder}/run").draws.shape
    (1, 100, 5)
    """
    from stalegrad.runs.storage import stored_run

    return stored_run(path, potential)
