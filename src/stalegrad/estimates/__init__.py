"""From draws to answers: averages over a chain and over chains, their errors, and speedups at equal precision."""

from stalegrad.estimates.averages import combine_chains, running_average
from stalegrad.estimates.bootstrap import SpeedupInterval, speedup_interval
from stalegrad.estimates.monte_carlo_error import autocovariance, effective_sample_size, long_run_variance, mcse
from stalegrad.estimates.posterior_average import Estimate, estimate
from stalegrad.estimates.repetitions import Precision, precision
from stalegrad.estimates.speedups import Speedup, iterations_to, speedup

__all__ = [
    "Estimate",
    "Precision",
    "Speedup",
    "SpeedupInterval",
    "autocovariance",
    "combine_chains",
    "effective_sample_size",
    "estimate",
    "iterations_to",
    "long_run_variance",
    "mcse",
    "precision",
    "running_average",
    "speedup",
    "speedup_interval",
]
