"""Who takes part: each architecture with its settings for W workers, and how long its parts take on a cluster.

All have the same number of gradients in all, on minibatches of the same size, and chains that start at the mode. Step
sizes follow one rule: h for chains on all of U, hW for chains on a W-th of it, whose curvature is a W-th as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import Inline
from stalegrad.engines.simulation import LogNormal, Network
from stalegrad.experiments.architectures.targets import Target
from stalegrad.kernels import SGLD
from stalegrad.protocol.architectures import Architecture, Consensus, Downpour, Elastic, StaleGradients, VisitingShards
from stalegrad.protocol.draws import Thinning
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample

LENGTH = 20
"""Steps of a trajectory at a shard whose worker is not slow."""


@dataclass(frozen=True)
class Cluster:
    """The simulated cluster.

    Args:
        gradient: mean seconds of a gradient.
        variation: its standard deviation over its mean.
        latency: seconds that a message travels.
        straggler: how many times slower the last of several workers is.
    """

    gradient: float = 5e-3
    variation: float = 0.2
    latency: float = 2.5e-3
    straggler: float = 5.0

    def law(self, workers: int, *, slow: int | None = None) -> LogNormal:
        """Of the workers of one server. Which of them is slow; None for the last, if there are several."""
        slow = workers - 1 if slow is None and workers > 1 else slow
        return LogNormal(self.gradient, self.variation, factors={} if slow is None else {slow: self.straggler})

    def engine(self, workers: int) -> Inline:
        """Of one server with so many workers."""
        return Inline(compute=self.law(workers), network=Network(latency=self.latency))

    def speed(self, worker: int, workers: int) -> float:
        """How fast one of several workers is, 1 for those that are not slow."""
        return 1 / self.straggler if workers > 1 and worker == workers - 1 else 1.0


@dataclass(frozen=True)
class Contender:
    """One architecture.

    Args:
        name: for pictures and tables.
        few: whether it takes part with one worker, too.
        make: arguments of ``sample`` for a target, W workers, a number of gradients in all and a cluster.
        local: whether each chain is where its gradients are, so that only the draws that are kept travel.
    """

    name: str
    few: bool
    make: Callable[[Target, int, int, Cluster], dict[str, Any]]
    local: bool = False


def _one_server(architecture: Architecture, steps_each: int = 1) -> Callable[..., dict[str, Any]]:
    def make(target: Target, workers: int, gradients: int, cluster: Cluster) -> dict[str, Any]:
        return {
            "kernel": SGLD(step_size=target.step_size), "architecture": architecture, "servers": 1, "workers": workers,
            "steps": gradients // steps_each,
        }  # fmt: skip

    return make


def _elastic(n_push: int) -> Callable[..., dict[str, Any]]:
    """ρ is as large as the step allows: what the spring does in an exchange is a third of the way to the centre."""

    def make(target: Target, workers: int, gradients: int, cluster: Cluster) -> dict[str, Any]:
        h = workers * target.step_size
        elastic = Elastic(rho=0.3 / (h * n_push), divide=True, draws="centre", n_push=n_push)
        return {
            "kernel": SGLD(step_size=h), "architecture": elastic, "servers": 1, "workers": workers,
            "steps": gradients // n_push,
        }  # fmt: skip

    return make


def _chains(target: Target, workers: int, gradients: int, cluster: Cluster) -> dict[str, Any]:
    kernel = SGLD(step_size=target.step_size)
    return {"kernel": kernel, "servers": workers, "steps": gradients // workers, "architecture": StaleGradients()}


def _visiting(target: Target, workers: int, gradients: int, cluster: Cluster) -> dict[str, Any]:
    lengths = [max(1, round(LENGTH * cluster.speed(v, workers))) for v in range(workers)]
    return {
        "kernel": SGLD(step_size=target.step_size), "architecture": VisitingShards(workers, lengths=lengths),
        "servers": workers, "steps": gradients // sum(lengths),
    }  # fmt: skip


def _consensus(target: Target, workers: int, gradients: int, cluster: Cluster) -> dict[str, Any]:
    kernel = SGLD(step_size=workers * target.step_size)
    return {"kernel": kernel, "servers": workers, "steps": gradients // workers, "architecture": Consensus()}


CONTENDERS = (
    Contender("stale gradients", True, _one_server(StaleGradients())),
    Contender("Downpour, n = 5", False, _one_server(Downpour(n_push=5), 5)),
    Contender("Downpour, n = 20", False, _one_server(Downpour(n_push=20), 20)),
    Contender("elastic, n = 1", False, _elastic(1)),
    Contender("elastic, n = 5", False, _elastic(5)),
    Contender("visiting shards", False, _visiting),
    Contender("consensus", False, _consensus),
    Contender("independent chains", False, _chains, local=True),
)


def run_of(
    contender: Contender, target: Target, workers: int, gradients: int, cluster: Cluster, draws: int, **options: Any
) -> tuple[Run, Array]:
    """A run with about so many draws of each chain, and the virtual seconds of each, (chain, draw)."""
    settings = contender.make(target, workers, gradients, cluster)
    kernel, steps = settings.pop("kernel"), settings["steps"]
    thin = max(1, steps // draws)
    engine = cluster.engine(workers) if settings["servers"] == 1 else Inline()
    run = sample(target.potential, kernel, thin=thin, engine=engine, progress=False, **settings, **options)
    architecture = settings["architecture"]
    if settings["servers"] == 1:
        times = run.trace.chains[0].time
        assert times is not None
        seconds = times[None]
    elif isinstance(architecture, VisitingShards):
        seconds = times_of_visits(architecture, steps, run.trace.seed, cluster)
    else:
        seconds = times_of_chains(workers, steps, run.trace.seed, cluster)
    return run, seconds[:, Thinning(0, thin).updates(steps)]


def times_of_chains(chains: int, steps: int, seed: int, cluster: Cluster) -> Array:
    """When each of several chains that share nothing makes its updates, (chain, step)."""
    rows = []
    for s in range(chains):
        law = cluster.law(1, slow=0 if cluster.speed(s, chains) < 1 else None)
        rows.append(np.cumsum([law.seconds(seed, s, 0, k) for k in range(steps)]))
    return np.array(rows)


def times_of_visits(visiting: VisitingShards, rounds: int, seed: int, cluster: Cluster) -> Array:
    """When chains end their trajectories, (chain, round): they wait until their next shard is free, and travel."""
    count, lengths = visiting.count, visiting.each_length
    laws = [cluster.law(1, slow=0 if cluster.speed(v, count) < 1 else None) for v in range(count)]
    free, done = np.zeros(count), np.empty((count, rounds))
    for k in range(rounds):
        before = free.copy()
        for s in range(count):
            v = visiting.shard(seed, s, k)
            arrives = done[s, k - 1] + cluster.latency if k else 0.0
            first = k * max(lengths)
            spent = sum(laws[v].seconds(seed, v, 0, first + i) for i in range(lengths[v]))
            free[v] = done[s, k] = max(arrives, before[v]) + spent
    return done
