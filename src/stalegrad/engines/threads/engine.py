"""The threads engine: workers are threads of this process.

It works in a notebook and with closures. Compiled models, long runs of them, need no Python between two gradients:
their workers update the chain themselves (:mod:`stalegrad.engines.threads.compiled_server`). All others send their
gradients to a server in a thread of its own (:mod:`stalegrad.engines.threads.link`), and run in parallel as far as they
release the GIL, which JAX and torch gradients do; for pure Python gradients use the processes engine.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stalegrad._internal.validation import by_worker, whole_number
from stalegrad.engines.base import Engine, Job, Outcome
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.local_servers import Serving, run_side_by_side, server_loop
from stalegrad.engines.threads.compiled_server import CompiledServer
from stalegrad.engines.threads.link import ThreadLink


@dataclass(frozen=True)
class Threads(Engine):
    """Real asynchrony in one process.

    Long runs of compiled models, such as the built-in ones, run in compiled loops without a server in between: the
    first such run of a model compiles its loop, which takes some seconds.

    Args:
        patience: seconds after which a worker that does not answer counts as hung; None waits for ever. A hung thread
            cannot be ended, only left behind. Compiled loops cannot hang.
        restarts: how often in a row a worker may fail before it is given up.
        update_threads: threads among which each server splits its updates, for models of many parameters: the same
            bits, sooner, as long as there are cores for them.
        slow: extra seconds per gradient of some workers, by number, to study stragglers.

    >>> import stalegrad as sg
    >>> settings = {"steps": 50, "workers": 2, "progress": False}
    >>> run = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), engine=Threads(restarts=1), **settings)
    >>> run.draws.shape
    (1, 50, 5)
    """

    patience: float | None = None
    restarts: int = 3
    update_threads: int = 1
    slow: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FaultPolicy(self.patience, self.restarts)
        whole_number("update_threads", self.update_threads, least=1)
        by_worker("slow", self.slow)

    def run(self, job: Job) -> Outcome:
        """Run the job, each server and each worker in a thread of its own."""
        return run_side_by_side(job, lambda server, stop, clock: self._server(job, server, stop, clock))

    def _server(self, job: Job, index: int, stop: threading.Event, clock: Callable[[], float]) -> Serving:
        """The way in which a server reaches its workers: they share its chain, or they send it messages."""
        policy = FaultPolicy(self.patience, self.restarts)
        chain, record = job.chain(index), job.record(index)
        late = self.patience is not None and any(seconds > 0 for seconds in self.slow.values())  # may count as hung
        if self.update_threads == 1 and not late:
            compiled = CompiledServer.if_worthwhile(job, index, chain, record, policy, self.slow, stop, clock)
            if compiled is not None:
                return compiled
        link = ThreadLink(job, index, self.slow)
        return server_loop(job, index, link, job.settings.workers, policy, stop, clock, (chain, record))
