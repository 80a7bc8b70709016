"""All checks, one after the other."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.analysis.diagnostics.checks import (
    check_agreement,
    check_arrival,
    check_configurational_temperature,
    check_dropped,
    check_effective_draws,
    check_funnel,
    check_gradient_noise,
    check_kinetic_temperature,
    check_modes,
    check_owned,
    check_scales,
    check_staleness,
    check_step_halving,
    check_step_size,
    check_tails,
    check_transient,
    check_warm_up,
)
from stalegrad.analysis.diagnostics.checks.noise import batch_size_for
from stalegrad.analysis.diagnostics.checks.stiffness import longest_factor
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked, at_last_draw, described_kernels, mean_steps
from stalegrad.analysis.diagnostics.findings import Finding, Findings, Measurement
from stalegrad.analysis.diagnostics.recommendation import LONGEST, Circumstances, joint
from stalegrad.analysis.estimates.arrival import FEWEST_DRAWS
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.trace import Trace

Check = Callable[[Evidence], tuple[Measurement, Finding | None]]

CHECKS: dict[str, Check] = {
    "arrival": check_arrival,
    "transient": check_transient,
    "modes": check_modes,
    "R-hat": check_agreement,
    "effective draws": check_effective_draws,
    "funnel": check_funnel,
    "tails": check_tails,
    "scales": check_scales,
    "kinetic temperature": check_kinetic_temperature,
    "configurational temperature": check_configurational_temperature,
    "step size": check_step_size,
    "staleness": check_staleness,
    "owned part": check_owned,
    "gradient noise": check_gradient_noise,
    "dropped gradients": check_dropped,
}

_OF_ONE_LAW = ("transient", "modes", "R-hat", "effective draws", "funnel", "tails", "scales")
"""The checks that take all chains together."""

_OF_STEPS = (
    "kinetic temperature",
    "configurational temperature",
    "step size",
    "staleness",
    "owned part",
    "gradient noise",
    "step halving",
)
"""The checks that take an update for one step with one stale gradient."""

FEWEST_GRADIENTS = 64
MOST_GRADIENTS = 1024

_MOST_EVALUATED = 1000  # draws of a chain that test functions are evaluated on
_MOST_PREDICTED = 512  # draws of all chains that a model predicts with, unless more gradients may be computed
_ROWS = 32  # of its data


def diagnose(
    draws: Any,
    trace: Trace,
    step_sizes: Array,
    kinetic_temperature: Array,
    *,
    potential: Potential | None = None,
    kernel: Kernel | Sequence[Kernel] | None = None,
    functions: Mapping[str, Callable[[Array], Any]] | None = None,
    gradients: int | None = None,
    step_halving: bool = False,
    warmed: bool = False,
) -> Findings:
    """Make all checks that can be made of a run. :meth:`stalegrad.Run.diagnose` calls this.

    Args:
        draws: (chain, draw, n), sliced only.
        trace: of the run.
        step_sizes: of each draw, (chain, draw).
        kinetic_temperature: of each draw, (chain, draw), NaN without a momentum.
        potential: the model; without it, what can be told from the draws alone.
        kernel: the sampler, or one per chain, in place of what the trace says.
        functions: name to test function of one draw. Where there are any, or where the model says what it predicts,
            the run is judged by them, and parameters are reported only.
        gradients: how many minibatch gradients may be computed, 64 at least; by default a hundredth of the run's own,
            between 64 and 1,024.
        step_halving: also run everything again at half the step size.
        warmed: whether the coordinates are those of a warm-up, so that leaving them to it is no remedy; those of a
            trace that has coordinates are.

    >>> import stalegrad as sg
    >>> model = sg.testing.small_model()
    >>> run = sg.sample(model, sg.SGLD(step_size=0.01), steps=500, workers=4, engine="inline", progress=False)
    >>> no_momentum = np.full(run.step_sizes.shape, np.nan)
    >>> findings = diagnose(run.draws, run.trace, run.step_sizes, no_momentum, potential=model)
    >>> [finding.measurement.name for finding in findings]
    ['staleness', 'gradient noise', 'step size']
    """
    if 0 in draws.shape[:2]:
        raise ArgumentError("draws", draws.shape, "there are none", "Let the run go beyond its burn-in.")
    if potential is not None and potential.size != draws.shape[2]:
        problem = f"has {potential.size} parameters, but a draw has {draws.shape[2]}"
        raise ArgumentError("potential", potential, problem, "Give the model that was sampled.")
    given = None if kernel is None else _given(kernel, len(trace))
    kernels = described_kernels(trace, mean_steps(step_sizes)) if given is None else at_last_draw(trace, given)
    updates = sum(chain.steps for chain in trace.chains)
    if gradients is None:
        gradients = min(max(updates // 100, FEWEST_GRADIENTS), MOST_GRADIENTS)
    evidence = Evidence(
        draws=draws,
        step_sizes=step_sizes,
        kinetic_temperature=kinetic_temperature,
        trace=trace,
        kernels=kernels,
        potential=potential,
        functions={name: _evaluated(draws, phi, _MOST_EVALUATED) for name, phi in (functions or {}).items()},
        predictions=_predicted(draws, potential, gradients) if not functions else None,
        gradients=whole_number("gradients", gradients, least=FEWEST_GRADIENTS),
        warmed=warmed or trace.coordinates is not None,
    )
    again: dict[str, Check] = {"step halving": partial(check_step_halving, functions=functions)} if step_halving else {}
    before: dict[str, Check] = {"warm-up": check_warm_up} if trace.record is not None and trace.record.warmup else {}
    checks = before | CHECKS | again
    return examine(evidence, checks | {name: check for name, check in _not_for(trace).items() if name in checks})


def examine(evidence: Evidence, checks: Mapping[str, Check]) -> Findings:
    """Make the given checks, as far as the evidence allows."""
    measurements, findings, skipped = [], [], {}
    for name, check in checks.items():
        try:
            measured, finding = check(evidence)
        except NotChecked as reason:
            skipped[name] = str(reason)
            continue
        measurements.append(measured)
        if finding is not None:
            findings.append(finding)
    findings.sort(key=lambda finding: finding.severity != "serious")
    recommendation = joint([finding.advice for finding in findings], _circumstances(evidence))
    return Findings(tuple(findings), tuple(measurements), skipped, recommendation)


def _circumstances(evidence: Evidence) -> Circumstances:
    """What the numbers of a recommendation are worked out from."""

    def room() -> float | None:
        try:
            return longest_factor(evidence, LONGEST) / max(1.0, 2 * LONGEST * _noise(evidence))
        except NotChecked:
            return None

    model = evidence.potential
    return Circumstances(
        evidence.settings, evidence.kernels, tuple(evidence.steps.tolist()) if evidence.kernels else (),
        None if model is None else partial(batch_size_for, model), 0 if model is None else model.n_data,
        room, evidence.warmed, evidence.is_network,
    )  # fmt: skip


def _noise(evidence: Evidence) -> float:
    """Gradient noise as a share of what it may be."""
    measured, _ = check_gradient_noise(evidence)
    return measured.figure / measured.limit


def _not_for(trace: Trace) -> dict[str, Check]:
    """In place of checks that do not hold for a run's architecture, why they are not made."""
    architecture = trace.architecture

    def refuse(reason: str) -> Check:
        def check(evidence: Evidence) -> tuple[Measurement, Finding | None]:
            raise NotChecked(reason)

        return check

    name = type(architecture).__name__
    skipped = {} if architecture.stale_gradients else dict.fromkeys(_OF_STEPS, f"it is not about updates of {name}")
    if not architecture.one_law:
        skipped |= dict.fromkeys(_OF_ONE_LAW, f"the chains of {name} sample different laws")
    return {one: refuse(reason) for one, reason in skipped.items()}


def _given(kernel: Any, chains: int) -> tuple[Kernel, ...]:
    kernels = (kernel,) * chains if isinstance(kernel, Kernel) else tuple(kernel)
    if len(kernels) != chains or not all(isinstance(k, Kernel) for k in kernels):
        raise ArgumentError("kernel", kernel, "is neither a kernel nor one per chain", f"Give one, or {chains}.")
    return kernels


def _evaluated(draws: Any, phi: Callable[[Array], Any], most: int) -> Array:
    """φ of at most so many draws of each chain, (chain, draw, …). Of a pair, a mean and its noise, it is the mean."""
    every = -(-draws.shape[1] // most)
    rows = [[phi(theta) for theta in np.asarray(draws[s, ::every])] for s in range(draws.shape[0])]
    if isinstance(rows[0][0], tuple):
        rows = [[value[0] for value in chain] for chain in rows]
    return np.array(rows, np.float64)


def _predicted(draws: Any, potential: Potential | None, gradients: int) -> Array | None:
    """What the model predicts for some of its data, if it says so, by some draws of each chain."""
    predict = None if potential is None else potential.predictions(_ROWS)
    if predict is None:
        return None
    values = _evaluated(draws, predict, max(FEWEST_DRAWS, max(_MOST_PREDICTED, gradients) // draws.shape[0]))
    return values if np.isfinite(values).all() else None
