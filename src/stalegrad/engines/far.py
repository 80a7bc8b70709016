"""A server in another process than the run's, and what the run knows of it.

There, :class:`FarServer` advances the chain. From time to time it makes a :class:`Cut`: the sampler's state, and all
rows of the trace and all draws since the cut before, taken between two updates so that they belong together. Here,
:class:`Follower` asks for cuts, one after the other, and puts what is in them where it belongs: draws to the recorder,
faults to the log, the chain to its checkpoints. If the server is lost, the follower has all that another one needs to
go on from the last cut; what the lost one did after that is forgotten, and nothing else.

A cut is kept until the follower has said that it has it, so an answer that gets lost on the way loses nothing.
"""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from stalegrad.admission import Admission, Policy
from stalegrad.chain import Chain
from stalegrad.collector import DrawBlock, DrawCollector
from stalegrad.engines.base import Event, Job, Timing
from stalegrad.engines.conductor import total
from stalegrad.engines.desk import Desk, Point
from stalegrad.engines.service import Care, Service, monotonic_clock
from stalegrad.errors import StalegradError
from stalegrad.noise import MAX_WORKERS
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.server import ChainStatus, Server
from stalegrad.trace import ChainTrace, TraceBuilder
from stalegrad.types import Array

_EVERY = 1.0  # seconds between cuts, at least
_SHARE = 10.0  # cuts take at most one part in so many of the time
_LARGE = 32 << 20  # bytes of draws that make a cut due at once
_AHEAD = 3  # cuts that may wait to be fetched before the sampling waits, too

log = logging.getLogger("stalegrad")


@dataclass(frozen=True)
class Task:
    """All that a far server needs to begin, or to go on.

    Args:
        index: which server of the run it is.
        chain: where it is now.
        past: its trace until now.
        collector: keeps its draws.
        steps: L.
        workers: W.
        max_staleness, policy: the staleness bound.
        care: what to do about workers that fail.
        silence: seconds without a sign of life after which a worker counts as dead.
        elapsed: seconds since the run's start.
        batches: which data its workers draw.
        epoch: of the model, see :class:`~stalegrad.admission.Admission`.
    """

    index: int
    chain: Chain
    past: ChainTrace
    collector: DrawCollector
    steps: int
    workers: int
    max_staleness: int | None
    policy: Policy
    care: Care
    silence: float
    elapsed: float
    batches: Minibatches
    epoch: int = 1

    @property
    def most_lanes(self) -> int:
        """How many minibatches at a time a worker may have: with more than τ + 1 under way the bound would be met.

        A worker with a shard of the data, or a point, to itself has one: each lane would need one of its own.
        """
        if self.batches.sharded or self.chain.own_points:
            return 1
        under_way = MAX_WORKERS if self.max_staleness is None else self.max_staleness + 1
        return max(1, under_way // self.workers)


class Cut(NamedTuple):
    """A chain as it is between two updates: its state, and what has come since the cut before."""

    number: int
    version: int
    state: dict[str, Array]
    rows: ChainTrace
    draws: DrawBlock
    events: tuple[Event, ...]


class Report(NamedTuple):
    """What a far server answers when it is asked how it is doing.

    Args:
        status: how far the chain is.
        absent: workers that were hired and have not been heard of yet.
        timing: where its seconds went.
        cut: the oldest one that the asker does not have yet.
        ended: whether this is the last report: there will be no other cut.
        failure: why it ended before its time.
    """

    status: ChainStatus
    absent: int
    timing: Timing
    cut: Cut | None
    ended: bool
    failure: Exception | None


class Cuts:
    """Makes cuts and keeps them until they are known elsewhere: the service's :class:`Checkpoint`."""

    def __init__(self, collector: DrawCollector, rows: int) -> None:
        self._collector = collector
        self._rows, self._events, self._number = rows, 0, 0
        self._kept: list[Cut] = []
        self._changed = threading.Condition()
        self._made, self._pause = time.monotonic(), _EVERY

    def due(self) -> bool:
        """Whether it is time, or whether there is a lot to carry."""
        late = not self._kept and time.monotonic() - self._made >= self._pause
        return late or self._collector.bytes >= _LARGE

    def save(self, chain: Chain, rows: Callable[[int], ChainTrace], events: Sequence[Event]) -> None:
        """Cut here."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._kept) < _AHEAD)
            new, told = rows(self._rows), tuple(events[self._events :])
            draws = self._collector.take()
            self._kept.append(Cut(self._number, chain.version, chain.snapshot(), new, draws, told))
            self._number += 1
            self._rows += len(new)
            self._events += len(told)
            self._made = time.monotonic()

    def after(self, number: int) -> Cut | None:
        """Forget the cuts up to this number, which the asker has, and give the next one."""
        with self._changed:
            if self._kept and self._kept[0].number <= number:
                self._kept = [cut for cut in self._kept if cut.number > number]
                self._pause = max(_EVERY, _SHARE * (time.monotonic() - self._made))
                self._changed.notify_all()
            return self._kept[0] if self._kept else None


class FarServer:
    """A server at work, in whatever process this is.

    Args:
        task: what it is to do.
        hire, dismiss: start and end workers, see :class:`Desk`.
        pack: makes of a point what is sent of it.
    """

    def __init__(
        self,
        task: Task,
        hire: Callable[[int, int], None],
        dismiss: Callable[[int], None],
        pack: Callable[[Point], Any] = lambda point: point.values,
    ) -> None:
        admission = Admission(task.max_staleness, task.policy, task.past, task.epoch)
        self._status = ChainStatus.after(task.past)
        record, batches = task.collector.record, task.batches
        server = Server(task.chain, admission, task.steps, record, self._status, task.past, batches)
        self.desk = Desk(
            task.workers, hire, dismiss, silence=task.silence, held=min(5.0, task.silence / 4),
            most_lanes=task.most_lanes, pack=pack,
        )  # fmt: skip
        self._cuts = Cuts(task.collector, len(task.past))
        self._stop = threading.Event()
        clock = monotonic_clock(task.elapsed)
        self._service = Service(
            task.index, server, self.desk, task.workers, task.care, self._stop, clock, self._cuts
        )  # fmt: skip
        self._ended = False
        self._failure: Exception | None = None

    def run(self) -> None:
        """Serve to the end. Nothing is raised: failures are reported."""
        try:
            self._service.run()
        except StalegradError as failure:
            self._failure = failure
        except BaseException:
            self._failure = RuntimeError(f"a server failed:\n{traceback.format_exc()}")
        finally:
            self._ended = True

    def report(self, known: int) -> Report:
        """How it is doing, to somebody who has all cuts up to this number."""
        ended = self._ended  # first: a cut that is made meanwhile is not the last one's
        cut = self._cuts.after(known)
        last = ended and cut is None
        return Report(
            replace(self._status), self.desk.absent, replace(self._service.timing), cut, last,
            self._failure if last else None,
        )  # fmt: skip

    def stop(self) -> None:
        """End early, with a last cut."""
        self._stop.set()


class Follower:
    """What the run knows of one chain whose server is elsewhere.

    Args:
        job: the run's.
        index: which server it is.
        care: what the server is to do about workers that fail.
        silence: seconds without a sign of life after which it gives up a worker.
        clock: seconds since the run's start.
    """

    def __init__(self, job: Job, index: int, care: Care, silence: float, clock: Callable[[], float]) -> None:
        if job.recording is None:
            raise TypeError("this engine's servers are elsewhere: the job must say where draws are recorded")
        self.index, self.chain = index, job.chain(index)
        self.events: list[Event] = []
        self.failure: Exception | None = None
        self.ended = False
        self.known = -1  # number of the last cut of the present server
        self._job, self._care, self._silence, self._clock = job, care, silence, clock
        self._recording = job.recording
        self._trace = TraceBuilder(job.past_of(index))
        self._checkpoint = job.checkpoint(index) if job.checkpoint else None
        self._timing = Timing()
        self._before: list[Timing] = []  # of servers that were lost

    @property
    def trace(self) -> ChainTrace:
        """The chain's trace up to the last cut."""
        return self._trace.build()

    @property
    def timing(self) -> Timing:
        """Where the seconds of the chain's servers went, one after the other."""
        together = total([*self._before, self._timing])
        return replace(together, wall=sum(timing.wall for timing in (*self._before, self._timing)))

    def task(self) -> Task:
        """What a new server is to do: all that is left."""
        job = self._job
        return Task(
            self.index, self.chain, self.trace, self._recording.collector(), job.steps, job.workers, job.max_staleness,
            job.policy, self._care, self._silence, self._clock(), job.potential.minibatches,
            job.potential.epoch,
        )  # fmt: skip

    def hear(self, report: Report) -> bool:
        """Put everything where it belongs; whether the chain has come further."""
        cut = report.cut
        further = False
        if cut is not None and cut.number == self.known + 1:
            further = cut.version > self.chain.version
            self.known = cut.number
            self.chain.restore(cut.version, cut.state)
            self._trace.extend(cut.rows)
            self._recording.collect(self.index, cut.draws)
            for event in cut.events:
                self._note(event)
            if self._checkpoint is not None and self._checkpoint.due():
                self._checkpoint.save(self.chain, self._trace.rows, self.events)
        self._job.status[self.index].follow(report.status)
        self._timing = report.timing
        self.ended, self.failure = report.ended, report.failure
        return further

    def lost(self, details: str) -> None:
        """The server is gone. Another one can go on from the last cut."""
        self._note(Event(self._clock(), self.index, None, "died", details))
        self.known = -1
        self._before.append(self._timing)
        self._timing = Timing()

    def close(self) -> None:
        """The last checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.save(self.chain, self._trace.rows, self.events)

    def _note(self, event: Event) -> None:
        self.events.append(event)
        log.warning("%s", event)
