"""A server in another process than the run's, and what the run knows of it.

There, :class:`RemoteServer` advances the chain. From time to time it takes a :class:`Snapshot`: the sampler's state,
and all rows of the trace and all draws since the snapshot before, taken between two updates so that they belong
together.
Here, :class:`Follower` asks for snapshots, one after the other, and puts what is in them where it belongs: draws to the
recorder, faults to the log, the chain to its checkpoints. If the server is lost, the follower has all that another one
needs to go on from the last snapshot; what the lost one did after that is discarded, and nothing else.

A snapshot is kept until the follower has said that it has it, so an answer that gets lost on the way loses nothing.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stalegrad._internal.errors import StalegradError
from stalegrad.engines.base import Event, Job, Timing, keep_up
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.local_servers import ChainResult, total
from stalegrad.engines.ray.call_link import CallLink, Point
from stalegrad.engines.ray.lanes import LaneServer
from stalegrad.engines.reports import Report, Snapshot
from stalegrad.engines.server_loop import ServerLoop, monotonic_clock
from stalegrad.engines.task import ServerTask
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace, joined
from stalegrad.protocol.collector import DrawCollector
from stalegrad.protocol.past import Past
from stalegrad.protocol.server import ChainStatus
from stalegrad.protocol.trace_builder import TraceBuilder

_EVERY = 1.0  # seconds between snapshots, at least
_SHARE = 10.0  # snapshots take at most one part in so many of the time
_LARGE = 32 << 20  # bytes of draws that make a snapshot due at once
_AHEAD = 3  # snapshots that may wait to be fetched before the sampling waits, too
_CALL_HELD = 5.0  # seconds after which a call is answered even if there is no work, at most

log = logging.getLogger("stalegrad")


@dataclass(frozen=True)
class RemoteTask:
    """All that a remote server needs to begin, or to go on.

    Args:
        server: its chain and its settings.
        collector: keeps its draws.
        policy: what to do about workers that fail.
        elapsed: seconds since the run's start.
    """

    server: ServerTask
    collector: DrawCollector
    policy: FaultPolicy
    elapsed: float

    @property
    def most_lanes(self) -> int:
        """How many minibatches at a time a worker may have: with more than τ + 1 under way the bound would be met.

        A worker with a shard of the data, or a point, to itself has one: each lane would need one of its own.
        """
        server = self.server
        if server.chain.needs_all or server.chain.per_worker_points:
            return 1
        bound = server.settings.max_staleness
        under_way = MAX_WORKERS if bound is None else bound + 1
        return max(1, under_way // server.settings.workers)


class Snapshots:
    """Takes snapshots and keeps them until they are known elsewhere: the server loop's :class:`Checkpoint`."""

    most_rows = sys.maxsize  # snapshots are frequent

    def __init__(self, collector: DrawCollector) -> None:
        self._collector = collector
        self._rows: list[ChainTrace] = []
        self._events, self._number = 0, 0
        self._kept: list[Snapshot] = []
        self._changed = threading.Condition()
        self._taken, self._pause = time.monotonic(), _EVERY

    def due(self) -> bool:
        """Whether it is time, or whether there is a lot to carry."""
        late = not self._kept and time.monotonic() - self._taken >= self._pause
        return late or self._collector.bytes >= _LARGE

    def add(self, rows: ChainTrace) -> None:
        """Take over rows of the trace for the next snapshot."""
        self._rows.append(rows)

    def save(self, chain: Chain, events: Sequence[Event]) -> None:
        """Take a snapshot of the chain as it is now."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._kept) < _AHEAD)
            new, new_events = joined(self._rows), tuple(events[self._events :])
            self._rows = []
            draws = self._collector.take()
            self._kept.append(Snapshot(self._number, chain.version, chain.snapshot(), new, draws, new_events))
            self._number += 1
            self._events += len(new_events)
            self._taken = time.monotonic()

    def after(self, number: int) -> Snapshot | None:
        """Forget the snapshots up to this number, which the asker has, and give the next one."""
        with self._changed:
            if self._kept and self._kept[0].number <= number:
                self._kept = [snapshot for snapshot in self._kept if snapshot.number > number]
                self._pause = max(_EVERY, _SHARE * (time.monotonic() - self._taken))
                self._changed.notify_all()
            return self._kept[0] if self._kept else None


class RemoteServer:
    """A server at work, in whatever process this is.

    Args:
        task: what it is to do.
        start_worker, end_worker: start and end workers, see :class:`CallLink`.
        pack: makes of a point what is sent of it.
    """

    def __init__(
        self,
        task: RemoteTask,
        start_worker: Callable[[int, int], None],
        end_worker: Callable[[int], None],
        pack: Callable[[Point], Any] = lambda point: point.values,
    ) -> None:
        asked, policy = task.server, task.policy
        past = asked.past
        self._status = ChainStatus() if past is None else ChainStatus.after(past)
        held = _CALL_HELD if policy.silence is None else min(_CALL_HELD, policy.silence / 4)
        self.link = CallLink(
            start_worker, end_worker, held=held, most_lanes=task.most_lanes, pack=pack, wire=asked.settings.wire
        )
        server = LaneServer(asked.server(task.collector, self._status), asked.settings.workers, self.link.lanes)
        self._snapshots = Snapshots(task.collector)
        self._stop = threading.Event()
        clock = monotonic_clock(task.elapsed)
        self._loop = ServerLoop(
            asked.index, server, self.link, asked.settings.workers, policy, self._stop, clock, self._snapshots
        )
        self._ended = False
        self._failure: Exception | None = None

    def run(self) -> None:
        """Serve to the end. Nothing is raised: failures are reported."""
        try:
            self._loop.run()
        except StalegradError as failure:
            self._failure = failure
        except BaseException:
            self._failure = RuntimeError(f"a server failed:\n{traceback.format_exc()}")
        finally:
            self._ended = True

    def report(self, known: int) -> Report:
        """How it is doing, for a follower that has all snapshots up to this number."""
        ended = self._ended  # first: a snapshot that is taken meanwhile is not the last one's
        snapshot = self._snapshots.after(known)
        last = ended and snapshot is None
        return Report(
            self._status.alone(), replace(self._loop.timing), snapshot, last, self._failure if last else None,
            self._loop.lifecycle.absent,
        )  # fmt: skip

    def stop(self) -> None:
        """End early, with a last snapshot."""
        self._stop.set()


class Follower:
    """What the run knows of one chain whose server is elsewhere.

    Args:
        job: the run's.
        index: which server it is.
        policy: what the server is to do about workers that fail.
        clock: seconds since the run's start.
    """

    def __init__(self, job: Job, index: int, policy: FaultPolicy, clock: Callable[[], float]) -> None:
        if job.recording is None:
            raise TypeError("this engine's servers are elsewhere: the job must say where draws are recorded")
        self.index, self.chain = index, job.chain(index)
        self.events: list[Event] = []
        self.failure: Exception | None = None
        self.ended = False
        self.known = -1  # number of the last snapshot of the present server
        self._job, self._policy, self._clock = job, policy, clock
        self._recording = job.recording
        self._past = job.past_of(index) or Past()
        self._trace = job.status[index].rows = TraceBuilder(whole=not self._past.rows)
        job.status[index].faults = self.events
        self._checkpoint = job.checkpoint(index) if job.checkpoint else None
        self._timing = Timing()
        self._before: list[Timing] = []  # of servers that were lost

    @property
    def trace(self) -> ChainTrace:
        """The chain's trace up to the last snapshot, without the rows that a checkpoint has taken over."""
        return self._trace.build()

    @property
    def waiting(self) -> int:
        """How many of its rows have not been taken."""
        return len(self._trace)

    def take_rows(self) -> ChainTrace:
        """Its rows since the last time; from now on they are the caller's."""
        return self._trace.take()

    @property
    def result(self) -> ChainResult:
        """What has become of the chain so far."""
        return ChainResult(self.trace, self.events, self.timing)

    @property
    def timing(self) -> Timing:
        """Where the seconds of the chain's servers went, one after the other."""
        together = total([*self._before, self._timing])
        return replace(together, wall=sum(timing.wall for timing in (*self._before, self._timing)))

    def task(self) -> RemoteTask:
        """What a new server is to do: all that is left."""
        server = ServerTask.of(self._job, self.index, self.chain, self._past)
        return RemoteTask(server, self._recording.collector(), self._policy, self._clock())

    def take(self, report: Report) -> bool:
        """Put everything of a report where it belongs; whether the chain has come further."""
        snapshot = report.snapshot
        further = False
        if snapshot is not None and snapshot.number == self.known + 1:
            further = snapshot.version > self.chain.version
            self.known = snapshot.number
            self.chain.restore(snapshot.version, snapshot.state)
            self._trace.extend(snapshot.rows)
            self._past = self._past.then(snapshot.rows)
            if snapshot.draws is not None:
                self._recording.collect(self.index, snapshot.draws)
            for event in snapshot.events:
                self._note(event)
            keep_up(self._checkpoint, self, self.events)
        self._job.status[self.index].follow(report.status)
        self._timing = report.timing
        self.ended, self.failure = report.ended, report.failure
        return further

    def lost(self, details: str) -> None:
        """Note that the server is gone. Another one can go on from the last snapshot."""
        self._note(Event(self._clock(), self.index, None, "died", details))
        self.known = -1
        self._before.append(self._timing)
        self._timing = Timing()

    def close(self) -> None:
        """Save the chain for the last time."""
        keep_up(self._checkpoint, self, self.events, last=True)

    def _note(self, event: Event) -> None:
        self.events.append(event)
        log.warning("%s", event)
