# The names of the package and where they come from. A name is imported when it is first used, see __init__.py.

from . import (
    architectures,
    datasets,
    diagnostics,
    engines,
    estimates,
    kernels,
    metrics,
    models,
    potentials,
    priors,
    schedules,
    simulation,
    store,
    testing,
    theory,
)
from .architectures import Consensus, Downpour, Elastic, VisitingShards, WorkerNoise
from .diagnostics.step_finder import find_step_size
from .errors import (
    ArgumentError,
    DatasetError,
    GradientError,
    MissingExtra,
    StalegradError,
    StoreError,
    TraceError,
)
from .estimates import Estimate
from .kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, SGRLD, UBU, Auxiliary, Recipe
from .result import Run, RunFailed
from .run import load, replay, resume, sample
from .simulation import Exponential, LogNormal, Network, simulate
from .trace import Trace

__version__: str

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
    "estimates",
    "find_step_size",
    "kernels",
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
    "simulation",
    "store",
    "testing",
    "theory",
]
