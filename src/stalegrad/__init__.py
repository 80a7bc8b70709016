"""stalegrad: asynchronous, distributed stochastic-gradient MCMC with stale gradients."""

from stalegrad import (
    architectures,
    datasets,
    diagnostics,
    engines,
    metrics,
    models,
    potentials,
    priors,
    schedules,
    theory,
)
from stalegrad.architectures import Consensus, Downpour, Elastic, VisitingShards, WorkerNoise
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
from stalegrad.kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, SGRLD, UBU, Auxiliary, Recipe
from stalegrad.result import Run, RunFailed
from stalegrad.run import load, replay, resume, sample
from stalegrad.simulation import Exponential, LogNormal, Network, simulate
from stalegrad.trace import Trace
from stalegrad.version import VERSION as _VERSION

__version__ = _VERSION

__all__ = [
    "BAOAB",
    "PSGLD",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRLD",
    "UBU",
    "ArgumentError",
    "Auxiliary",
    "Consensus",
    "DatasetError",
    "Downpour",
    "Elastic",
    "Estimate",
    "Exponential",
    "GradientError",
    "LogNormal",
    "MissingExtra",
    "Network",
    "Recipe",
    "Run",
    "RunFailed",
    "StalegradError",
    "StoreError",
    "Trace",
    "TraceError",
    "VisitingShards",
    "WorkerNoise",
    "architectures",
    "datasets",
    "diagnostics",
    "engines",
    "find_step_size",
    "load",
    "metrics",
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
