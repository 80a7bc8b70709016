"""How far to trust a run: findings about its step size, staleness, noise and mixing, and a distance to the posterior.

- :mod:`~stalegrad.analysis.diagnostics.checkup`: all checks at once, behind :meth:`stalegrad.Run.diagnose`.
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
| R-hat | halves of chains against each other, parameters and test functions | 1.05, and more than chance |
| effective draws | of the slowest tenth of the parameters, and of test functions | below 100, or 25 a chain |
| kinetic temperature | qᵀq/n against that of a free momentum | 10 % off, and 5 standard errors |
| configurational temperature | (θ − θ̄)ᵀ∇U/n against T | 10 % off, and 5 standard errors |
| step size | error of the variance along the stiffest direction, were gradients fresh | 20 % |
| staleness | what stale gradients add to that error | 20 % |
| gradient noise | minibatch noise against injected noise: along a direction, on average | 1, 0.2 |
| dropped gradients | share of all that arrived | 10 % |
| step halving (on request) | bias in posterior standard deviations, against a run at h/2 | 0.1, and 5 standard errors |

The first three and dropped gradients need the run alone; the others compute some gradients of the model.
"""

from stalegrad.analysis.diagnostics.checkup import diagnose
from stalegrad.analysis.diagnostics.convergence import LEAST_DRAWS, Convergence, convergence, split_rhat
from stalegrad.analysis.diagnostics.coupled_halving import StepBias, coupled_halving
from stalegrad.analysis.diagnostics.curvature import Curvature, largest_curvature, mean_curvature
from stalegrad.analysis.diagnostics.findings import Finding, Findings, Measurement
from stalegrad.analysis.diagnostics.gradient_noise import GradientNoise, gradient_noise
from stalegrad.analysis.diagnostics.probes import Probes, probe
from stalegrad.analysis.diagnostics.stein import SteinDiscrepancy, kernel_stein_discrepancy
from stalegrad.analysis.diagnostics.step_finder import FoundStepSize, find_step_size
from stalegrad.analysis.diagnostics.step_halving import Halved, step_halving

__all__ = [
    "LEAST_DRAWS",
    "Convergence",
    "Curvature",
    "Finding",
    "Findings",
    "FoundStepSize",
    "GradientNoise",
    "Halved",
    "Measurement",
    "Probes",
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
