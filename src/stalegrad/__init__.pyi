# The names of the package and where they come from. A name is imported when it is first used, see __init__.py.

from . import analysis, datasets, engines, kernels, planning, potentials, protocol, runs, testing, theory
from ._internal.errors import (
    ArgumentError,
    DatasetError,
    GradientError,
    JobError,
    MissingExtra,
    StalegradError,
    StoreError,
    TraceError,
)
from .analysis import diagnostics, estimates
from .analysis.diagnostics.step_finder import find_step_size
from .analysis.estimates import Estimate
from .engines import simulation
from .engines.simulation import Exponential, LogNormal, Network, simulate
from .kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, SGRLD, UBU, Auxiliary, Harmonic, Recipe, metrics, schedules
from .potentials import networks, priors
from .protocol import architectures
from .protocol.architectures import (
    Consensus,
    Downpour,
    Elastic,
    LowRank,
    Shards,
    StaleGradients,
    VisitingShards,
    WorkerNoise,
)
from .protocol.trace import Trace
from .runs import observers, store
from .runs.failures import RunFailed
from .runs.replay import replay
from .runs.result import Run
from .runs.resume import load, resume
from .runs.sample import sample
from .runs.warmup.options import Warmup
from .runs.watch.options import Watch

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
    "Harmonic",
    "JobError",
    "LogNormal",
    "LowRank",
    "MissingExtra",
    "Network",
    "Recipe",
    "Run",
    "RunFailed",
    "Shards",
    "StaleGradients",
    "StalegradError",
    "StoreError",
    "Trace",
    "TraceError",
    "VisitingShards",
    "Warmup",
    "Watch",
    "WorkerNoise",
    "analysis",
    "architectures",
    "datasets",
    "diagnostics",
    "engines",
    "estimates",
    "find_step_size",
    "kernels",
    "load",
    "metrics",
    "networks",
    "observers",
    "planning",
    "potentials",
    "priors",
    "protocol",
    "replay",
    "resume",
    "runs",
    "sample",
    "schedules",
    "simulate",
    "simulation",
    "store",
    "testing",
    "theory",
]
