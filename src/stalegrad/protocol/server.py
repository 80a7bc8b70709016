"""A server: owns one chain and updates it the moment a gradient arrives. No I/O, no clock, no threads.

Events go in (:meth:`Server.join`, :meth:`Server.receive`, :meth:`Server.leave`), instructions come out: the assignments
to send. An engine moves the messages; it holds no sampling logic. Arithmetic never depends on who is fast, only on the
order of arrival, and that order is the trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import nan
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.types import Array
from stalegrad.protocol.admission import Admission, Assignment, Refusal
from stalegrad.protocol.chain import Chain, Record, refuse_bad_gradient
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.past import Past
from stalegrad.protocol.trace_builder import TraceBuilder
from stalegrad.protocol.turn import chain_compiles


@dataclass(slots=True)
class ChainStatus:
    """How far a chain is. Its server writes it, displays read it at their own pace.

    Args:
        accepted: updates made.
        dropped: gradients that came too late.
        refused: messages that were unusable.
        staleness_sum: Σ τ_l of the accepted.
        staleness_max: the largest of them.
        rows: where the rows of the trace come together in this process; None if they do so elsewhere.
        faults: of the chain's workers, as far as this process knows of them.
    """

    accepted: int = 0
    dropped: int = 0
    refused: int = 0
    staleness_sum: int = 0
    staleness_max: int = 0
    rows: TraceBuilder | None = field(default=None, compare=False, repr=False)
    faults: Sequence[Any] = field(default=(), compare=False, repr=False)

    @classmethod
    def after(cls, past: Past) -> "ChainStatus":
        """Of a chain with this past."""
        return cls(past.steps, past.rows - past.steps, 0, past.staleness_sum, past.staleness_max)

    def follow(self, other: "ChainStatus") -> None:
        """Show what another one shows: that of a server elsewhere."""
        self.show(other.figures())

    def show(self, figures: Mapping[str, int]) -> None:
        """Show these numbers, which have come from elsewhere."""
        for name, value in figures.items():
            setattr(self, name, value)

    def alone(self) -> "ChainStatus":
        """A copy of its numbers, without what does not travel."""
        copy = ChainStatus()
        copy.follow(self)
        return copy

    def figures(self) -> dict[str, int]:
        """Its numbers by name: what travels between processes."""
        return {name: getattr(self, name) for name in FIGURES}

    def count(self, staleness: int, accepted: bool) -> None:
        """A gradient has been dealt with."""
        if accepted:
            self.accepted += 1
            self.staleness_sum += staleness
            if staleness > self.staleness_max:
                self.staleness_max = staleness
        else:
            self.dropped += 1


FIGURES = tuple(each.name for each in fields(ChainStatus) if each.type is int)
"""The names of a status' numbers."""


class Gradient(NamedTuple):
    """A worker's message: minibatch number ``count`` evaluated at the point of this version."""

    worker: int
    count: int  # type: ignore[assignment]  # not tuple.count
    version: int
    values: Array


class Server:
    """One chain and its workers.

    Args:
        chain: the chain to advance.
        admission: the staleness bound and its policy.
        steps: L, the number of accepted updates after which the server is done.
        record: called with every accepted update.
        status: kept up to date for displays.
        past: what happened to the chain before, where a run goes on that had stopped.
    """

    def __init__(
        self,
        chain: Chain,
        admission: Admission,
        steps: int,
        record: Record,
        status: ChainStatus | None = None,
        past: Past | None = None,
    ) -> None:
        self.chain = chain
        self.admission = admission
        self.steps = steps
        self.status = status or ChainStatus()
        self.refusals: list[str] = []
        self._record = record
        self._trace = self.status.rows = TraceBuilder(whole=past is None or not past.rows)

    @property
    def record(self) -> Record:
        """What is called with every accepted update."""
        return self._record

    @property
    def compiles(self) -> bool:
        """Whether compiled code can stand in for :meth:`receive`, and tell of it with :meth:`went_on`."""
        return chain_compiles(self.chain, self._record)

    def went_on(self, rows: ChainTrace, flying: list[Assignment]) -> None:
        """Compiled code has dealt with gradients, with these rows of the trace; who computes what now, oldest first."""
        accepted = np.asarray(rows.accepted, bool)
        used = rows.staleness[accepted]
        self.admission.went_on(len(used), flying)
        self.chain.advanced(len(used))
        self._record.filled(self.chain.version)
        self._trace.extend(rows)
        self.status.accepted += len(used)
        self.status.dropped += len(rows) - len(used)
        self.status.staleness_sum += int(used.sum())
        self.status.staleness_max = max(self.status.staleness_max, int(used.max(initial=0)))

    @property
    def needs_all(self) -> bool:
        """Whether each worker has data, or a part of the chain's state, that no other worker can take over."""
        return self.chain.needs_all

    @property
    def done(self) -> bool:
        """Whether all steps are made; from then on no work is handed out and late gradients are ignored."""
        return self.chain.version >= self.steps

    @property
    def trace(self) -> ChainTrace:
        """What has happened to the chain since its past, without the rows that have been taken."""
        return self._trace.build()

    @property
    def waiting(self) -> int:
        """How many rows of the trace have not been taken."""
        return len(self._trace)

    def take_rows(self) -> ChainTrace:
        """The rows of the trace that have come since the last time; from now on they are the caller's."""
        return self._trace.take()

    def join(self, worker: int) -> list[Assignment]:
        """A worker is ready. Send each assignment's worker its :meth:`point`."""
        self.admission.join(worker)
        return self._release()

    def point(self, worker: int) -> Array:
        """What a worker is sent now."""
        return self.chain.as_sent(self.chain.point_for(worker, self.chain.point), self.chain.version)

    def leave(self, *workers: int) -> list[Assignment]:
        """Workers are gone. Others that were held for their sake may now get work."""
        for worker in workers:
            self.admission.leave(worker)
        return self._release()

    def receive(
        self, gradient: Gradient, time: float = 0.0, seconds: float = nan, *, more: bool = False
    ) -> list[Assignment]:
        """A gradient has come: check it, update the chain or drop it, and say who gets the new point.

        ``time`` is the engine's, in seconds since the start, and ``seconds`` is how long the worker has computed; both
        are only written down. If ``more`` gradients have come with it, no worker gets a point before the last of them.
        """
        if self.done:
            return []
        worker, count, version, values = gradient
        try:
            self.admission.expect(worker, count, version)
        except Refusal as refusal:
            self._refuse(str(refusal))
            return []
        try:
            refuse_bad_gradient(values, self.chain.position)
        except GradientError as error:
            self._refuse(f"worker {worker}, minibatch {count}: {error}")
            self.admission.abandon(worker)
            return [] if more else self._release()
        staleness, accepted = self.admission.land(worker)
        h = self.chain.apply(values, worker, self._record) if accepted else nan
        self._trace.append(worker, count, staleness, accepted, h, time, 0, seconds)
        self.status.count(staleness, accepted)
        return [] if more else self._release()

    def _refuse(self, reason: str) -> None:
        self.refusals.append(reason)
        self.status.refused += 1

    def _release(self) -> list[Assignment]:
        return [] if self.done else self.admission.release()
