"""A run that is prepared, from its first gradient to its result: in memory, as a stream of draws, or on disk."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stalegrad._internal.errors import NotFinite, StoreError
from stalegrad._internal.text import printable
from stalegrad.analysis.diagnostics.checkup import FEWEST_GRADIENTS, MOST_GRADIENTS
from stalegrad.engines import Outcome
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.chain import diverged
from stalegrad.protocol.chain_trace import joined
from stalegrad.runs.averages import Averages, EvaluationFailed
from stalegrad.runs.divergence import step_to_try
from stalegrad.runs.failures import Diverged, RunFailed
from stalegrad.runs.onlookers import Onlookers
from stalegrad.runs.prepare import Prepared
from stalegrad.runs.recorders.memory import Recorder
from stalegrad.runs.recorders.stream import StreamRecorder
from stalegrad.runs.result import Run, TestFunction

if TYPE_CHECKING:
    from stalegrad.runs.storage import Storage


def run_in_memory(prepared: Prepared, onlookers: Onlookers, repeats: int | None) -> Run:
    """A run whose draws are all kept in memory; of R repetitions in one pass, where these are asked for."""
    settings = prepared.settings
    recorder = Recorder(
        repeats, settings.servers, settings.steps, settings.thinning, prepared.potential, prepared.coordinates
    )
    task = prepared.job(recorder.of, recorder, chain=lambda server: prepared.chain(server, recorder.rows))
    outcome = onlookers.run(prepared, task, recorder)
    run = _in_memory(prepared, recorder, outcome)
    run = checked(run, noticed(run, outcome), prepared)
    return run if repeats is not None else _told(run, prepared, onlookers)


def run_streamed(prepared: Prepared, averages: Averages | None, onlookers: Onlookers) -> Run:
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
    return _told(checked(run, noticed(run, outcome), prepared), prepared, onlookers)


def run_stored(storage: "Storage", onlookers: Onlookers) -> Run:
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
        outcome = noticed(storage.run(outcome), outcome)
        smaller = _smaller_step(outcome, prepared)  # once, for what the store remembers and for what is said
        outcome = storage.finish(outcome, smaller)
    return _told(_whole(storage.run(outcome), outcome, smaller), prepared, onlookers)


def noticed(run: Run, outcome: Outcome) -> Outcome:
    """The outcome, of a chain that has overflowed at its end with this failure."""
    for s, draws in enumerate(() if outcome.failure is not None else run.chain_draws):
        # No gradient is taken at the last point, so nobody else would notice that it overflowed. NaN and infinity stay
        # in θ once they are there: the last draw of a chain tells for all of them.
        if not np.isfinite(draws[..., -1:, :]).all():
            return replace(outcome, failure=diverged(s, run.trace.chains[s].steps, "its last draw is NaN or infinite"))
    return outcome


def checked(run: Run, outcome: Outcome, prepared: Prepared) -> Run:
    """The run, or the exception that says why it is not whole."""
    return _whole(run, outcome, _smaller_step(outcome, prepared))


def _whole(run: Run, outcome: Outcome, smaller: float | None) -> Run:
    """The run, or the exception: after a divergence with the step size to go on with."""
    failure = outcome.failure
    if smaller is not None:
        raise Diverged(str(failure), run, smaller) from None
    if failure is not None:
        raise RunFailed(str(failure), run) from failure
    return run


def _smaller_step(outcome: Outcome, prepared: Prepared) -> float | None:
    """The step size to go on with where a chain has diverged, which takes gradients to find; None elsewhere."""
    return step_to_try(prepared, outcome) if isinstance(outcome.failure, NotFinite) else None


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


def _told(run: Run, prepared: Prepared, onlookers: Onlookers) -> Run:
    """The run, once whoever looks on has been told what its diagnosis says."""
    if onlookers.progress and prepared.team.leads:
        _print_findings(run, prepared.potential, prepared.kernels, onlookers.functions)
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
