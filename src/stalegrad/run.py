"""The one place that puts the parts together: :func:`sample`, :func:`replay` and the :class:`Run` they return."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stalegrad.admission import POLICIES, Admission, Policy
from stalegrad.chain import Chain
from stalegrad.checks import finite_array, one_of, whole_number
from stalegrad.engines import Engine, Inline, Job, Outcome, Processes, Threads, available_cores
from stalegrad.engines.inline import execute
from stalegrad.errors import ArgumentError, GradientError
from stalegrad.kernels import Kernel
from stalegrad.noise import MAX_CHAINS, MAX_REPEATS, MAX_UPDATES, MAX_WORKERS
from stalegrad.potentials import Potential
from stalegrad.recorder import Recorder, Thinning
from stalegrad.result import Run, RunFailed, TestFunction
from stalegrad.server import ChainStatus
from stalegrad.trace import MAX_SEED, Trace
from stalegrad.types import Array

ENGINES: dict[str, Callable[[], Engine]] = {"inline": Inline, "threads": Threads, "processes": Processes}

Kernels = Kernel | Sequence[Kernel]


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
    progress: bool = True,
    functions: Mapping[str, TestFunction] | None = None,
) -> Run:
    """Sample a posterior with S servers, each with its own chain and W workers that send it stale gradients.

    Args:
        potential: the model, see :mod:`stalegrad.potentials`.
        kernel: the sampler; a sequence gives every server its own, with its own step size.
        steps: L, accepted updates of each chain.
        workers: W, workers of each server.
        servers: S, independent chains.
        max_staleness: τ, the bound on staleness; None for no bound.
        policy: at the bound ``"drop"`` the gradient (the paper's) or let workers ``"wait"`` so that it holds.
        seed: of everything random. Inline, the same seed gives the same bits; on a real engine the order of arrival
            differs from run to run, and ``replay(run.trace, ...)`` gives the same bits.
        engine: ``"threads"`` (the default), ``"processes"``, ``"inline"`` (a simulated cluster, executed in this
            thread; the default with ``repeats``), or an engine object such as ``sg.engines.Processes(threads=2)``.
        initial: θ_0, (n,) for all chains or (S, n); None for the model's own start.
        burn_in: updates of each chain that are not kept.
        thin: keep every thin-th update after that.
        repeats: run R independent repetitions of the same trace in one pass (inline engine only).
        progress: show how far it is, on standard error.
        functions: test functions, by name, whose running averages the progress shows. They are evaluated beside the
            sampling, on as many draws as there is time for.

    Returns:
        A :class:`Run`. Ctrl-C and SIGTERM end it early with what has been sampled so far, ``run.interrupted`` says so.

    Raises:
        RunFailed: all workers of a chain failed too often in a row; the exception's ``run`` holds the draws so far.
        GradientError: a chain diverged.
    """
    _check_potential(potential)
    steps = whole_number("steps", steps, least=1, most=MAX_UPDATES)
    workers = whole_number("workers", workers, least=1, most=MAX_WORKERS)
    servers = whole_number("servers", servers, least=1, most=MAX_CHAINS)
    seed = whole_number("seed", seed, most=MAX_SEED)
    max_staleness = None if max_staleness is None else whole_number("max_staleness", max_staleness)
    one_of("policy", policy, POLICIES)
    Admission(max_staleness, policy)  # refuses a bound that cannot be used, before anything runs
    kernels = _kernels(kernel, servers, potential)
    chosen = _engine(engine if engine is not None else "threads" if repeats is None else "inline")
    functions = _functions(functions)
    if repeats is not None and not isinstance(chosen, Inline):
        raise ArgumentError("repeats", repeats, f"does not go with engine {engine!r}", "Use engine='inline'.")
    start, given = _initial(initial, servers, potential)
    recorder = Recorder(repeats, servers, steps, Thinning(burn_in, thin), potential)
    rows = recorder.rows
    job = Job(
        potential=potential,
        chain=lambda s: Chain(kernels[s], np.repeat(start[s : s + 1], rows, axis=0), seed, s),
        record=recorder.of,
        status=tuple(ChainStatus() for _ in range(servers)),
        steps=steps,
        workers=workers,
        servers=servers,
        max_staleness=max_staleness,
        policy=policy,
        seed=seed,
    )
    outcome = _run(chosen, job, recorder, progress, functions)
    about = {
        "model": type(potential).__name__,
        "n_data": potential.n_data,
        "batch_size": potential.batch_size,
        "kernels": [k.describe() for k in kernels],
        "engine": type(chosen).__name__,
        "workers": workers,
        "max_staleness": max_staleness,
        "policy": policy,
    }
    trace = Trace(outcome.chains, seed=seed, burn_in=burn_in, thin=thin, initial=given, about=about)
    return _result(recorder, trace, potential, outcome)


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
    """
    if not isinstance(trace, Trace) or not trace.chains:
        raise ArgumentError("trace", trace, "is not a trace", "Give run.trace, sg.simulate(...) or sg.Trace.load(...).")
    _check_potential(potential)
    servers = len(trace)
    steps = max(chain.steps for chain in trace.chains)
    seed = trace.seed if seed is None else whole_number("seed", seed, most=MAX_SEED)
    burn_in = trace.burn_in if burn_in is None else burn_in
    thin = trace.thin if thin is None else thin
    first_repeat = whole_number("first_repeat", first_repeat, most=MAX_REPEATS - 1)
    kernels = _kernels(kernel, servers, potential)
    start, given = _initial(trace.initial if initial is None else initial, servers, potential)
    recorder = Recorder(repeats, servers, steps, Thinning(burn_in, thin), potential)
    chains = []
    for s, chain_trace in enumerate(trace.chains):
        chain = Chain(kernels[s], np.repeat(start[s : s + 1], recorder.rows, axis=0), seed, s, first_repeat)
        chains.append(execute(chain_trace, potential, chain, recorder.of(s)))
    again = Trace(tuple(chains), seed=seed, burn_in=burn_in, thin=thin, initial=given, about=trace.about)
    return _result(recorder, again, potential)


def _run(
    engine: Engine, job: Job, recorder: Recorder, progress: bool, functions: Mapping[str, TestFunction]
) -> Outcome:
    """Run the job with a display beside it."""
    if not progress:
        return engine.run(job)
    from stalegrad.progress import Progress, RunningAverages, verdict  # rich takes a while to import

    averages = RunningAverages(functions, recorder.latest, job.servers)
    try:
        with Progress(job.status, job.steps, averages):
            outcome = engine.run(job)
    finally:
        averages.close()
    if outcome.timing is not None:
        print(verdict(outcome.timing, job.servers, job.workers, available_cores()), file=sys.stderr)
    return outcome


def _result(recorder: Recorder, trace: Trace, potential: Potential, outcome: Outcome | None = None) -> Run:
    """The run, or the exception that says why it is not whole."""
    outcome = outcome or Outcome(trace.chains)
    run = Run(
        draws=recorder.draws,
        trace=trace,
        chain_draws=recorder.chain_draws,
        stats=recorder.stats,
        events=outcome.events,
        timing=outcome.timing,
        interrupted=outcome.interrupted,
        variables=potential.variables,
    )
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


def _functions(functions: Any) -> Mapping[str, TestFunction]:
    if functions is None:
        return {}
    if not isinstance(functions, Mapping) or not all(callable(phi) for phi in functions.values()):
        remedy = 'Give a mapping from name to function of one draw, such as {"loss": test_loss}.'
        raise ArgumentError("functions", functions, "is not a mapping of functions", remedy)
    return functions


def _check_potential(potential: Any) -> None:
    if not isinstance(potential, Potential):
        raise ArgumentError(
            "potential", potential, f"is a {type(potential).__name__}, not a Potential",
            "Use one of sg.potentials, such as Logistic, or wrap a function with sg.potentials.from_gradient.",
        )  # fmt: skip


def _kernels(kernel: Any, servers: int, potential: Potential) -> list[Kernel]:
    kernels = [kernel] * servers if isinstance(kernel, Kernel) else list(kernel) if isinstance(kernel, Sequence) else []
    if len(kernels) != servers or not all(isinstance(k, Kernel) for k in kernels):
        remedy = f"Give one kernel, such as sg.SGLD(step_size=1e-3), or a sequence of {servers}, one per server."
        raise ArgumentError("kernel", kernel, "is neither a kernel nor one per server", remedy)
    return [k.for_model(potential.n_data, potential.batch_size) for k in kernels]


def _engine(engine: Any) -> Engine:
    if isinstance(engine, str):
        return ENGINES[one_of("engine", engine, tuple(ENGINES))]()
    if not hasattr(engine, "run") or isinstance(engine, type):
        raise ArgumentError("engine", engine, "is not an engine", f"Give one of {', '.join(map(repr, ENGINES))}.")
    chosen: Engine = engine
    return chosen


def _initial(initial: Any, servers: int, potential: Potential) -> tuple[Array, Array | None]:
    """θ_0 of every chain, and the same again if the user gave it."""
    if initial is None:
        return np.repeat(potential.initial()[None], servers, axis=0), None
    array = finite_array("initial", initial, potential.dtype)
    if array.shape not in ((potential.size,), (servers, potential.size)):
        raise ArgumentError(
            "initial", initial, f"has shape {array.shape}",
            f"Give shape ({potential.size},), or ({servers}, {potential.size}) for a start per chain.",
        )  # fmt: skip
    array = np.array(np.broadcast_to(array, (servers, potential.size)))
    return array, array
