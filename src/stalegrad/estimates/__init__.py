"""From draws to answers: averages over chains and their errors, predictions, and speedups at equal precision."""

from stalegrad.estimates.averages import combine_chains, running_average
from stalegrad.estimates.bootstrap import SpeedupInterval, speedup_interval
from stalegrad.estimates.monte_carlo_error import autocovariance, effective_sample_size, long_run_variance, mcse
from stalegrad.estimates.posterior_average import Estimate, estimate
from stalegrad.estimates.prediction import PredictiveAverage
from stalegrad.estimates.repetitions import Precision, precision
from stalegrad.estimates.scores import (
    Reliability,
    Scores,
    accuracy,
    brier_score,
    calibration_error,
    mean_log_likelihood,
    reliability_curve,
    score,
)
from stalegrad.estimates.speedups import Speedup, iterations_to, speedup

__all__ = [
    "Estimate",
    "Precision",
    "PredictiveAverage",
    "Reliability",
    "Scores",
    "Speedup",
    "SpeedupInterval",
    "accuracy",
    "autocovariance",
    "brier_score",
    "calibration_error",
    "combine_chains",
    "effective_sample_size",
    "estimate",
    "iterations_to",
    "long_run_variance",
    "mcse",
    "mean_log_likelihood",
    "precision",
    "reliability_curve",
    "running_average",
    "score",
    "speedup",
    "speedup_interval",
]
