"""From draws to answers: averages over chains and their errors, predictions, and speedups at equal precision.

Arrays of draws and step sizes go in, in memory or from disk block by block. Whether an answer can be trusted is worked
out in ``diagnostics``; nothing here draws pictures or knows engines.
"""

from stalegrad.analysis.estimates.averages import combine_chains, running_average
from stalegrad.analysis.estimates.bootstrap import SpeedupInterval, speedup_interval
from stalegrad.analysis.estimates.consensus import consensus_draws
from stalegrad.analysis.estimates.learning_coefficient import learning_coefficient
from stalegrad.analysis.estimates.monte_carlo_error import (
    autocovariance,
    effective_sample_size,
    long_run_variance,
    mcse,
)
from stalegrad.analysis.estimates.normal_prediction import PredictiveNormal
from stalegrad.analysis.estimates.normal_scores import (
    NormalScores,
    crps,
    interval_coverage,
    interval_score,
    mean_log_density,
    rmse,
    score_normal,
)
from stalegrad.analysis.estimates.posterior_average import Estimate, estimate
from stalegrad.analysis.estimates.prediction import PredictiveAverage
from stalegrad.analysis.estimates.predictive_stream import DrawPrediction, average_predictions, predictions
from stalegrad.analysis.estimates.repetitions import Precision, precision
from stalegrad.analysis.estimates.scores import (
    Reliability,
    Scores,
    accuracy,
    brier_score,
    calibration_error,
    mean_log_likelihood,
    reliability_curve,
    score,
)
from stalegrad.analysis.estimates.speedups import Speedup, iterations_to, speedup
from stalegrad.analysis.estimates.uncertainty import RiskCoverage, auroc, entropy, false_positive_rate, risk_coverage

__all__ = [
    "DrawPrediction",
    "Estimate",
    "NormalScores",
    "Precision",
    "PredictiveAverage",
    "PredictiveNormal",
    "Reliability",
    "RiskCoverage",
    "Scores",
    "Speedup",
    "SpeedupInterval",
    "accuracy",
    "auroc",
    "autocovariance",
    "average_predictions",
    "brier_score",
    "calibration_error",
    "combine_chains",
    "consensus_draws",
    "crps",
    "effective_sample_size",
    "entropy",
    "estimate",
    "false_positive_rate",
    "interval_coverage",
    "interval_score",
    "iterations_to",
    "learning_coefficient",
    "long_run_variance",
    "mcse",
    "mean_log_density",
    "mean_log_likelihood",
    "precision",
    "predictions",
    "reliability_curve",
    "risk_coverage",
    "rmse",
    "running_average",
    "score",
    "score_normal",
    "speedup",
    "speedup_interval",
]
