"""stalegrad: asynchronous, distributed stochastic-gradient MCMC with stale gradients."""

from stalegrad import datasets, diagnostics, engines, models, potentials, priors, schedules, theory
from stalegrad.diagnostics.step_finder import find_step_size
from stalegrad.errors import (
    ArgumentError,
    DatasetError,
    GradientError,
    MissingExtra,
    StalegradError,
    StoreError,
    TraceError,
)
from stalegrad.estimates import Estimate
from stalegrad.kernels import PSGLD, SGHMC, SGLD, SGNHT
from stalegrad.result import Run, RunFailed
from stalegrad.run import load, replay, resume, sample
from stalegrad.simulation import Exponential, LogNormal, Network, simulate
from stalegrad.trace import Trace
from stalegrad.version import VERSION as _VERSION

__version__ = _VERSION

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
    "StoreError",
    "Trace",
    "TraceError",
    "datasets",
    "diagnostics",
    "engines",
    "find_step_size",
    "load",
    "models",
    "potentials",
    "priors",
    "replay",
    "resume",
    "sample",
    "schedules",
    "simulate",
    "theory",
]
