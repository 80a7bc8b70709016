"""A trace executed in this process: :func:`replay`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import whole_number
from stalegrad.engines import Inline, Outcome
from stalegrad.engines.team import SingleProcess
from stalegrad.kernels import kernel_from_table
from stalegrad.kernels.noise import MAX_REPEATS
from stalegrad.potentials import Potential
from stalegrad.protocol.architectures import Architecture
from stalegrad.protocol.executor import execute
from stalegrad.protocol.settings import Settings
from stalegrad.protocol.trace import Trace
from stalegrad.runs.carry_out import checked, noticed
from stalegrad.runs.prepare import (
    Kernels,
    Prepared,
    check_potential,
    kernels_for,
    starts,
    with_architecture,
    with_numbers,
    with_stages,
)
from stalegrad.runs.recorders.memory import Recorder
from stalegrad.runs.result import Run


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
        architecture: as for :func:`stalegrad.sample`; None for what the trace says.

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
    return checked(run, noticed(run, outcome), prepared)


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
