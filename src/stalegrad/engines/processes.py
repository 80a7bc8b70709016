"""The processes engine: workers are processes of their own, points and gradients lie in memory that all share.

The model is sent once, with cloudpickle; its arrays are shared by all workers. Workers are woken through an eventfd and
sleep otherwise. What happens in a worker process (crash, kill -9, hang) does not touch the run.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np

from stalegrad.admission import Assignment
from stalegrad.checks import by_worker, whole_number
from stalegrad.engines.base import Job, Outcome
from stalegrad.engines.conductor import conduct
from stalegrad.engines.process_host import MESSAGE, store_model
from stalegrad.engines.service import Arrival, Care, Delivery, Failure, Ready, WorkersLost
from stalegrad.engines.shared import Bell, Slots, anonymous_file
from stalegrad.engines.waiting import Nap
from stalegrad.server import Gradient
from stalegrad.types import Array

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",  # also torch's
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)

_RUN_HOST = "from stalegrad.engines.process_host import main; main()"


@dataclass(frozen=True)
class Processes:
    """Real asynchrony on all cores of a machine.

    Args:
        patience: seconds after which a worker that does not answer counts as hung and is killed; None waits for ever.
            A worker that starts imports, compiles and tries its model first; it has a minute for that.
        restarts: how often in a row a worker may fail before it is given up.
        threads: how many threads BLAS, OpenMP, torch and XLA may use in each worker. A model of ``from_torch`` has a
            number of its own, since bits depend on it.
        shards: threads among which each server splits its updates, for models of many parameters: the same bits,
            sooner, as long as there are cores for them.
        slow: extra seconds per gradient of some workers, by number, to study stragglers.
    """

    patience: float | None = None
    restarts: int = 3
    threads: int = 1
    shards: int = 1
    slow: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Care(self.patience, self.restarts)
        whole_number("threads", self.threads, least=1)
        whole_number("shards", self.shards, least=1)
        by_worker("slow", self.slow)

    def run(self, job: Job) -> Outcome:
        """Run the job."""
        care = Care(self.patience, self.restarts)
        with Pool(job, self.threads, self.slow) as pool:
            return conduct(job, lambda server: ProcessLink(pool, server), care)


class Pool:
    """The host process, the shared memory, and the thread that hears what the host reports."""

    def __init__(self, job: Job, threads: int, slow: Mapping[int, float]) -> None:
        self.job = job
        self.lost = False
        size, dtype = job.potential.size, job.potential.dtype
        self._files: list[int] = []
        try:
            model = self._share_model(job)
            memory = [self._file(Slots.bytes(job.workers, size, dtype)) for _ in range(job.servers)]
            self.slots = [Slots(descriptor, job.workers, size, dtype) for descriptor in memory]
            self.server_bells = [Bell.make() for _ in range(job.servers)]
            self.bells = [[Bell.make() for _ in range(job.workers)] for _ in range(job.servers)]
            self.arrivals: list[SimpleQueue[Arrival]] = [SimpleQueue() for _ in range(job.servers)]
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except BaseException:
            self._free()
            raise
        settings = {
            "socket": theirs.fileno(),
            "model": model,
            "fork_safe": job.potential.fork_safe,
            "seed": job.seed,
            "workers": job.workers,
            "slots": memory,
            "server_bells": [(bell.read, bell.write) for bell in self.server_bells],
            "bells": [[(bell.read, bell.write) for bell in row] for row in self.bells],
            "slow": {str(worker): seconds for worker, seconds in slow.items()},
        }
        every_bell = [*self.server_bells, *(bell for row in self.bells for bell in row)]
        descriptors = [d for bell in every_bell for d in bell.descriptors]
        self._host = subprocess.Popen(
            [sys.executable, "-c", _RUN_HOST, json.dumps(settings)],
            pass_fds=(*self._files, *descriptors, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            env=_environment(threads),
        )
        theirs.close()
        self._listener = threading.Thread(target=self._listen, name="stalegrad-process-host", daemon=True)
        self._listener.start()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exception: object) -> None:
        """End the host and with it all workers; free the memory."""
        self.socket.shutdown(socket.SHUT_RDWR)
        try:
            self._host.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._host.kill()
            self._host.wait()
        self._listener.join(timeout=5)
        self.socket.close()
        self._free()

    def order(self, order: str, server: int, worker: int, incarnation: int) -> None:
        """Tell the host to start or kill a worker."""
        message = {"order": order, "server": server, "worker": worker, "incarnation": incarnation}
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            self.socket.send(json.dumps(message).encode())

    def _listen(self) -> None:
        """Turn what the host reports into arrivals at the servers."""
        while message := self._hear():
            kind, worker, incarnation = message["kind"], message["worker"], message["incarnation"]
            server = message["server"]
            if kind == "ready":
                self.arrivals[server].put(Ready(worker, incarnation))
            elif kind != "forked":
                self.arrivals[server].put(Failure(worker, incarnation, kind, message["details"]))
            self.server_bells[server].ring()
        self.lost = True  # the host is gone, and with it all workers
        for bell in self.server_bells:
            bell.ring()

    def _hear(self) -> dict[str, Any]:
        try:
            text = self.socket.recv(MESSAGE)
        except OSError:
            return {}
        return json.loads(text) if text else {}

    def _share_model(self, job: Job) -> list[tuple[int, int]]:
        body, arrays = store_model(job.potential)
        parts = []
        for part in (memoryview(body), *arrays):
            descriptor = self._file(part.nbytes)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(part)
            parts.append((descriptor, part.nbytes))
        return parts

    def _file(self, size: int) -> int:
        descriptor = anonymous_file(size)
        self._files.append(descriptor)
        return descriptor

    def _free(self) -> None:
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()
        for bell in [*getattr(self, "server_bells", ()), *(b for row in getattr(self, "bells", ()) for b in row)]:
            bell.close()


class ProcessLink:
    """One server's side of the shared memory."""

    def __init__(self, pool: Pool, server: int) -> None:
        self._pool, self._server = pool, server
        self._slots, self._bell = pool.slots[server], pool.server_bells[server]
        self._bells, self._arrivals = pool.bells[server], pool.arrivals[server]
        self._headers = self._slots.headers
        self._incarnation: dict[int, int] = {}
        self._nap = Nap(self._anything, self._bell.wait_for)
        self._delivered: list[Delivery] = []  # found in one look at the slots, latest first

    def start(self, worker: int, incarnation: int) -> None:
        """Have the host fork a worker."""
        self._headers[worker][Slots.STATE] = Slots.IDLE
        self._incarnation[worker] = incarnation
        self._pool.order("start", self._server, worker, incarnation)

    def send(self, assignment: Assignment, point: Array) -> None:
        """Copy the point into the worker's slot and wake it."""
        worker = assignment.worker
        np.copyto(self._slots.points[worker], point)
        header = self._headers[worker]
        header[Slots.INCARNATION] = self._incarnation[worker]
        header[Slots.COUNT] = assignment.count
        header[Slots.VERSION] = assignment.version
        header[Slots.STATE] = Slots.WORK
        self._bells[worker].ring()

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker, or for news from the host."""
        while True:
            if not self._arrivals.empty():  # first, or busy workers would keep a new one waiting
                return self._arrivals.get()
            if self._delivered or self._collect():
                return self._delivered.pop()
            if self._pool.lost:
                raise WorkersLost("the process that starts the workers has ended; see above for what it printed")
            if not self._nap.wait(timeout):
                return None

    def discard(self, worker: int) -> None:
        """Kill the worker if it is still there."""
        if (incarnation := self._incarnation.pop(worker, None)) is not None:
            self._headers[worker][Slots.STATE] = Slots.IDLE
            self._delivered = [d for d in self._delivered if d.worker != worker]
            self._pool.order("kill", self._server, worker, incarnation)

    def close(self) -> None:
        """Let all workers end; the pool ends those that do not."""
        for header, bell in zip(self._headers, self._bells, strict=True):
            header[Slots.STATE] = Slots.STOP
            bell.ring()

    def _anything(self) -> bool:
        return not self._arrivals.empty() or self._collect()

    def _collect(self) -> bool:
        """Find the slots with finished gradients, in the order in which they were finished; whether there are any."""
        state, done = Slots.STATE, Slots.DONE
        finished = [w for w, header in enumerate(self._headers) if header[state] == done]
        if len(finished) > 1:
            finished.sort(key=lambda w: -self._headers[w][Slots.FINISHED])
        for worker in finished:
            header = self._headers[worker]
            header[state] = Slots.IDLE
            gradient = Gradient(worker, header[Slots.COUNT], header[Slots.VERSION], self._slots.gradients[worker])
            seconds = header[Slots.NANOSECONDS] * 1e-9
            self._delivered.append(Delivery(worker, header[Slots.INCARNATION], seconds, gradient))
        return bool(finished)


def _environment(threads: int) -> dict[str, str]:
    """The host's environment: this one's, with a bound on the threads of numerical libraries."""
    xla = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {xla}".strip(),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),  # the same modules as here
    }
