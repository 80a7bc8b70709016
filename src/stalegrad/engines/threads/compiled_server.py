"""One chain whose workers update it themselves: their threads, and what Python does for them.

The workers are compiled loops (:mod:`stalegrad.engines.threads.compiled_worker`). Python sees to what is rare, with
their lock in hand: a new segment, rows of the trace and draws for whoever waits for them, checkpoints, and faults. No
code of a user's runs in such a worker, so that none can hang, and none is waited for with patience.
"""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.jit import is_compiled
from stalegrad.engines.base import Checkpoint, Event, Job, Timing, keep_up
from stalegrad.engines.lifecycle import Abandon, FaultPolicy, Lifecycle, Replace
from stalegrad.engines.server_loop import WorkersLost
from stalegrad.engines.threads.compiled_worker import (
    BAD_GRADIENT,
    CLOCK,
    NEW_SEGMENT,
    USED_UP,
    CompiledChain,
    CompiledModel,
    work,
)  # fmt: skip
from stalegrad.engines.threads.flights import Bound, join, leave
from stalegrad.engines.threads.segment import ACCEPTED, STALENESS, Segment, next_segment, trace_rows
from stalegrad.engines.threads.shared import (
    COMPUTING,
    COUNT,
    ENTRY,
    LANDED,
    ROW,
    SEGMENT,
    UPDATING,
    VERSION,
    Shared,
    lock,
    stop,
    unlock,
    wake,
)  # fmt: skip
from stalegrad.protocol.admission import Refusal
from stalegrad.protocol.chain import Chain, Record, refuse_bad_gradient
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.trace_builder import TraceBuilder
from stalegrad.protocol.turn import compiles

WORTH_COMPILING = 100_000
"""So many updates of a chain are worth compiling a loop for the model and kernel at hand, which takes some seconds."""
WORTH_LOADING = 10_000
"""So many are worth loading one from disk that was compiled before."""
_POLL = 0.2  # seconds between looks at the stop flag, at checkpoints and for displays

log = logging.getLogger("stalegrad")


class CompiledServer:
    """Runs one chain and its compiled workers until all updates are made or the run stops.

    Args:
        job: what is to be run.
        index: which server of the run this is.
        chain: the chain, of a kind that compiled loops can advance.
        record: keeps its draws.
        policy: what to do about workers that fail.
        slow: extra seconds per gradient of some workers.
        stop: set from outside to end early.
        clock: seconds since the run's start.
    """

    def __init__(
        self,
        job: Job,
        index: int,
        chain: Chain,
        record: Record,
        policy: FaultPolicy,
        slow: Mapping[int, float],
        stop: threading.Event,
        clock: Callable[[], float],
    ) -> None:
        settings, past = job.settings, job.past_of(index)
        self.index, self.events, self.timing = index, list[Event](), Timing()
        self.chain, self._record, self._potential = chain, record, job.potential
        self._steps, self._workers, self._seed = settings.steps, settings.workers, settings.seed
        self._status, self._slow, self._stop, self._clock = job.status[index], slow, stop, clock
        self._checkpoint: Checkpoint | None = job.checkpoint(index) if job.checkpoint else None
        self._lifecycle = Lifecycle(settings.workers, policy, index)
        self._trace = self._status.rows = TraceBuilder(whole=past is None or not past.rows)
        self._status.faults = self.events
        waits = settings.policy == "wait"
        self._bound = Bound(-1 if settings.max_staleness is None else settings.max_staleness, waits)
        self._shared = Shared.of(settings.workers, chain.position, past, version=chain.version, held=waits)
        self._compiled_model, self._compiled_chain = CompiledModel.of(job.potential), CompiledChain.of(chain)
        self._begun = time.clock_gettime_ns(CLOCK) - round(clock() * 1e9)
        self._gradients = [np.empty_like(chain.position) for _ in range(settings.workers)]
        self._segment: Segment
        self._taken = 0  # rows of the segment that are in the trace
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._begin_segment(0)

    @classmethod
    def if_worthwhile(cls, job: Job, index: int, chain: Chain, record: Record, *others: Any) -> "CompiledServer | None":
        """The server, if compiled loops can do without Python here, and if it is worth compiling or loading one."""
        updates = job.settings.steps - chain.version
        if updates < min(WORTH_COMPILING, WORTH_LOADING) or not compiles(job.potential, chain, record):
            return None
        server = cls(job, index, chain, record, *others)
        return server if updates >= WORTH_COMPILING or is_compiled(work, server._arguments(0)) else None

    @property
    def trace(self) -> ChainTrace:
        """What has happened to the chain, without the rows that have been taken."""
        return self._trace.build()

    @property
    def waiting(self) -> int:
        """How many rows of the trace have not been taken."""
        return len(self._trace)

    def take_rows(self) -> ChainTrace:
        """The rows of the trace that have come since the last time; from now on they are the caller's."""
        return self._trace.take()

    def run(self) -> None:
        """Start the workers and see to what they leave to Python, until the last update is made."""
        begun = self._clock()
        threads = [
            threading.Thread(target=self._work, args=(w,), name=f"stalegrad-worker-{self.index}-{w}", daemon=True)
            for w in self._lifecycle.begin(begun)
        ]
        self._shared.open()
        try:
            if self._compile():
                for worker, thread in enumerate(threads):
                    self._lifecycle.ready(worker, self._clock())
                    thread.start()
                while not self._stop.is_set() and not self._ended.wait(_POLL):
                    with self._locked():
                        self._settle()
        finally:
            self._end(threads)
            now = self._clock()
            self._account(now, now - begun)
            keep_up(self._checkpoint, self, self.events, last=True)
        if self._failure is not None:
            raise self._failure

    def _compile(self) -> bool:
        """Have the loop compiled, in a thread that can be left behind; whether the run is still to go on then."""
        compiled, failures = threading.Event(), list[BaseException]()

        def compile_loop() -> None:
            try:
                work.compile(tuple(work.typeof_pyval(argument) for argument in self._arguments(0)))
            except BaseException as failure:
                failures.append(failure)
            compiled.set()

        threading.Thread(target=compile_loop, name=f"stalegrad-compiler-{self.index}", daemon=True).start()
        while not compiled.wait(_POLL):
            if self._stop.is_set():
                return False
        if failures:
            raise failures[0]
        return True

    def _work(self, worker: int) -> None:
        """What the thread of a worker does."""
        try:
            going_on = True
            while going_on:
                segment = self._segment
                what = work(*self._arguments(worker, segment))
                if what == NEW_SEGMENT:
                    going_on = self._next_segment(segment)
                elif what == BAD_GRADIENT:
                    going_on = self._replace(worker)
                elif what == USED_UP:
                    raise Refusal(f"worker {worker} has used up its minibatches")
                else:
                    going_on = False
        except BaseException as failure:
            self._fail(failure)

    def _arguments(self, worker: int, segment: Segment | None = None) -> tuple[Any, ...]:
        """Those of :func:`work`."""
        slow = round(self._slow.get(worker, 0.0) * 1e9)
        return (
            self._compiled_model, self._compiled_chain, segment or self._segment, self._shared, self._bound, worker,
            slow, self._begun, self._gradients[worker],
        )  # fmt: skip

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Between two updates."""
        lock(self._shared.words)
        try:
            yield
        finally:
            unlock(self._shared.words)

    def _next_segment(self, over: Segment) -> bool:
        """A worker has come to the end of a segment: settle it, unless another has; whether there is more to do."""
        with self._locked():
            if self._segment is over:
                self._settle(over=True)
            return self.chain.version < self._steps

    def _settle(self, over: bool = False) -> None:
        """Take stock of what was made since the last time, and save it if that is due. The caller has the lock.

        The recorder may write to a disk, and wait for it: all workers then wait.
        """
        words, segment = self._shared.words, self._segment
        version, row = int(words[VERSION]), int(words[ROW])
        new = segment.rows[self._taken : row]
        used = new[new[:, ACCEPTED] != 0, STALENESS]
        first = self.chain.version - segment.first
        self._trace.extend(trace_rows(new, self._step_sizes[first : version - segment.first]))
        self._taken = row
        self.timing.count += len(new)
        self.chain.advanced(version - self.chain.version)
        self._record.filled(version)
        self._status.accepted = version
        self._status.dropped += len(new) - len(used)
        self._status.staleness_sum += int(used.sum())
        self._status.staleness_max = max(self._status.staleness_max, int(used.max(initial=0)))
        saving = self._checkpoint is not None and self._checkpoint.due()
        keep_up(self._checkpoint, self, self.events)
        if version == self._steps:
            self._finish()
        elif over or saving:  # what is saved may take the arrays of draws with it
            self._begin_segment(segment.number + 1)

    def _begin_segment(self, number: int) -> None:
        self._segment, self._step_sizes = next_segment(self.chain, self._record, number, self._steps)
        words = self._shared.words
        words[SEGMENT], words[ROW], words[ENTRY] = number, 0, self._segment.window.entry
        self._taken = 0

    def _replace(self, worker: int) -> bool:
        """A worker's gradient could not be used: report it, and let the worker go on if it may; whether it may."""
        count = int(self._shared.of_worker(COUNT)[worker])
        kind, details = self._fault(worker, count)
        with self._locked():
            if self._shared.of_worker(LANDED)[worker]:
                self._lifecycle.usable(worker)
            decision = self._lifecycle.failed(worker, kind, details, self._clock())
            event = Event(self._clock(), self.index, worker, kind, details)
            self.events.append(event)
            self._status.refused += kind == "refused"
            leave(self._shared, self._bound, worker, self.chain.point)
            if isinstance(decision, Replace):
                self._lifecycle.ready(worker, self._clock())
                join(self._shared, self._bound, worker, self.chain.point)
        log.warning("%s", event)
        if isinstance(decision, Abandon):
            raise WorkersLost(decision.reason)
        return isinstance(decision, Replace)

    def _fault(self, worker: int, count: int) -> tuple[str, str]:
        """What is wrong with a gradient that compiled code has refused: its kind and details of it."""
        gradient = self._gradients[worker]
        point = self._shared.points[worker, : gradient.shape[1]][None].copy()
        try:
            indices = self._potential.minibatches.draw(self._seed, self.chain.chain, worker, count)
            self._potential.gradients(point, indices[None], gradient)
        except Exception:
            return "raised", traceback.format_exc()
        try:
            refuse_bad_gradient(gradient, self.chain.position)
        except GradientError as error:
            return "refused", f"worker {worker}, minibatch {count}: {error}"
        raise AssertionError(f"worker {worker}, minibatch {count}: refused in compiled code alone")

    def _fail(self, failure: BaseException) -> None:
        if self._failure is None:
            self._failure = failure
        self._finish()

    def _finish(self) -> None:
        """Have all workers return."""
        stop(self._shared.words)
        for worker in range(len(self._shared.pipes)):
            wake(self._shared, worker)
        self._ended.set()

    def _end(self, threads: list[threading.Thread]) -> None:
        """Wait for the threads, which end after the gradient that they compute, and take stock."""
        self._finish()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        self._shared.close()
        self._settle()

    def _account(self, now: float, wall: float) -> None:
        """Where the seconds went."""
        timing = self.timing
        timing.wall = wall
        timing.gradients = float(self._shared.of_worker(COMPUTING).sum()) * 1e-9
        timing.updates = float(self._shared.of_worker(UPDATING).sum()) * 1e-9
        timing.waiting = self._lifecycle.present_seconds(now) - timing.gradients
        timing.count += len(self.events)
