"""The one place that puts the parts together: :func:`sample`, :func:`resume`, :func:`load` and :func:`replay`."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stalegrad._internal.errors import ArgumentError, NotFinite, StoreError
from stalegrad._internal.text import printable
from stalegrad._internal.validation import whole_number
from stalegrad.analysis.diagnostics.checkup import FEWEST_GRADIENTS, MOST_GRADIENTS
from stalegrad.engines import Engine, Inline, Outcome
from stalegrad.engines.team import SingleProcess
from stalegrad.kernels import Harmonic, Kernel, kernel_from_table
from stalegrad.kernels.noise import MAX_REPEATS
from stalegrad.potentials import Potential
from stalegrad.potentials.wire.formats import Messages
from stalegrad.protocol.admission import Policy
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.protocol.chain import diverged
from stalegrad.protocol.chain_trace import joined
from stalegrad.protocol.executor import execute
from stalegrad.protocol.settings import Keep, OnStoreError, Settings
from stalegrad.protocol.trace import Trace
from stalegrad.runs.averages import Averages, EvaluationFailed, check_functions
from stalegrad.runs.onlookers import Onlookers
from stalegrad.runs.prepare import (
    Kernels,
    Prepared,
    check_potential,
    kernels_for,
    prepare,
    starts,
    with_architecture,
    with_numbers,
    with_stages,
)
from stalegrad.runs.recorders.memory import Recorder
from stalegrad.runs.recorders.stream import StreamRecorder
from stalegrad.runs.result import Diverged, Run, RunFailed, TestFunction
from stalegrad.runs.step_sizes import with_everything_found
from stalegrad.runs.warmup.options import Warmup

if TYPE_CHECKING:
    from stalegrad.runs.observers.observer import Observer
    from stalegrad.runs.storage import Storage
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
    onlookers = _onlookers(progress, functions, observers, watch)
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
        return _run_stored(storage, onlookers)
    if averages or keep != "all":
        return _run_streamed(prepared, _evaluated(averages, prepared), onlookers)
    settings = prepared.settings
    recorder = Recorder(repeats, settings.servers, settings.steps, settings.thinning, potential, prepared.coordinates)
    task = prepared.job(recorder.of, recorder, chain=lambda server: prepared.chain(server, recorder.rows))
    outcome = onlookers.run(prepared, task, recorder)
    run = _in_memory(prepared, recorder, outcome)
    run = _checked(run, _noticed(run, outcome), prepared)
    if progress and repeats is None and prepared.team.leads:
        _print_findings(run, potential, prepared.kernels, onlookers.functions)
    return run


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
        engine: as for :func:`sample`; None for the one that the run had.
        workers: W; None for what the run had.
        steps: L in all, counted from the run's start; None for what the run had.
        step_size: h from here on, a number or a schedule; None for what the run had. A run that has diverged needs a
            smaller one. Its chains go on from their last checkpoints, those that were on their way to infinity by then
            from their starts.
        progress: as for :func:`sample`.
        functions: as for :func:`sample`.
        averages: the functions that the run was begun with, under the same names: their averages go on.
        checkpoint_every: as for :func:`sample`; None for what the run had.
        on_store_error: likewise.
        observers: as for :func:`sample`.
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
    onlookers = _onlookers(progress, functions, observers, watch)
    storage = Storage.open(
        path, potential, kernel, engine=engine, step_size=step_size, changes=changes, averages=check_functions(averages)
    )
    if progress and storage.prepared.team.leads:
        print(storage.beginning, file=sys.stderr)
    return _run_stored(storage, onlookers)


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


def replay(
    trace: Trace,
    potential: Potential,
    kernel: Kernels | None = None,
    *,
    seed: int | None = None,
    initial: Any = None,
    burn_in: int | None = None,
    thin: int | None = None,
    repeats: int | None = None,
    first_repeat: int = 0,
    architecture: Architecture | None = None,
) -> Run:
    """Execute a trace in this process: with the model and kernel of the run it came from, the same draws bit for bit.

    Args:
        trace: from ``run.trace``, :func:`stalegrad.simulate`, :meth:`Trace.load` or the constructors of :class:`Trace`.
        potential: the model.
        kernel: the sampler, or one per chain; None for what the trace says it was. Step sizes that the trace has
            recorded are used as they were.
        seed: in place of the trace's own.
        initial: θ_0 in place of the trace's own; z_0, where the run had coordinates of its own.
        burn_in: in place of the trace's own.
        thin: in place of the trace's own.
        repeats: run R independent repetitions in one pass.
        first_repeat: number of the first repetition; repetition 0 is the run itself.
        architecture: as for :func:`sample`; None for what the trace says.

    >>> import stalegrad as sg
    >>> model = sg.testing.small_model()
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, workers=2, progress=False)
    >>> bool((sg.replay(run.trace, model).draws == run.draws).all())
    True
    """
    if not isinstance(trace, Trace) or not trace.chains:
        raise ArgumentError("trace", trace, "is not a trace", "Give run.trace, sg.simulate(...) or sg.Trace.load(...).")
    check_potential(potential)
    first_repeat = whole_number("first_repeat", first_repeat, most=MAX_REPEATS - 1)
    prepared = _replayed(
        trace, potential, kernel, initial,
        {"seed": seed, "burn_in": burn_in, "thin": thin, "architecture": architecture},
    )  # fmt: skip
    settings = prepared.settings
    recorder = Recorder(repeats, settings.servers, settings.steps, settings.thinning, potential, prepared.coordinates)
    chains = [
        execute(chain, prepared.work, prepared.chain(s, recorder.rows, first_repeat), recorder.of(s))
        for s, chain in enumerate(trace.chains)
    ]
    outcome = Outcome(tuple(chains))
    record = prepared.record()
    if trace.record is not None:
        record = replace(record, engine=trace.record.engine)  # which made the run, and is not what replays it
    run = Run(
        draws=recorder.draws,
        trace=Trace.of_run(outcome.chains, record, prepared.initial, prepared.coordinates),
        stats=recorder.stats,
        chain_draws=recorder.chain_draws,
        variables=potential.variables,
    )
    return _checked(run, _noticed(run, outcome), prepared)


def _where(initial: Any, servers: int) -> Any:
    """θ_0 as an array: of a run, the last draw of each chain."""
    if not isinstance(initial, Run):
        return initial
    if len(initial.chain_draws) != servers or not all(map(len, initial.chain_draws)):
        problem = f"has last draws of {sum(len(draws) > 0 for draws in initial.chain_draws)} chains"
        raise ArgumentError("initial", initial, problem, f"Give a run of {servers} chains that has kept draws.")
    return np.stack([np.asarray(draws[-1:]).reshape(-1) for draws in initial.chain_draws])


def _replayed(
    trace: Trace, potential: Potential, kernel: Kernels | None, initial: Any, changes: Mapping[str, Any]
) -> Prepared:
    """A run that executes a trace: with the settings of the run that left it, but for some changes."""
    servers, steps = len(trace), max(chain.steps for chain in trace.chains)
    if trace.record is None:
        settings = Settings(steps=steps, servers=servers, workers=trace.workers, seed=trace.seed)
    else:
        settings = replace(trace.record.settings, steps=steps)  # it may have been interrupted
    settings = replace(settings.changed(**changes), keep="all", averages=())  # what was not kept is made again
    start, own = starts(trace.initial if initial is None else initial, servers, potential)
    recorded = () if trace.record is None else trace.record.kernels
    given = [kernel_from_table(table, path="trace.kernels") for table in recorded] if kernel is None else kernel
    if kernel is None and not recorded:
        raise ArgumentError("kernel", None, "is not known to a trace that no run has left", "Give the sampler.")
    kernels = with_numbers(kernels_for(given, servers, potential), recorded, "Give the number that the run had.")
    settings = with_stages(settings, kernels)
    # What was dropped, or waited, is in the trace: the bound has no say in a replay.
    free = with_architecture(replace(settings, max_staleness=None, policy="drop"), potential, kernels)
    settings = replace(settings, architecture=free.architecture)
    warmup = None if trace.record is None else trace.record.warmup
    team = SingleProcess()
    return Prepared(potential, kernels, Inline(), settings, start, own, team, trace.coordinates, warmup)


def _in_memory(prepared: Prepared, recorder: Recorder | StreamRecorder, outcome: Outcome) -> Run:
    """A run whose draws, as far as they are kept, are in memory."""
    return Run(
        draws=recorder.draws,
        trace=prepared.trace(outcome.chains),
        stats=recorder.stats,
        chain_draws=recorder.chain_draws,
        events=outcome.events,
        timing=outcome.timing,
        interrupted=outcome.interrupted,
        variables=prepared.potential.variables,
    )


def _evaluated(averages: Mapping[str, Any] | None, prepared: Prepared) -> Averages | None:
    """What evaluates functions while draws come, if there are any."""
    return Averages(averages, prepared.kernels, prepared.settings.thinning) if averages else None


def _run_streamed(prepared: Prepared, averages: Averages | None, onlookers: Onlookers) -> Run:
    """A run without a store, whose draws go to averages as they come and need not stay."""
    recorder = StreamRecorder(prepared.settings, prepared.potential, prepared.coordinates, averages)
    task = prepared.job(recorder.of, recorder, chain=prepared.chain)
    try:
        outcome = onlookers.run(prepared, task, recorder, averages=averages)
    except EvaluationFailed as failure:  # of the inline engine, which reports to no other process
        outcome = Outcome(tuple(joined([]) for _ in prepared.kernels), failure=failure)
    finally:
        failed = recorder.settle()
    if failed is not None and outcome.failure is None:
        outcome = replace(outcome, failure=failed)
    run = _in_memory(prepared, recorder, outcome)
    run = replace(run, averages={} if averages is None else averages.results())
    run = _checked(run, _noticed(run, outcome), prepared)
    if onlookers.progress and prepared.team.leads:
        _print_findings(run, prepared.potential, prepared.kernels, onlookers.functions)
    return run


def _run_stored(storage: "Storage", onlookers: Onlookers) -> Run:
    """Run what is left to do, and note in the store how it ended."""
    prepared = storage.prepared
    with storage:
        try:
            outcome = onlookers.run(
                prepared, storage.job(), storage.recorder, storage.folder, averages=storage.averages
            )
        except StoreError as failure:  # of the inline engine, which reports to no other process
            outcome = Outcome((), failure=failure)
        storage.recorder.close()
        outcome = storage.finish(_noticed(storage.run(outcome), outcome))
    run = _checked(storage.run(outcome), outcome, prepared)
    if onlookers.progress and prepared.team.leads:
        _print_findings(run, prepared.potential, prepared.kernels, onlookers.functions)
    return run


def _noticed(run: Run, outcome: Outcome) -> Outcome:
    """The outcome, of a chain that has overflowed at its end with this failure."""
    for s, draws in enumerate(() if outcome.failure is not None else run.chain_draws):
        # No gradient is taken at the last point, so nobody else would notice that it overflowed. NaN and infinity stay
        # in θ once they are there: the last draw of a chain tells for all of them.
        if not np.isfinite(draws[..., -1:, :]).all():
            return replace(outcome, failure=diverged(s, run.trace.chains[s].steps, "its last draw is NaN or infinite"))
    return outcome


def _checked(run: Run, outcome: Outcome, prepared: Prepared) -> Run:
    """The run, or the exception that says why it is not whole."""
    failure = outcome.failure
    if isinstance(failure, NotFinite):
        made = min(chain.steps for chain in run.trace.chains)
        raise Diverged(str(failure), run, max(float(kernel.schedule(made)) for kernel in prepared.kernels)) from None
    if failure is not None:
        raise RunFailed(str(failure), run) from failure
    return run


def _print_findings(
    run: Run, potential: Potential, kernels: Sequence[Kernel], functions: Mapping[str, TestFunction]
) -> None:
    """What the run's own diagnosis says, below the verdict. Whatever happens here, the run is not lost.

    Of a run whose draws are not kept it is its averages that are shown.

    Gradients for it are computed by nobody else meanwhile: at most a tenth of what each worker has computed.
    """
    if run.trace.record is not None and run.trace.record.settings.keep != "all":
        for name, average in run.averages.items():
            print(printable(f"{name}: {average!r}"), file=sys.stderr)
        return
    each = sum(chain.steps for chain in run.trace.chains) // (len(kernels) * run.trace.workers)
    budget = min(max(each // 20, FEWEST_GRADIENTS), MOST_GRADIENTS)
    from stalegrad.runs.notebook import in_notebook, show

    affordable = not run.interrupted and each >= 10 * budget
    try:
        findings = run.diagnose(potential if affordable else None, kernels, functions, gradients=budget)
        if in_notebook():
            show(findings)
            return
        text = str(findings)
    except (Exception, KeyboardInterrupt) as problem:
        text = f"no diagnosis ({type(problem).__name__}: {problem})"
    print(printable(text), file=sys.stderr)


def _onlookers(progress: bool, functions: Any, observers: Any, watch: Any) -> Onlookers:
    """Who looks on, checked before anything begins."""
    seen = Onlookers(progress, _functions(functions))
    if observers is not None:
        from stalegrad.runs.observers.tables import check_observers

        seen = replace(seen, observers=check_observers(observers))
    if watch is not False and watch is not None:
        from stalegrad.runs.watch.opening import require
        from stalegrad.runs.watch.options import Watch

        require()
        seen = replace(seen, watch=Watch.of(watch))
    return seen


def _functions(functions: Any) -> Mapping[str, TestFunction]:
    if functions is None:
        return {}
    if not isinstance(functions, Mapping) or not all(callable(phi) for phi in functions.values()):
        remedy = 'Give a mapping from name to function of one draw, such as {"loss": test_loss}.'
        raise ArgumentError("functions", functions, "is not a mapping of functions", remedy)
    return functions
