"""One chain whose workers update it themselves: their threads, and what Python does for them.

Workers of compiled models are compiled loops (:mod:`stalegrad.engines.threads.compiled_worker`), in which no code of a
user's runs, so that none can hang. Those of other models come back to Python for their gradients alone
(:mod:`stalegrad.engines.threads.python_worker`), and all that goes wrong there is seen to as in a server loop. Python
also sees to what is rare, with the workers' lock in hand: a new segment, rows of the trace and draws for whoever waits
for them, and checkpoints; faults are seen to by :mod:`stalegrad.engines.threads.worker_faults`.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stalegrad._internal.errors import NotFinite
from stalegrad._internal.jit import is_compiled
from stalegrad._internal.types import Array
from stalegrad.engines.base import Checkpoint, Job, Timing, keep_up
from stalegrad.engines.clock import CLOCK
from stalegrad.engines.lifecycle import FaultPolicy, Replace
from stalegrad.engines.segment import ACCEPTED, STALENESS, Segment, next_segment, trace_rows
from stalegrad.engines.threads.compiled_worker import CompiledModel, work
from stalegrad.engines.threads.flights import Bound
from stalegrad.engines.threads.landing import (
    BAD_GRADIENT,
    COMPUTE,
    NEW_SEGMENT,
    NONE,
    USED_UP,
    land_and_wait,
)  # fmt: skip
from stalegrad.engines.threads.python_worker import compute_in_python
from stalegrad.engines.threads.shared import (
    COMPUTING,
    COUNT,
    ENTRY,
    ROW,
    SEGMENT,
    UPDATING,
    VERSION,
    Shared,
    locked,
    stop,
    wake,
)  # fmt: skip
from stalegrad.engines.threads.worker_faults import WorkerFaults
from stalegrad.protocol.admission import Refusal
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.trace_builder import TraceBuilder
from stalegrad.protocol.turn import CompiledChain, chain_compiles, compiles
from stalegrad.protocol.worker import Worker

WORTH_COMPILING = 100_000
"""So many updates of a chain are worth compiling a loop for the model and kernel at hand, which takes some seconds."""
WORTH_LOADING = 10_000
"""So many are worth loading one from disk that was compiled before."""
WORTH_COMPILING_FOR_PYTHON, WORTH_LOADING_FOR_PYTHON = 20_000, 1_000
"""The same where gradients are computed in Python: what is compiled is the update alone, and every one gains more."""
_POLL = 0.2  # seconds between looks at the stop flag, at checkpoints, at deadlines and for displays
_LEAVING = 1.0  # seconds that threads in Python have to come to their end; they are daemons and hold nothing up


class CompiledServer:
    """Runs one chain and its workers, which update it themselves, until all updates are made or the run stops.

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
        self.index, self.timing = index, Timing()
        self.chain, self._record, self._potential = chain, record, job.potential
        self._steps, self._workers, self._seed = settings.steps, settings.workers, settings.seed
        self._status, self._slow, self._stop, self._clock = job.status[index], slow, stop, clock
        self._checkpoint: Checkpoint | None = job.checkpoint(index) if job.checkpoint else None
        self._trace = self._status.rows = TraceBuilder(whole=past is None or not past.rows)
        waits = settings.policy == "wait"
        largest = -1 if settings.max_staleness is None else settings.max_staleness
        self._bound = Bound(largest, waits, job.potential.epoch)
        self._shared = Shared.of(settings.workers, chain.position, past, version=chain.version, held=waits)
        self._in_python = not compiles(job.potential, chain, record)
        restart = self._start if self._in_python else None
        self._faults = WorkerFaults(job, index, chain, self._shared, self._bound, policy, _POLL, clock, restart)
        self.events = self._faults.events
        self._compiled_model = None if self._in_python else CompiledModel.of(job.potential)
        self._compiled_chain = CompiledChain.of(chain)
        self._begun = time.clock_gettime_ns(CLOCK) - round(clock() * 1e9)
        self._gradients = [np.empty_like(chain.position) for _ in range(settings.workers)]
        self._threads: list[threading.Thread] = []
        self._segment: Segment
        self._taken = 0  # rows of the segment that are in the trace
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._begin_segment(0)

    @classmethod
    def if_worthwhile(cls, job: Job, index: int, chain: Chain, record: Record, *others: Any) -> "CompiledServer | None":
        """The server, if Python is needed for gradients at most, and if it is worth compiling or loading a loop."""
        updates = job.settings.steps - chain.version
        in_python = job.potential.bound is None or job.potential.addressed
        compiling, loading = (
            (WORTH_COMPILING_FOR_PYTHON, WORTH_LOADING_FOR_PYTHON) if in_python else (WORTH_COMPILING, WORTH_LOADING)
        )
        if updates < min(compiling, loading) or not chain_compiles(chain, record):
            return None
        server = cls(job, index, chain, record, *others)
        return server if updates >= compiling or is_compiled(*server._loop()) else None

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
        workers = self._faults.begin(begun)
        self._shared.open()
        try:
            if self._compile():
                for worker in workers:
                    self._start(worker, 0)
                while not self._stop.is_set() and not self._ended.wait(_POLL):
                    try:
                        with locked(self._shared):
                            self._settle()
                            self._faults.check_deadlines()
                    finally:
                        self._faults.log_events()
        except BaseException as failure:
            self._fail(failure)
        finally:
            self._end()
            now = self._clock()
            self._account(now, now - begun)
            if not isinstance(self._failure, NotFinite):  # its last checkpoint is better than what has become of it
                keep_up(self._checkpoint, self, self.events, last=True)
        if self._failure is not None:
            raise self._failure

    def _compile(self) -> bool:
        """Have the loop compiled, in a thread that can be left behind; whether the run is still to go on then."""
        compiled, failures = threading.Event(), list[BaseException]()
        loop, arguments = self._loop()

        def compile_loop() -> None:
            try:
                loop.compile(tuple(loop.typeof_pyval(argument) for argument in arguments))
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

    def _start(self, worker: int, incarnation: int) -> None:
        """Start a thread for a worker, or for its replacement."""
        if self._in_python:
            target, gradient = self._work_in_python, np.empty_like(self.chain.position)
        else:
            target, gradient = self._work, self._gradients[worker]
            self._faults.ready(worker, incarnation)
        name, arguments = f"stalegrad-worker-{self.index}-{worker}", (worker, incarnation, gradient)
        thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, worker: int, incarnation: int, gradient: Array) -> None:
        """What the thread of a worker of a compiled model does."""
        slow = round(self._slow.get(worker, 0.0) * 1e9)
        try:
            going_on, computing = True, NONE
            while going_on:
                segment = self._segment
                arguments = self._arguments(worker, incarnation, gradient, segment)
                what = work(self._compiled_model, *arguments, computing, time.clock_gettime_ns(CLOCK), slow)
                computing = NONE
                if what == NEW_SEGMENT:
                    going_on, computing = self._next_segment(segment), 0
                elif what == BAD_GRADIENT:
                    decision = self._faults.refuse(worker, incarnation, *self._faults.of_compiled(worker, gradient))
                    going_on = isinstance(decision, Replace)
                    if isinstance(decision, Replace):
                        incarnation = decision.incarnation
                elif what == USED_UP:
                    raise Refusal(f"worker {worker} has used up its minibatches")
                else:
                    going_on = False
        except BaseException as failure:
            self._fail(failure)

    def _work_in_python(self, worker: int, incarnation: int, gradient: Array) -> None:
        """What the thread of a worker does whose gradient is computed in Python; one that fails is not used again."""
        try:
            compute_in_python(
                lambda: Worker(self._potential, self._seed, self.chain.chain, worker),
                self._shared.points[worker, : gradient.shape[1]].reshape(gradient.shape),
                gradient,
                self._slow.get(worker, 0.0),
                _Turns(self, worker, incarnation, gradient),
            )
        except BaseException as failure:
            self._fail(failure)

    def _loop(self) -> tuple[Any, tuple[Any, ...]]:
        """The compiled function that workers call, and arguments of its types."""
        arguments = (*self._arguments(0, 0, self._gradients[0], self._segment), 0, 0)
        return (land_and_wait, arguments) if self._in_python else (work, (self._compiled_model, *arguments, 0))

    def _arguments(self, worker: int, incarnation: int, gradient: Array, segment: Segment) -> tuple[Any, ...]:
        """Those of :func:`land_and_wait` up to the gradient."""
        return (
            self._compiled_chain, segment, self._shared, self._bound, worker, incarnation, self._begun, gradient
        )  # fmt: skip

    def _next_segment(self, over: Segment) -> bool:
        """A worker has come to the end of a segment: settle it, unless another has; whether there is more to do."""
        with locked(self._shared):
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

    def _end(self) -> None:
        """Wait for the threads, which end after the gradient that they compute, and take stock.

        A gradient in Python may take for ever: its thread is left behind, and finds nothing to do when it comes back.
        """
        self._finish()
        deadline = time.perf_counter() + _LEAVING
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.perf_counter()) if self._in_python else None)
        with locked(self._shared):
            self._shared.close()
            self._settle()

    def _account(self, now: float, wall: float) -> None:
        """Where the seconds went."""
        timing = self.timing
        timing.wall = wall
        timing.gradients = float(self._shared.of_worker(COMPUTING).sum()) * 1e-9
        timing.updates = float(self._shared.of_worker(UPDATING).sum()) * 1e-9
        timing.waiting = self._faults.present_seconds(now) - timing.gradients
        timing.count += sum(event.kind == "refused" for event in self.events)


class _Turns:
    """How the thread of a worker in Python takes part in a :class:`CompiledServer`: see ``python_worker.py``."""

    def __init__(self, server: CompiledServer, worker: int, incarnation: int, gradient: Array) -> None:
        self._server, self._worker, self._incarnation, self._gradient = server, worker, incarnation, gradient
        self._count = server._shared.of_worker(COUNT)[worker : worker + 1]

    def ready(self) -> None:
        """Say that the worker has been made and can take a minibatch."""
        server = self._server
        with locked(server._shared):
            server._faults.ready(self._worker, self._incarnation)

    def next(self, computing: int) -> int | None:
        """Land the gradient that took so many nanoseconds, and wait: the next minibatch, None if there is none."""
        server, finished = self._server, time.clock_gettime_ns(CLOCK)
        while True:
            segment = server._segment
            arguments = server._arguments(self._worker, self._incarnation, self._gradient, segment)
            what = land_and_wait(*arguments, computing, finished)
            if what == COMPUTE:
                return int(self._count[0])
            if what == NEW_SEGMENT:
                if not server._next_segment(segment):
                    return None
                computing = 0
                continue
            if what == BAD_GRADIENT:
                details = server._faults.unusable(self._worker, self._gradient)
                assert details is not None, "refused in compiled code alone"
                self._refuse("refused", details)
            elif what == USED_UP:
                raise Refusal(f"worker {self._worker} has used up its minibatches")
            return None

    def fail(self, details: str) -> None:
        """The worker, or its gradient, has raised this traceback."""
        self._refuse("raised", details)

    def _refuse(self, kind: str, details: str) -> None:
        self._server._faults.refuse(self._worker, self._incarnation, kind, details)
