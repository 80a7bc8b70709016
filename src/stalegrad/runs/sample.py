"""The short call: :func:`sample` checks what it is given, has the rest found, and carries the run out."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad.engines import Engine, Inline
from stalegrad.engines.team import SingleProcess
from stalegrad.kernels import Harmonic
from stalegrad.potentials import Potential
from stalegrad.potentials.wire.formats import Messages
from stalegrad.protocol.admission import Policy
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.protocol.settings import Keep, OnStoreError, Settings
from stalegrad.runs.averages import Averages, check_functions
from stalegrad.runs.carry_out import run_in_memory, run_stored, run_streamed
from stalegrad.runs.onlookers import Onlookers
from stalegrad.runs.prepare import Kernels, Prepared, prepare
from stalegrad.runs.result import Run, TestFunction
from stalegrad.runs.step_sizes import with_everything_found
from stalegrad.runs.warmup.options import Warmup

if TYPE_CHECKING:
    from stalegrad.runs.observers.observer import Observer
    from stalegrad.runs.watch.options import Watch


def sample(
    potential: Potential,
    kernel: Kernels | None = None,
    *,
    steps: int,
    workers: int = 1,
    servers: int = 1,
    max_staleness: int | None = None,
    policy: Policy = "drop",
    seed: int = 0,
    engine: str | Engine | None = None,
    initial: Any = None,
    burn_in: int | None = None,
    thin: int = 1,
    keep: Keep = "all",
    averages: Mapping[str, Any] | None = None,
    warmup: Warmup | Literal["auto"] | bool | None = "auto",
    repeats: int | None = None,
    architecture: Architecture | None = None,
    messages: Messages = "float32",
    progress: bool = True,
    functions: Mapping[str, TestFunction] | None = None,
    store: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    checkpoint_every: float = 60.0,
    on_store_error: OnStoreError = "stop",
    job: Mapping[str, Any] | None = None,
    observers: "Sequence[Observer] | Observer | None" = None,
    watch: "bool | Watch" = False,
) -> Run:
    """Sample a posterior with S servers, each with its own chain and W workers that send it stale gradients.

    Args:
        potential: the model, see :mod:`stalegrad.potentials`.
        kernel: the sampler; a sequence gives every server its own, with its own step size. None for ``sg.Harmonic()``.
            What it leaves out, or gives as ``"auto"``, the warm-up finds; numbers that it has are taken as they are,
            and where there is a warm-up they are of the coordinates that it finds.
        steps: L, accepted updates of each chain.
        workers: W, workers of each server. With ``engine="mpi"`` the number of ranks decides.
        servers: S, independent chains.
        max_staleness: τ, the bound on staleness; None for no bound.
        policy: at the bound ``"drop"`` the gradient (the paper's) or let workers ``"wait"`` so that it holds.
        seed: of everything random. Inline, the same seed gives the same bits; on a real engine the order of arrival
            differs from run to run, and ``replay(run.trace, ...)`` gives the same bits.
        engine: ``"threads"`` (the default), ``"processes"``, ``"mpi"`` (all ranks of an ``mpiexec`` or ``srun`` call
            this function), ``"ray"`` (a cluster's, or one that is started here), ``"inline"`` (a simulated cluster,
            executed in this thread; the default with ``repeats``), or an engine object such as
            ``sg.engines.Processes(threads=2)``.
        initial: θ_0, (n,) for all chains or (S, n); None for the model's own start. A :class:`Run` of as many chains,
            such as one that has optimised, for its last draws.
        burn_in: updates of each chain that are not kept; None for as many as the warm-up finds right, or for 0 without
            one.
        thin: keep every thin-th update after that.
        keep: which draws stay: ``"all"`` of them, the ``"last"`` of each chain, or ``"none"``, so that memory and disk
            do not grow with their number. ``sg.replay(run.trace, …)`` makes them all again.
        averages: functions of one draw, by name, that are averaged over all draws as they come, see
            :mod:`stalegrad.runs.averages`: ``{"test": model.predictive(X_test)}`` for predictions, or
            ``{"test": (model.predictive(X_test), y_test)}`` to have scores shown; test functions of numbers have Monte
            Carlo errors. ``run.averages`` has them by name. Servers wait only if these are slower than the draws come.
        warmup: how to find what is not given, see :class:`Warmup`. By default there is one if the kernel, or any number
            of it, is not given; ``sg.Warmup()`` or True for one in any case, None or False for none. Draws are in θ in
            any case.
        repeats: run R independent repetitions of the same trace in one pass (inline engine only).
        architecture: who samples and who sends what, such as ``sg.Downpour(n_push=5)``, or ``sg.Shards()`` for workers
            that each have a part of the data, see
            :mod:`stalegrad.protocol.architectures`; None for workers that send gradients and a server that samples. The
            trace remembers it, too.
        messages: how points and gradients travel: ``"float32"``, as they are; ``"bfloat16"``, both in half the bytes;
            ``"int8"``, gradients in a quarter and points in half. They are rounded at random, without bias, by chances
            that are addressed like all others, so that a replay rounds alike; see docs/messages.md for what it costs.
            Bytes are saved where messages leave the process, with ``engine="mpi"`` and ``"ray"``.
        progress: show how far it is, on standard error, and in the end what :meth:`Run.diagnose` finds.
        functions: test functions, by name, whose averages the progress shows, as :meth:`Run.estimate` has them. They
            are evaluated beside the sampling, on as many draws as there is time for, and it shows on how many.
        store: a new folder to which draws, trace and checkpoints are written while the run goes on, see
            :mod:`stalegrad.runs.store`. The run can then be resumed whatever happens to this process, and ``run.draws``
            reads from disk: memory does not grow with the number of draws.
        overwrite: delete the run that is in this folder already, once the new one can begin. Nothing but a run that no
            process is writing is ever deleted.
        checkpoint_every: seconds between checkpoints, at most: they begin after 1 s, and the time to the next doubles
            until it is this long. There is one at the end in any case.
        on_store_error: when the folder cannot be written, such as on a full disk, ``"stop"`` the run, or
            ``"continue"``: try again until it can be, with what was sampled meanwhile, up to 256 MiB, in memory. Then
            the sampling waits, and after ten minutes the run stops, too.
        job: a plain table that is kept in the store, such as the file that described the run.
        observers: who else looks on while the run goes on, such as ``sg.observers.TensorBoard("runs/tb")``, see
            :mod:`stalegrad.runs.observers`. None of them can slow or break the run.
        watch: serve a page that shows the run while it goes on, at an address that is printed; ``sg.Watch(port=8000)``
            for other than the defaults. Closed to all but this machine and those who know the address. It needs the
            extra ``watch``.

    Returns:
        A :class:`Run`. Ctrl-C and SIGTERM end it early with what has been sampled so far, ``run.interrupted`` says so.
        With ``engine="mpi"`` rank 0 returns; the other ranks end here, see :class:`stalegrad.engines.MPI`.

    Raises:
        RunFailed: all workers of a chain failed too often in a row, or the store could not be written; the exception's
            ``run`` holds the draws so far.
        Diverged: a chain has; a RunFailed and a GradientError, whose message says how to go on.
        StoreError: the store cannot be made.

    >>> import stalegrad as sg
    >>> model = sg.testing.small_model()
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, workers=2, engine="inline", progress=False)
    >>> run.draws.shape
    (1, 100, 5)
    """
    settings = Settings(
        steps=steps, workers=workers, servers=servers, max_staleness=max_staleness, policy=policy, seed=seed,
        burn_in=0 if burn_in is None else burn_in, thin=thin,
        architecture=StaleGradients() if architecture is None else architecture, messages=messages,
        checkpoint_every=checkpoint_every, on_store_error=on_store_error, keep=keep,
        averages=tuple(check_functions(averages)),
    )  # fmt: skip
    chosen = engine if engine is not None else "threads" if repeats is None else "inline"
    sampler = Harmonic() if kernel is None else kernel
    prepared = prepare(potential, sampler, settings, engine=chosen, initial=_where(initial, settings.servers))
    onlookers = Onlookers.of(progress, functions, observers, watch)
    if repeats is not None and not isinstance(prepared.engine, Inline):
        raise ArgumentError("repeats", repeats, f"does not go with engine {engine!r}", "Use engine='inline'.")
    if repeats is not None and (averages or keep != "all"):
        name, given = ("averages", averages) if averages else ("keep", keep)
        problem, remedy = "does not go with repeats, whose draws are all kept", "Leave out one of them."
        raise ArgumentError(name, given, problem, remedy)
    if store is None and (averages or keep != "all") and not isinstance(prepared.team, SingleProcess):
        name, given = ("averages", averages) if averages else ("keep", keep)
        problem = "are made where each chain is, in several processes, and come together on disk"
        raise ArgumentError(name, given, problem, "Give a store=, too.")
    if store is not None and repeats is not None:
        problem, remedy = "does not go with repeats", "Store runs one by one, with seeds of each."
        raise ArgumentError("store", store, problem, remedy)
    prepared = with_everything_found(
        prepared, warmup, burn_in=burn_in, own_architecture=architecture is not None, progress=progress
    )
    if store is not None:
        from stalegrad.runs.storage import Storage  # what compresses draws takes a while to import

        evaluated = _evaluated(averages, prepared)
        storage = Storage.create(store, prepared, job=job, overwrite=overwrite, averages=evaluated)
        return run_stored(storage, onlookers)
    if averages or keep != "all":
        return run_streamed(prepared, _evaluated(averages, prepared), onlookers)
    return run_in_memory(prepared, onlookers, repeats)


def _where(initial: Any, servers: int) -> Any:
    """θ_0 as an array: of a run, the last draw of each chain."""
    if not isinstance(initial, Run):
        return initial
    if len(initial.chain_draws) != servers or not all(map(len, initial.chain_draws)):
        problem = f"has last draws of {sum(len(draws) > 0 for draws in initial.chain_draws)} chains"
        raise ArgumentError("initial", initial, problem, f"Give a run of {servers} chains that has kept draws.")
    return np.stack([np.asarray(draws[-1:]).reshape(-1) for draws in initial.chain_draws])


def _evaluated(averages: Mapping[str, Any] | None, prepared: Prepared) -> Averages | None:
    """What evaluates functions while draws come, if there are any."""
    return Averages(averages, prepared.kernels, prepared.settings.thinning) if averages else None
