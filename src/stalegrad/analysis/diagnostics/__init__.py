"""How far to trust a run: findings about its step size, staleness, noise and mixing, and a distance to the posterior.

- :mod:`~stalegrad.analysis.diagnostics.checkup`: all checks at once, behind :meth:`stalegrad.Run.diagnose`.
- :mod:`~stalegrad.analysis.diagnostics.recommendation`: one call to make, with numbers that suit all findings.
- :mod:`~stalegrad.analysis.diagnostics.convergence`: R-hat and effective sample size.
- :mod:`~stalegrad.analysis.diagnostics.stein`: the kernel Stein discrepancy from the exact posterior.
- :mod:`~stalegrad.analysis.diagnostics.step_halving`: what half the step size gives.
- :mod:`~stalegrad.analysis.diagnostics.step_finder`: a step size for a target bias, behind
  :func:`stalegrad.find_step_size`.
- :mod:`~stalegrad.analysis.diagnostics.coupled_halving`: step halving with common noise, for few gradients.
- :mod:`~stalegrad.analysis.diagnostics.curvature`, :mod:`~stalegrad.analysis.diagnostics.gradient_noise`: what a
  sampler is up against.

| check | figure | a finding from |
|---|---|---|
| arrival | way from the first to the last quarter against the spread within one | 3, and still moving |
| transient | share of the variance that is the way from the start | 10 % |
| modes | distance between chains that are each at rest, in spreads | 4 |
| R-hat | halves of chains against each other | 1.05, and more than chance, or fewer than 50 effective draws |
| effective draws | of the slowest tenth of parameters or predictions, and of functions | below 100, or 25 a chain |
| funnel | how many times a width changes with another parameter | 6 |
| tails | tail index | 0.5, and 6 standard errors |
| scales | widest direction against the narrowest | 100 |
| kinetic temperature | qᵀq/n against that of a free momentum | 10 % off, and 5 standard errors |
| configurational temperature | (θ − θ̄)ᵀ∇U/n against T | 10 % off, and 5 standard errors |
| step size | error of the variance along the stiffest direction, were gradients fresh | 20 % |
| staleness | what stale gradients add to that error | 20 % |
| gradient noise | minibatch noise against injected noise: along a direction, on average | 1, 0.2 |
| dropped gradients | share of all that arrived | 10 % |
| step halving (on request) | bias in posterior standard deviations, against a run at h/2 | 0.1, and 5 standard errors |

The first nine and dropped gradients need the run alone; the others compute some gradients of the model.

Where test functions are given, or the model says what it predicts (:meth:`stalegrad.potentials.Potential.predictions`,
as networks do), the first five and tails are about those, and the weights are reported and not judged.
"""

from stalegrad.analysis.diagnostics.checkup import diagnose
from stalegrad.analysis.diagnostics.convergence import LEAST_DRAWS, Convergence, convergence, split_rhat
from stalegrad.analysis.diagnostics.coupled_halving import StepBias, coupled_halving
from stalegrad.analysis.diagnostics.curvature import Curvature, largest_curvature, mean_curvature
from stalegrad.analysis.diagnostics.findings import Finding, Findings, Measurement
from stalegrad.analysis.diagnostics.gradient_noise import GradientNoise, gradient_noise
from stalegrad.analysis.diagnostics.probes import Probes, probe
from stalegrad.analysis.diagnostics.recommendation import Advice, Recommendation
from stalegrad.analysis.diagnostics.stein import SteinDiscrepancy, kernel_stein_discrepancy
from stalegrad.analysis.diagnostics.step_finder import FoundStepSize, find_step_size
from stalegrad.analysis.diagnostics.step_halving import Halved, step_halving

__all__ = [
    "LEAST_DRAWS",
    "Advice",
    "Convergence",
    "Curvature",
    "Finding",
    "Findings",
    "FoundStepSize",
    "GradientNoise",
    "Halved",
    "Measurement",
    "Probes",
    "Recommendation",
    "SteinDiscrepancy",
    "StepBias",
    "convergence",
    "coupled_halving",
    "diagnose",
    "find_step_size",
    "gradient_noise",
    "kernel_stein_discrepancy",
    "largest_curvature",
    "mean_curvature",
    "probe",
    "split_rhat",
    "step_halving",
]
