"""How far to trust a run: findings about its step size, staleness, noise and mixing, and a distance to the posterior.

- :mod:`~stalegrad.diagnostics.checkup`: all checks at once, behind :meth:`stalegrad.Run.diagnose`.
- :mod:`~stalegrad.diagnostics.convergence`: R-hat and effective sample size.
- :mod:`~stalegrad.diagnostics.stein`: the kernel Stein discrepancy from the exact posterior.
- :mod:`~stalegrad.diagnostics.step_halving`: what half the step size gives.
- :mod:`~stalegrad.diagnostics.curvature`, :mod:`~stalegrad.diagnostics.gradient_noise`: what a sampler is up against.
"""

from stalegrad.diagnostics.checkup import diagnose
from stalegrad.diagnostics.convergence import LEAST_DRAWS, Convergence, convergence, split_rhat
from stalegrad.diagnostics.curvature import Curvature, largest_curvature, mean_curvature
from stalegrad.diagnostics.findings import Finding, Findings, Measurement
from stalegrad.diagnostics.gradient_noise import GradientNoise, gradient_noise
from stalegrad.diagnostics.probes import Probes, probe
from stalegrad.diagnostics.stein import SteinDiscrepancy, kernel_stein_discrepancy
from stalegrad.diagnostics.step_halving import Halved, step_halving

__all__ = [
    "LEAST_DRAWS",
    "Convergence",
    "Curvature",
    "Finding",
    "Findings",
    "GradientNoise",
    "Halved",
    "Measurement",
    "Probes",
    "SteinDiscrepancy",
    "convergence",
    "diagnose",
    "gradient_noise",
    "kernel_stein_discrepancy",
    "largest_curvature",
    "mean_curvature",
    "probe",
    "split_rhat",
    "step_halving",
]
