"""stalegrad: asynchronous, distributed stochastic-gradient MCMC with stale gradients."""

from stalegrad import datasets, engines, models, potentials, priors, schedules, theory
from stalegrad.errors import ArgumentError, DatasetError, GradientError, MissingExtra, StalegradError, TraceError
from stalegrad.estimates import Estimate
from stalegrad.kernels import PSGLD, SGHMC, SGLD, SGNHT
from stalegrad.result import Run, RunFailed
from stalegrad.run import replay, sample
from stalegrad.simulation import Exponential, LogNormal, Network, simulate
from stalegrad.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "PSGLD",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "ArgumentError",
    "DatasetError",
    "Estimate",
    "Exponential",
    "GradientError",
    "LogNormal",
    "MissingExtra",
    "Network",
    "Run",
    "RunFailed",
    "StalegradError",
    "Trace",
    "TraceError",
    "datasets",
    "engines",
    "models",
    "potentials",
    "priors",
    "replay",
    "sample",
    "schedules",
    "simulate",
    "theory",
]
