"""The one place that puts the parts together: :func:`sample`, :func:`resume`, :func:`load` and :func:`replay`."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad.admission import Policy
from stalegrad.architectures import Architecture, architecture_from_table
from stalegrad.architectures.base import Setting
from stalegrad.checks import one_of, real_number, whole_number
from stalegrad.diagnostics.checkup import FEWEST_GRADIENTS, MOST_GRADIENTS
from stalegrad.draws import Thinning
from stalegrad.engines import Engine, Inline, Job, Outcome
from stalegrad.engines.inline import execute
from stalegrad.errors import ArgumentError, GradientError, StoreError
from stalegrad.kernels import Kernel
from stalegrad.noise import MAX_REPEATS
from stalegrad.plan import (
    Kernels,
    Plan,
    architecture_for,
    check_potential,
    decided,
    kernels_for,
    make_plan,
    shards_for,
    starts,
    with_found_step_sizes,
)
from stalegrad.potentials import Potential
from stalegrad.recorder import Recorder
from stalegrad.result import Run, RunFailed, TestFunction
from stalegrad.server import ChainStatus
from stalegrad.trace import MAX_SEED, Trace

if TYPE_CHECKING:
    from stalegrad.disk_recorder import DiskRecorder
    from stalegrad.storage import Storage


def sample(
    potential: Potential,
    kernel: Kernels,
    *,
    steps: int,
    workers: int = 1,
    servers: int = 1,
    max_staleness: int | None = None,
    policy: Policy = "drop",
    seed: int = 0,
    engine: str | Engine | None = None,
    initial: Any = None,
    burn_in: int = 0,
    thin: int = 1,
    repeats: int | None = None,
    shard: bool | Sequence[int] = False,
    architecture: Architecture | None = None,
    progress: bool = True,
    functions: Mapping[str, TestFunction] | None = None,
    store: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    on_store_error: str = "stop",
    job: Mapping[str, Any] | None = None,
) -> Run:
    """Sample a posterior with S servers, each with its own chain and W workers that send it stale gradients.

    Args:
        potential: the model, see :mod:`stalegrad.potentials`.
        kernel: the sampler; a sequence gives every server its own, with its own step size. With ``step_size="auto"`` a
            calibration finds it first, see :func:`find_step_size`; it takes at most as many gradients as a tenth of
            all updates, but 2,000 in any case and never more than 50,000. The number found is what the trace and the
            store hold.
        steps: L, accepted updates of each chain.
        workers: W, workers of each server. With ``engine="mpi"`` the number of ranks decides.
        servers: S, independent chains.
        max_staleness: τ, the bound on staleness; None for no bound.
        policy: at the bound ``"drop"`` the gradient (the paper's) or let workers ``"wait"`` so that it holds.
        seed: of everything random. Inline, the same seed gives the same bits; on a real engine the order of arrival
            differs from run to run, and ``replay(run.trace, ...)`` gives the same bits.
        engine: ``"threads"`` (the default), ``"processes"``, ``"mpi"`` (all ranks of an ``mpiexec`` or ``srun`` call
            this function), ``"inline"`` (a simulated cluster, executed in this thread; the default with ``repeats``),
            or an engine object such as ``sg.engines.Processes(threads=2)``.
        initial: θ_0, (n,) for all chains or (S, n); None for the model's own start.
        burn_in: updates of each chain that are not kept.
        thin: keep every thin-th update after that.
        repeats: run R independent repetitions of the same trace in one pass (inline engine only).
        shard: let each worker draw its minibatches from a part of the data that is its own: True cuts the data into
            W consecutive parts of equal size, a list gives their sizes. The posterior is the same: gradients are
            weighed by N_w over the worker's share of all updates, see :mod:`stalegrad.potentials.shards`. It is an
            argument of the run and not of the model because there are as many shards as workers, and because models
            and kernels need not know. The trace remembers it, so that a replay does not have to be told.
        architecture: who samples and who sends what, such as ``sg.Downpour(n_push=5)``, see
            :mod:`stalegrad.architectures`; None for workers that send gradients and a server that samples. The trace
            remembers it, too.
        progress: show how far it is, on standard error, and in the end what :meth:`Run.diagnose` finds.
        functions: test functions, by name, whose running averages the progress shows. They are evaluated beside the
            sampling, on as many draws as there is time for.
        store: a new folder to which draws, trace and checkpoints are written while the run goes on, see
            :mod:`stalegrad.store`. The run can then be resumed whatever happens to this process, and ``run.draws``
            reads from disk: memory does not grow with the number of draws.
        checkpoint_every: seconds between checkpoints; there is one at the end in any case.
        on_store_error: when the folder cannot be written, such as on a full disk, ``"stop"`` the run, or
            ``"continue"`` without storing.
        job: a plain table that is kept in the store, such as the file that described the run.

    Returns:
        A :class:`Run`. Ctrl-C and SIGTERM end it early with what has been sampled so far, ``run.interrupted`` says so.
        With ``engine="mpi"`` rank 0 returns; the other ranks end here, see :class:`stalegrad.engines.MPI`.

    Raises:
        RunFailed: all workers of a chain failed too often in a row, or the store could not be written; the exception's
            ``run`` holds the draws so far.
        GradientError: a chain diverged.
        StoreError: the store cannot be made.
    """
    chosen = engine if engine is not None else "threads" if repeats is None else "inline"
    plan = make_plan(
        potential, kernel, engine=chosen, steps=steps, workers=workers, servers=servers, max_staleness=max_staleness,
        policy=policy, seed=seed, burn_in=burn_in, thin=thin, initial=initial, shard=shard, architecture=architecture,
    )  # fmt: skip
    plan = with_found_step_sizes(plan, progress)
    functions = _functions(functions)
    if repeats is not None and not isinstance(plan.engine, Inline):
        raise ArgumentError("repeats", repeats, f"does not go with engine {engine!r}", "Use engine='inline'.")
    if store is not None:
        if repeats is not None:
            raise ArgumentError(
                "store", store, "does not go with repeats", "Store runs one by one, with seeds of each."
            )
        from stalegrad.storage import Storage  # Zarr takes a while to import

        storage = Storage.create(store, plan, **_storing(checkpoint_every, on_store_error), job=job)
        return _run_stored(storage, progress, functions)
    recorder = Recorder(repeats, plan.servers, plan.steps, plan.thinning, potential)
    outcome = _run(plan, _job(plan, recorder), recorder, progress, functions)
    trace = _trace(plan, outcome)
    run = Run(
        draws=recorder.draws,
        trace=trace,
        stats=recorder.stats,
        chain_draws=recorder.chain_draws,
        events=outcome.events,
        timing=outcome.timing,
        interrupted=outcome.interrupted,
        variables=potential.variables,
    )
    run = _checked(run, outcome)
    if progress and repeats is None and plan.team.leads:
        _tell_findings(run, potential, plan.kernels)
    return run


def resume(
    path: str | os.PathLike[str],
    potential: Potential | None = None,
    kernel: Kernels | None = None,
    *,
    engine: str | Engine | None = None,
    workers: int | None = None,
    steps: int | None = None,
    progress: bool = True,
    functions: Mapping[str, TestFunction] | None = None,
    checkpoint_every: float = 60.0,
    on_store_error: str = "stop",
) -> Run:
    """Go on with a stored run that was interrupted, killed or has failed, or make one that has finished longer.

    The chains continue from their last checkpoints, on any engine and with any number of workers; only where the data
    are in shards it must be the number of shards. The whole run, from its very start, still replays bit for bit from
    its trace.

    Args:
        path: the folder that was given as ``store``.
        potential: the model of the run. None if the run was described by a file, which then says how to make it.
        kernel: the sampler of the run; None takes it from the store.
        engine: as for :func:`sample`; None for the one that the run had.
        workers: W; None for what the run had.
        steps: L in all, counted from the run's start; None for what the run had.
        progress: as for :func:`sample`.
        functions: as for :func:`sample`.
        checkpoint_every: as for :func:`sample`.
        on_store_error: as for :func:`sample`.

    Raises:
        StoreError: the folder is no run, is damaged, of another version or of another model, or is being written.
    """
    from stalegrad.storage import Storage

    storage = Storage.open(
        path, potential, kernel, engine=engine, workers=workers, steps=steps,
        **_storing(checkpoint_every, on_store_error),
    )  # fmt: skip
    return _run_stored(storage, progress, _functions(functions))


def load(path: str | os.PathLike[str], potential: Potential | None = None) -> Run:
    """A stored run as it is on disk, also while it goes on: all that the last checkpoints of its chains hold.

    Args:
        path: the folder that was given as ``store``.
        potential: the model, if constrained parameters are to be named and transformed by it.
    """
    from stalegrad.storage import stored_run

    return stored_run(path, potential)


def replay(
    trace: Trace,
    potential: Potential,
    kernel: Kernels,
    *,
    seed: int | None = None,
    initial: Any = None,
    burn_in: int | None = None,
    thin: int | None = None,
    repeats: int | None = None,
    first_repeat: int = 0,
    shard: bool | Sequence[int] | None = None,
    architecture: Architecture | None = None,
) -> Run:
    """Execute a trace in this process: with the model and kernel of the run it came from, the same draws bit for bit.

    Args:
        trace: from ``run.trace``, :func:`stalegrad.simulate`, :meth:`Trace.load` or the constructors of :class:`Trace`.
        potential: the model.
        kernel: the sampler, or one per chain. Step sizes that the trace has recorded are used as they were.
        seed: in place of the trace's own.
        initial: θ_0 in place of the trace's own.
        burn_in: in place of the trace's own.
        thin: in place of the trace's own.
        repeats: run R independent repetitions in one pass.
        first_repeat: number of the first repetition; repetition 0 is the run itself.
        shard: as for :func:`sample`, for the workers of the trace; None for what the trace says.
        architecture: as for :func:`sample`; None for what the trace says.
    """
    if not isinstance(trace, Trace) or not trace.chains:
        raise ArgumentError("trace", trace, "is not a trace", "Give run.trace, sg.simulate(...) or sg.Trace.load(...).")
    check_potential(potential)
    servers = len(trace)
    steps = max(chain.steps for chain in trace.chains)
    seed = trace.seed if seed is None else whole_number("seed", seed, most=MAX_SEED)
    first_repeat = whole_number("first_repeat", first_repeat, most=MAX_REPEATS - 1)
    start, given = starts(trace.initial if initial is None else initial, servers, potential)
    workers = trace.about.get("workers") or 1 + max(int(chain.worker.max(initial=0)) for chain in trace.chains)
    shards = shards_for(trace.about.get("shards") if shard is None else shard, potential, workers)
    recorded = [about.get("step_size") for about in trace.about.get("kernels", [])]
    kernels = decided(kernels_for(kernel, servers, potential), recorded, "Give the step size that the run had.")
    noted = architecture_from_table(trace.about.get("architecture"))
    chosen = architecture_for(
        noted if architecture is None else architecture, Setting(potential, kernels, servers, workers, None, True),
        shards,
    )  # fmt: skip
    plan = Plan(
        potential, kernels, Inline(), steps, workers, servers, None, "drop", seed,
        Thinning(trace.burn_in if burn_in is None else burn_in, trace.thin if thin is None else thin), start, given,
        shards=shards, architecture=chosen,
    )  # fmt: skip
    recorder = Recorder(repeats, servers, steps, plan.thinning, potential)
    chains = [
        execute(chain, plan.work, plan.chain(s, recorder.rows, first_repeat), recorder.of(s))
        for s, chain in enumerate(trace.chains)
    ]
    outcome = Outcome(tuple(chains))
    run = Run(
        draws=recorder.draws,
        trace=_trace(plan, outcome, _made_anew(plan, trace.about)),
        stats=recorder.stats,
        chain_draws=recorder.chain_draws,
        variables=potential.variables,
    )
    return _checked(run, outcome)


def _job(plan: Plan, recorder: Recorder) -> Job:
    return Job(
        potential=plan.work,
        chain=lambda s: plan.chain(s, recorder.rows),
        record=recorder.of,
        status=tuple(ChainStatus() for _ in range(plan.servers)),
        steps=plan.steps,
        workers=plan.workers,
        servers=plan.servers,
        max_staleness=plan.max_staleness,
        policy=plan.policy,
        seed=plan.seed,
        recording=recorder,
        team=plan.team,
    )


def _trace(plan: Plan, outcome: Outcome, about: dict[str, Any] | None = None) -> Trace:
    return Trace(
        outcome.chains, seed=plan.seed, burn_in=plan.thinning.burn_in, thin=plan.thinning.thin, initial=plan.initial,
        about=plan.about() if about is None else about,
    )  # fmt: skip


def _made_anew(plan: Plan, noted: Mapping[str, Any]) -> dict[str, Any]:
    """What a trace notes, with what a replay has decided itself."""
    about, decided = plan.about(), ("kernels", "shards", "architecture")
    kept = {name: value for name, value in noted.items() if name not in decided}
    return {**kept, **{name: about[name] for name in decided if name in about}}


def _run(
    plan: Plan, job: Job, recorder: "Recorder | DiskRecorder", progress: bool, functions: Mapping[str, TestFunction]
) -> Outcome:
    """Run the job with a display beside it."""
    if not progress or not plan.team.leads:
        return plan.engine.run(job)
    from stalegrad.progress import Progress, RunningAverages, verdict  # rich takes a while to import

    averages = RunningAverages(functions, recorder.latest, job.servers)
    try:
        with Progress(job.status, job.steps, averages):
            outcome = plan.engine.run(job)
    finally:
        averages.close()
    if outcome.timing is not None:
        print(verdict(outcome.timing, job.servers, job.workers, plan.team.cores), file=sys.stderr)
    return outcome


def _run_stored(storage: "Storage", progress: bool, functions: Mapping[str, TestFunction]) -> Run:
    """Run what is left to do, and note in the store how it ended."""
    with storage:
        try:
            outcome = _run(storage.plan, storage.job(), storage.recorder, progress, functions)
        except StoreError as failure:  # of the inline engine, which has nobody else to tell
            outcome = Outcome((), failure=failure)
        outcome = storage.finish(outcome)
    run = _checked(storage.run(outcome), outcome)
    if progress and storage.plan.team.leads:
        _tell_findings(run, storage.plan.potential, storage.plan.kernels)
    return run


def _checked(run: Run, outcome: Outcome) -> Run:
    """The run, or the exception that says why it is not whole."""
    if outcome.failure is not None:
        raise RunFailed(str(outcome.failure), run) from outcome.failure
    for s, draws in enumerate(run.chain_draws):
        # No gradient is taken at the last point, so nobody else would notice that it overflowed. NaN and infinity stay
        # in θ once they are there: the last draw of a chain tells for all of them.
        if not np.isfinite(draws[..., -1:, :]).all():
            raise GradientError(
                f"chain {s} has diverged: its last draw is NaN or infinite. Use a smaller step_size; "
                "a stale chain is stable only while step_size · largest curvature · (staleness + ½) stays below about 1"
            )
    return run


def _tell_findings(run: Run, potential: Potential, kernels: Sequence[Kernel]) -> None:
    """What the run's own diagnosis says, below the verdict. Whatever happens here, the run is not lost.

    Gradients for it are computed by nobody else meanwhile: at most a tenth of what each worker has computed.
    """
    each = sum(chain.steps for chain in run.trace.chains) // (len(kernels) * run.trace.about["workers"])
    budget = min(max(each // 20, FEWEST_GRADIENTS), MOST_GRADIENTS)
    affordable = not run.interrupted and each >= 10 * budget
    try:
        told = str(run.diagnose(potential if affordable else None, kernels, gradients=budget))
    except (Exception, KeyboardInterrupt) as problem:
        told = f"no diagnosis ({type(problem).__name__}: {problem})"
    print(told, file=sys.stderr)


def _storing(checkpoint_every: Any, on_store_error: Any) -> dict[str, Any]:
    return {
        "every": real_number("checkpoint_every", checkpoint_every, least=0),
        "on_error": one_of("on_store_error", on_store_error, ("stop", "continue")),
    }


def _functions(functions: Any) -> Mapping[str, TestFunction]:
    if functions is None:
        return {}
    if not isinstance(functions, Mapping) or not all(callable(phi) for phi in functions.values()):
        remedy = 'Give a mapping from name to function of one draw, such as {"loss": test_loss}.'
        raise ArgumentError("functions", functions, "is not a mapping of functions", remedy)
    return functions
