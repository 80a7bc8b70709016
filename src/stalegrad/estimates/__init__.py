"""From draws to answers: averages over chains and their errors, predictions, and speedups at equal precision."""

from stalegrad.estimates.averages import combine_chains, running_average
from stalegrad.estimates.bootstrap import SpeedupInterval, speedup_interval
from stalegrad.estimates.consensus import consensus_draws
from stalegrad.estimates.monte_carlo_error import autocovariance, effective_sample_size, long_run_variance, mcse
from stalegrad.estimates.normal_prediction import PredictiveNormal
from stalegrad.estimates.normal_scores import (
    NormalScores,
    crps,
    interval_coverage,
    mean_log_density,
    rmse,
    score_normal,
)
from stalegrad.estimates.posterior_average import Estimate, estimate
from stalegrad.estimates.prediction import PredictiveAverage
from stalegrad.estimates.predictive_stream import DrawPrediction, average_predictions, predictions
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
    "DrawPrediction",
    "Estimate",
    "NormalScores",
    "Precision",
    "PredictiveAverage",
    "PredictiveNormal",
    "Reliability",
    "Scores",
    "Speedup",
    "SpeedupInterval",
    "accuracy",
    "autocovariance",
    "average_predictions",
    "brier_score",
    "calibration_error",
    "combine_chains",
    "consensus_draws",
    "crps",
    "effective_sample_size",
    "estimate",
    "interval_coverage",
    "iterations_to",
    "long_run_variance",
    "mcse",
    "mean_log_density",
    "mean_log_likelihood",
    "precision",
    "predictions",
    "reliability_curve",
    "rmse",
    "running_average",
    "score",
    "score_normal",
    "speedup",
    "speedup_interval",
]
