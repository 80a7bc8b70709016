"""What becomes of workers that share a chain when something goes wrong with them.

A gradient raises or is not finite, or a worker in Python takes too long: the same :class:`Lifecycle` as elsewhere
decides, and here its decisions are carried out, between two updates.
"""

import logging
import traceback
from collections import deque
from collections.abc import Callable

from stalegrad._internal.atomics import store
from stalegrad._internal.errors import GradientError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad.engines.base import Event, Job
from stalegrad.engines.lifecycle import Abandon, Decision, FaultPolicy, Lifecycle, Replace
from stalegrad.engines.server_loop import WorkersLost
from stalegrad.engines.suspension import Suspension
from stalegrad.engines.threads.flights import Bound, join, leave
from stalegrad.engines.threads.landing import NONE
from stalegrad.engines.threads.shared import (
    ABSENT,
    AWAY,
    COUNT,
    INCARNATION,
    LANDED,
    STATE,
    VERSION,
    Shared,
    flight,
    locked,
)  # fmt: skip
from stalegrad.protocol.chain import Chain, diverged, is_not_finite, refuse_bad_gradient

log = logging.getLogger("stalegrad")


class WorkerFaults:
    """Sees to the faults of one chain's workers.

    Args:
        job: what is run.
        index: which server of the run it is.
        chain: its chain.
        shared: what the workers share.
        bound: their staleness bound.
        policy: what to do about workers that fail.
        poll: seconds between two calls of :meth:`check_deadlines`.
        clock: seconds since the run's start.
        restart: starts a thread for a worker's next incarnation; None if its thread goes on, as compiled loops do,
            in which no code of a user's runs.
    """

    def __init__(
        self,
        job: Job,
        index: int,
        chain: Chain,
        shared: Shared,
        bound: Bound,
        policy: FaultPolicy,
        poll: float,
        clock: Callable[[], float],
        restart: Callable[[int, int], None] | None,
    ) -> None:
        self.events: list[Event] = []
        self._potential, self._seed, self._status = job.potential, job.settings.seed, job.status[index]
        self._index, self._chain, self._shared, self._bound = index, chain, shared, bound
        self._clock, self._restart = clock, restart
        self._lifecycle = Lifecycle(job.settings.workers, policy, index)
        self._suspension = Suspension(poll)
        self._unlogged: deque[Event] = deque()
        self._seen = [NONE] * job.settings.workers  # the minibatch that each worker was seen to compute
        self._status.faults = self.events

    def begin(self, now: float) -> list[int]:
        """The run begins: which workers are to be started."""
        self._suspension.look(now)
        return self._lifecycle.begin(now)

    def ready(self, worker: int, incarnation: int) -> None:
        """A worker has been made and can take a minibatch. The caller has the lock, or nobody computes yet."""
        if self._lifecycle.is_current(worker, incarnation):
            self._lifecycle.ready(worker, self._clock())

    def present_seconds(self, now: float) -> float:
        """For how long workers have been there, all together."""
        return self._lifecycle.present_seconds(now)

    def check_deadlines(self) -> None:
        """Who takes too long counts as hung. The caller has the lock; only code of a user's can take too long."""
        now = self._clock()
        if missed := self._suspension.look(now):
            self._lifecycle.suspended(missed)
        if self._restart is None:
            return
        away, counts = self._shared.of_worker(STATE) == AWAY, self._shared.of_worker(COUNT)
        for worker, seen in enumerate(self._seen):
            present = int(counts[worker]) if away[worker] else NONE
            if present != seen:
                self._seen[worker] = present
                self._lifecycle.delivered(worker, now)
                if present != NONE:
                    self._lifecycle.assigned(worker, now)
        for decision in self._lifecycle.tick(now):
            self._carry_out(decision)

    def refuse(self, worker: int, incarnation: int, kind: str, details: str) -> Decision | None:
        """A worker's gradient could not be used: what becomes of it; None if nobody expects anything of it any more."""
        try:
            with locked(self._shared):
                if not self._lifecycle.is_current(worker, incarnation):
                    return None
                if self._shared.of_worker(LANDED)[worker]:
                    self._lifecycle.usable(worker)
                lost = kind == "refused" and is_not_finite(details) and self._shared.words[VERSION] > 0
                decision = self._lifecycle.failed(worker, kind, details, self._clock(), not_finite=lost)
                self._carry_out(decision)
                return decision
        finally:
            self.log_events()

    def log_events(self) -> None:
        """Log new faults, without the lock: whoever handles them may take his time."""
        while True:
            try:
                event = self._unlogged.popleft()
            except IndexError:  # there are no more, or another thread logs them
                return
            log.warning("%s", event)

    def of_compiled(self, worker: int, gradient: Array) -> tuple[str, str]:
        """What is wrong with a gradient that compiled code has refused: its kind and details of it."""
        count = int(self._shared.of_worker(COUNT)[worker])
        point = self._shared.points[worker, : gradient.shape[1]][None].copy()
        try:
            indices = self._potential.minibatches.draw(self._seed, self._chain.chain, worker, count)
            self._potential.gradients(point, indices[None], gradient)
        except Exception:
            return "raised", traceback.format_exc()
        details = self.unusable(worker, gradient)
        assert details is not None, f"worker {worker}, minibatch {count}: refused in compiled code alone"
        return "refused", details

    def unusable(self, worker: int, gradient: Array) -> str | None:
        """What is wrong with the gradient that a worker has computed, if it is known to be wrong."""
        try:
            refuse_bad_gradient(gradient, self._chain.position)
        except GradientError as error:
            return f"worker {worker}, minibatch {int(self._shared.of_worker(COUNT)[worker])}: {error}"
        return None

    def _carry_out(self, decision: Decision) -> None:
        """Report a fault, take its worker out, and let it or another go on, or end the run. The caller has the lock."""
        worker, kind, details = decision.fault
        event = Event(self._clock(), self._index, worker, kind, details)
        self.events.append(event)
        self._status.refused += kind == "refused"
        leave(self._shared, self._bound, worker, self._chain.point)
        following = decision.incarnation if isinstance(decision, Replace) else NONE
        self._shared.of_worker(INCARNATION)[worker] = following
        self._seen[worker] = NONE
        if self._lifecycle.first_not_finite:  # others of a row say nothing new
            self._unlogged.append(event)
        if isinstance(decision, Abandon):
            if decision.diverged:
                raise diverged(self._index, int(self._shared.words[VERSION]), decision.reason)
            raise WorkersLost(decision.reason)
        if isinstance(decision, Replace):
            if self._restart is not None:
                _set(self._shared.flights, flight(worker) + STATE, ABSENT)
                self._restart(worker, following)
            else:
                self._lifecycle.ready(worker, self._clock())
                join(self._shared, self._bound, worker, self._chain.point)


@compiled
def _set(vector, index, value):  # type: ignore[no-untyped-def]
    store(vector, index, value)
