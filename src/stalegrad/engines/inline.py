"""The inline engine: everything in this process, one update after the other, in the order that a trace says.

A run on it is a simulated cluster's trace, executed (:mod:`stalegrad.protocol.executor`).
"""

import threading
import time
from dataclasses import dataclass
from typing import ClassVar

from stalegrad._internal.errors import NotFinite
from stalegrad._internal.validation import real_number
from stalegrad.engines.base import Engine, Job, Outcome, keep_up
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.simulation import Law, Network
from stalegrad.engines.simulation.cluster import Cluster
from stalegrad.engines.simulation.laws import Several, as_law, as_network
from stalegrad.protocol.executor import Executor

_FIRST_TURN = 64  # updates of each chain before all chains' speed is known
_SOON = 0.1  # seconds of a turn, in which nobody looks whether the run is to stop


@dataclass(frozen=True)
class Inline(Engine):
    """Simulate the cluster, execute its trace here.

    The defaults make every worker equally fast, so that workers take turns and staleness is W − 1.

    Args:
        compute: virtual seconds for a gradient, of which an answer may take several: a number, or a law of
            :mod:`stalegrad.engines.simulation`.
        network: the virtual link of a server.
        update: virtual seconds for an update.

    >>> import stalegrad as sg
    >>> settings = {"steps": 50, "workers": 2, "progress": False}
    >>> run = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), engine=Inline(compute=0.02), **settings)
    >>> run.draws.shape
    (1, 50, 5)
    """

    has_workers: ClassVar[bool] = False
    compute: Law | float = 1.0
    network: Network | float | None = None
    update: float = 0.0

    def __post_init__(self) -> None:
        as_law("compute", self.compute)
        as_network(self.network)
        real_number("update", self.update, least=0)

    def run(self, job: Job) -> Outcome:
        """Execute the job, chain after chain."""
        chains = [job.chain(s) for s in range(job.settings.servers)]
        left = [job.settings.steps - chain.version for chain in chains]
        compute = self.compute
        if job.potential.addressed:  # an answer may take several gradients
            compute = Several(of=as_law("compute", compute), numbers=job.potential.gradient_numbers)
        cluster = Cluster(
            workers=job.settings.workers, compute=compute, network=self.network, update=self.update,
            max_staleness=job.settings.max_staleness, policy=job.settings.policy, seed=job.settings.seed,
        )  # fmt: skip
        executors = [
            Executor(cluster.order(s, left[s]), job.potential, chain, job.record(s), job.status[s], job.past_of(s))
            for s, chain in enumerate(chains)
        ]
        checkpoints = [job.checkpoint(s) if job.checkpoint else None for s in range(job.settings.servers)]
        stop, interrupted, failures = threading.Event(), threading.Event(), dict[int, NotFinite]()
        turn = _FIRST_TURN
        with stop_on_signals(stop, interrupted, job.hurry, job.stop_requests):
            while not stop.is_set() and not failures and any(not executor.done for executor in executors):
                begun = time.perf_counter()
                for s, executor in enumerate(executors):  # by turns, so that all are equally far at an interrupt
                    try:
                        executor.advance(min(turn, executor.turn), stop.is_set)
                    except NotFinite as failure:
                        failures[s] = failure
                turn = max(1, turn // 2) if time.perf_counter() - begun > _SOON else 2 * turn
                for executor, checkpoint in zip(executors, checkpoints, strict=True):
                    if not failures:
                        keep_up(checkpoint, executor, ())
        for s, (executor, checkpoint) in enumerate(zip(executors, checkpoints, strict=True)):
            if s not in failures:  # the last checkpoint of a chain that has diverged is better than what is left of it
                keep_up(checkpoint, executor, (), last=True)
        return Outcome(
            tuple(executor.trace for executor in executors), interrupted=interrupted.is_set(),
            failure=next(iter(failures.values()), None),
        )  # fmt: skip
