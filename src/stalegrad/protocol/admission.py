"""Who holds which version of a chain, and which gradients may touch it: the protocol of a server, without arrays.

This one file owns every transition of the protocol. The real server, the simulated cluster and therefore every trace go
through it. A worker is in one of three places:

    join ─▶ waiting ──release──▶ flying ──land──▶ waiting … ──leave──▶ gone

The chain's version l counts accepted gradients. A flight carries the version it read; when it lands its staleness is
τ_l = l − version read. What happens at the bound τ is the policy:

``drop``
    The paper's. A gradient with τ_l > τ is discarded: state and version stay, the worker is handed the current θ.
``wait``
    No gradient is ever discarded. A worker that is ahead is held, before it is given θ, until the bound is certain to
    hold: it may fly when for the oldest flight (l − version it read) + (number of flights) ≤ τ, because each of those
    flights can land at most once before the oldest one does. With W workers this wants τ ≥ W − 1 to let all of them fly
    and about 2(W − 1) to let them overlap freely.
"""

from collections import deque
from typing import Literal, NamedTuple

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad._internal.validation import one_of, whole_number
from stalegrad.kernels.noise import MAX_COUNT, MAX_WORKERS
from stalegrad.protocol.past import Past

Policy = Literal["drop", "wait"]
POLICIES = ("drop", "wait")


class Refusal(StalegradError):
    """A message that breaks the protocol: it is counted and reported, and the chain is not touched."""


class Assignment(NamedTuple):
    """Compute minibatch number ``count`` at the chain's current point, which has this version."""

    worker: int
    count: int  # type: ignore[assignment]  # not tuple.count
    version: int


class Landing(NamedTuple):
    """What became of a gradient."""

    staleness: int
    accepted: bool


class Admission:
    """The protocol state of one chain.

    Args:
        max_staleness: τ, or None for no bound.
        policy: ``"drop"`` or ``"wait"``.
        past: what happened to the chain before, where a run goes on that had stopped. Minibatches that were handed out
            then and did not come back are handed out again.
        epoch: of the model, see :attr:`stalegrad.potentials.Potential.epoch`: a worker that joins, and one whose
            gradient was abandoned, goes on with a minibatch number that is a multiple of it.
    """

    def __init__(
        self,
        max_staleness: int | None = None,
        policy: Policy = "drop",
        past: Past | None = None,
        epoch: int = 1,
    ) -> None:
        one_of("policy", policy, POLICIES)
        if max_staleness is not None:
            whole_number("max_staleness", max_staleness)
        elif policy == "wait":
            raise ArgumentError(
                "max_staleness", None, "leaves policy='wait' nothing to hold", "Give a bound, or policy='drop'."
            )
        self.max_staleness = max_staleness
        self.policy = policy
        self._epoch = epoch
        self.version = past.steps if past else 0
        # minibatches handed to each worker so far; it outlives the worker
        self._counts: dict[int, int] = past.next_counts() if past else {}
        self._waiting: deque[int] = deque()
        self._flying: dict[int, Assignment] = {}  # in the order of departure, so the oldest version is first

    @property
    def flying(self) -> tuple[Assignment, ...]:
        """What the workers are computing now, oldest first."""
        return tuple(self._flying.values())

    @property
    def held(self) -> tuple[int, ...]:
        """The workers that wait for θ."""
        return tuple(self._waiting)

    def join(self, worker: int) -> None:
        """A worker, or the replacement of one that left, is ready for work. Minibatch numbers go on where they were."""
        whole_number("worker", worker, most=MAX_WORKERS - 1)
        if worker in self._flying or worker in self._waiting:
            raise Refusal(f"worker {worker} has joined already")
        self._counts.setdefault(worker, 0)
        self._begin_epoch(worker)
        self._waiting.append(worker)

    def leave(self, worker: int) -> None:
        """A worker is gone; what it was computing will not come. Unknown workers are ignored."""
        self._flying.pop(worker, None)
        if worker in self._waiting:
            self._waiting.remove(worker)

    def release(self) -> list[Assignment]:
        """Hand the current version to every waiting worker that may fly."""
        departures = []
        while self._waiting and self._may_fly():
            worker = self._waiting.popleft()
            count = self._counts[worker]
            if count >= MAX_COUNT:
                raise Refusal(f"worker {worker} has used up its {MAX_COUNT} minibatches")
            self._counts[worker] = count + 1
            self._flying[worker] = assignment = Assignment(worker, count, self.version)
            departures.append(assignment)
        return departures

    def expect(self, worker: int, count: int, version: int) -> None:
        """Refuse a gradient that is not the one this worker was asked for: unknown, repeated or from the future."""
        flight = self._flying.get(worker)
        if flight is not None and flight.count == count and flight.version == version:
            return
        if worker not in self._counts:
            raise Refusal(f"worker {worker} is not known")
        if version > self.version:
            raise Refusal(f"worker {worker} read version {version}, but the chain is at {self.version}")
        if flight is None or count < flight.count:
            raise Refusal(f"worker {worker} sent minibatch {count} again or after it had left")
        raise Refusal(f"worker {worker} sent minibatch {count} at version {version}; asked for was {flight}")

    def land(self, worker: int) -> Landing:
        """An expected gradient has come. If it is accepted, the version advances by one."""
        staleness = self.version - self._flying.pop(worker).version
        self._waiting.append(worker)
        accepted = self.max_staleness is None or staleness <= self.max_staleness
        self.version += accepted
        return Landing(staleness, accepted)

    def went_on(self, accepted: int, flying: list[Assignment]) -> None:
        """Gradients have landed elsewhere, so many of them accepted, and who landed flies again or waits.

        Args:
            accepted: by how much the version has advanced.
            flying: what the workers that were flying compute now, oldest first.
        """
        self._waiting.extend(self._flying.keys() - {flight.worker for flight in flying})
        self._flying = {flight.worker: flight for flight in flying}
        self._counts |= {flight.worker: flight.count + 1 for flight in flying}
        self.version += accepted

    def abandon(self, worker: int) -> None:
        """The expected gradient has come but is unusable: the worker waits for new work, the version stays."""
        del self._flying[worker]
        self._begin_epoch(worker)
        self._waiting.append(worker)

    def lets_all_fly(self, workers: int) -> bool:
        """Whether workers that take turns never meet the bound, so that it cannot change what happens."""
        return self.policy == "drop" and (self.max_staleness is None or self.max_staleness >= workers - 1)

    def _begin_epoch(self, worker: int) -> None:
        self._counts[worker] = -(-self._counts[worker] // self._epoch) * self._epoch

    def _may_fly(self) -> bool:
        if self.policy == "drop" or not self._flying:
            return True
        assert self.max_staleness is not None
        oldest = next(iter(self._flying.values()))
        return self.version - oldest.version + len(self._flying) <= self.max_staleness
