"""stalegrad: asynchronous, distributed stochastic-gradient MCMC with stale gradients."""

from stalegrad import potentials, schedules, theory
from stalegrad.errors import ArgumentError, GradientError, MissingExtra, StalegradError, TraceError
from stalegrad.estimates import Estimate
from stalegrad.kernels import PSGLD, SGHMC, SGLD, SGNHT
from stalegrad.run import Run, replay, sample
from stalegrad.simulation import Exponential, LogNormal, Network, simulate
from stalegrad.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "PSGLD",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "ArgumentError",
    "Estimate",
    "Exponential",
    "GradientError",
    "LogNormal",
    "MissingExtra",
    "Network",
    "Run",
    "StalegradError",
    "Trace",
    "TraceError",
    "potentials",
    "replay",
    "sample",
    "schedules",
    "simulate",
    "theory",
]
