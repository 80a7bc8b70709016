"""The processes engine: workers are processes of their own, points and gradients lie in memory that all share.

The model is sent once, with cloudpickle; its arrays are shared by all workers. Workers are woken through a pipe and
sleep otherwise. What happens in a worker process (crash, kill -9, hang) does not touch the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stalegrad._internal.validation import by_worker, whole_number
from stalegrad.engines.base import Engine, Job, Outcome
from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.link import Link
from stalegrad.engines.local_servers import run_servers
from stalegrad.engines.processes.hostile import HostileProcessLink
from stalegrad.engines.processes.link import ProcessLink
from stalegrad.engines.processes.pool import Pool


@dataclass(frozen=True)
class Processes(Engine):
    """Real asynchrony on all cores of a machine.

    Args:
        patience: seconds after which a worker that does not answer counts as hung and is killed; None waits for ever.
            A worker that starts imports, compiles and tries its model first; it has a minute for that.
        restarts: how often in a row a worker may fail before it is given up.
        threads: how many threads BLAS, OpenMP, torch and XLA may use in each worker. A model of ``from_torch`` has a
            number of its own, since bits depend on it.
        update_threads: threads among which each server splits its updates, for models of many parameters: the same
            bits, sooner, as long as there are cores for them.
        slow: extra seconds per gradient of some workers, by number, to study stragglers.
        hostile: a network that loses, repeats and damages messages by a plan, see
            :class:`stalegrad.testing.HostileNetwork`; for tests.

    >>> import stalegrad as sg
    >>> engine = Processes(threads=2, patience=60.0)
    >>> engine.threads, engine.restarts
    (2, 3)
    """

    patience: float | None = None
    restarts: int = 3
    threads: int = 1
    update_threads: int = 1
    slow: Mapping[int, float] = field(default_factory=dict)
    hostile: HostileNetwork | None = None

    def __post_init__(self) -> None:
        FaultPolicy(self.patience, self.restarts)
        whole_number("threads", self.threads, least=1)
        whole_number("update_threads", self.update_threads, least=1)
        by_worker("slow", self.slow)

    def over(self, network: HostileNetwork) -> "Processes":
        """The same engine over a hostile network."""
        return replace(self, hostile=network)

    def run(self, job: Job) -> Outcome:
        """Run the job, each server in a thread and each worker in a process of its own."""
        policy = FaultPolicy(self.patience, self.restarts)

        def link(server: int) -> Link:
            if self.hostile is None:
                return ProcessLink(pool, server)
            return HostileProcessLink(pool, server, self.hostile)

        with Pool(job, self.threads, self.slow, self.hostile) as pool:
            return run_servers(job, link, policy)
