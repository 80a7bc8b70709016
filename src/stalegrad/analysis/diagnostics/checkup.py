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
    check_configurational_temperature,
    check_dropped,
    check_effective_draws,
    check_gradient_noise,
    check_kinetic_temperature,
    check_staleness,
    check_step_halving,
    check_step_size,
)
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked, described_kernels
from stalegrad.analysis.diagnostics.findings import Finding, Findings, Measurement
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.trace import Trace

Check = Callable[[Evidence], tuple[Measurement, Finding | None]]

CHECKS: dict[str, Check] = {
    "R-hat": check_agreement,
    "effective draws": check_effective_draws,
    "kinetic temperature": check_kinetic_temperature,
    "configurational temperature": check_configurational_temperature,
    "step size": check_step_size,
    "staleness": check_staleness,
    "gradient noise": check_gradient_noise,
    "dropped gradients": check_dropped,
}

_OF_STEPS = (
    "kinetic temperature",
    "configurational temperature",
    "step size",
    "staleness",
    "gradient noise",
    "step halving",
)
"""The checks that take an update for one step with one stale gradient."""

FEWEST_GRADIENTS = 64
MOST_GRADIENTS = 1024

_MOST_EVALUATED = 1000  # draws of a chain that test functions are evaluated on


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
) -> Findings:
    """Make all checks that can be made of a run. :meth:`stalegrad.Run.diagnose` calls this.

    Args:
        draws: (chain, draw, n), sliced only.
        trace: of the run.
        step_sizes: of each draw, (chain, draw).
        kinetic_temperature: of each draw, (chain, draw), NaN without a momentum.
        potential: the model; without it, what can be told from the draws alone.
        kernel: the sampler, or one per chain, in place of what the trace says.
        functions: name to test function of one draw, whose mixing is looked at too.
        gradients: how many minibatch gradients may be computed, 64 at least; by default a hundredth of the run's own,
            between 64 and 1,024.
        step_halving: also run everything again at half the step size.
    """
    if 0 in draws.shape[:2]:
        raise ArgumentError("draws", draws.shape, "there are none", "Let the run go beyond its burn-in.")
    if potential is not None and potential.size != draws.shape[2]:
        problem = f"has {potential.size} parameters, but a draw has {draws.shape[2]}"
        raise ArgumentError("potential", potential, problem, "Give the model that was sampled.")
    kernels = described_kernels(trace, step_sizes.mean(axis=1)) if kernel is None else _given(kernel, len(trace))
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
        functions={name: _evaluated(draws, phi) for name, phi in (functions or {}).items()},
        gradients=whole_number("gradients", gradients, least=FEWEST_GRADIENTS),
    )
    again: dict[str, Check] = {"step halving": partial(check_step_halving, functions=functions)} if step_halving else {}
    checks = CHECKS | again
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
    return Findings(tuple(findings), tuple(measurements), skipped)


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
        skipped |= dict.fromkeys(("R-hat", "effective draws"), f"the chains of {name} sample different laws")
    return {one: refuse(reason) for one, reason in skipped.items()}


def _given(kernel: Any, chains: int) -> tuple[Kernel, ...]:
    kernels = (kernel,) * chains if isinstance(kernel, Kernel) else tuple(kernel)
    if len(kernels) != chains or not all(isinstance(k, Kernel) for k in kernels):
        raise ArgumentError("kernel", kernel, "is neither a kernel nor one per chain", f"Give one, or {chains}.")
    return kernels


def _evaluated(draws: Any, phi: Callable[[Array], Any]) -> Array:
    """φ of at most so many draws of each chain, (chain, draw, …)."""
    every = -(-draws.shape[1] // _MOST_EVALUATED)
    rows = [[phi(theta) for theta in np.asarray(draws[s, ::every])] for s in range(draws.shape[0])]
    return np.array(rows, np.float64)
