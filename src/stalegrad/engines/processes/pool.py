"""What a run of the processes engine holds: the host process, the memory that all share, and who reads the reports."""

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from stalegrad.engines.base import Job
from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.engines.link import Arrival, Failure, Ready
from stalegrad.engines.model_transport import store_model
from stalegrad.engines.module_path import SAFE_PYTHON, module_path
from stalegrad.engines.processes.reports import MESSAGE
from stalegrad.engines.processes.shared import Slots, WakeUp, anonymous_file

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",  # also torch's
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)

_RUN_HOST = "from stalegrad.engines.processes.host import main; main()"


class Pool:
    """The host process, the shared memory, and the thread that reads what the host reports.

    Whatever it takes is given back when it is left, or when it cannot be made: nothing waits for the garbage collector.
    """

    def __init__(
        self, job: Job, threads: int, slow: Mapping[int, float], hostile: HostileNetwork | None = None
    ) -> None:
        self.lost: str | None = None
        """Why no worker can be reached any more, once that is so."""
        with contextlib.ExitStack() as taken:
            settings = {
                "fork_safe": job.potential.fork_safe,
                "seed": job.settings.seed,
                "workers": job.settings.workers,
                "slow": {str(worker): seconds for worker, seconds in slow.items()},
                "hostile": None if hostile is None else hostile.as_table(),
            }
            self._take(job, threads, settings, taken)
            self._taken = taken.pop_all()

    def _take(self, job: Job, threads: int, settings: dict[str, Any], taken: contextlib.ExitStack) -> None:
        size, dtype = job.potential.size, job.potential.dtype
        servers, workers = range(job.settings.servers), range(job.settings.workers)

        def file(nbytes: int) -> int:
            descriptor = anonymous_file(nbytes)
            taken.callback(os.close, descriptor)
            return descriptor

        def wake_up() -> WakeUp:
            made = WakeUp.make()
            taken.callback(made.close)
            return made

        def slots(descriptor: int) -> Slots:
            made = Slots(descriptor, len(workers), size, dtype)
            taken.callback(made.close)
            return made

        model = _share_model(job, file)
        memory = [file(Slots.bytes(len(workers), size, dtype)) for _ in servers]
        self.slots = [slots(descriptor) for descriptor in memory]
        self.server_wake_ups = [wake_up() for _ in servers]
        self.wake_ups = [[wake_up() for _ in workers] for _ in servers]
        self.arrivals: list[SimpleQueue[Arrival]] = [SimpleQueue() for _ in servers]
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        taken.enter_context(self.socket)
        settings |= {
            "socket": theirs.fileno(),
            "model": model,
            "slots": memory,
            "server_wake_ups": [(each.read, each.write) for each in self.server_wake_ups],
            "wake_ups": [[(each.read, each.write) for each in row] for row in self.wake_ups],
        }
        wake_ups = [*self.server_wake_ups, *(each for row in self.wake_ups for each in row)]
        descriptors = [descriptor for each in wake_ups for descriptor in each.descriptors]
        with theirs:
            self._host = subprocess.Popen(
                [*SAFE_PYTHON, "-c", _RUN_HOST, json.dumps(settings)],
                pass_fds=(*(part for part, _ in model), *memory, *descriptors, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                env=_environment(threads),
            )
        taken.callback(self._end_host)
        self._reader = threading.Thread(target=self._read_reports, name="stalegrad-process-host", daemon=True)
        self._reader.start()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exception: object) -> None:
        """End the host and with it all workers; free the memory."""
        self._taken.close()

    def order(self, order: str, server: int, worker: int, incarnation: int) -> None:
        """Send the host the order to start or kill a worker."""
        message = {"order": order, "server": server, "worker": worker, "incarnation": incarnation}
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            self.socket.send(json.dumps(message).encode())

    def _read_reports(self) -> None:
        """Turn what the host reports into arrivals at the servers, until it is gone, and with it all workers."""
        lost = "the process that starts the workers has ended; see above for what it printed"
        try:
            while message := self._next_report():
                self._hand_on(message)
        except Exception as error:  # without this thread no server would learn what becomes of its workers
            lost = f"what the process that starts the workers has reported cannot be read: {error!r}"
        self.lost = lost
        for each in self.server_wake_ups:
            each.signal()

    def _hand_on(self, message: dict[str, Any]) -> None:
        kind, worker, incarnation = message["kind"], message["worker"], message["incarnation"]
        server = message["server"]
        if kind == "ready":
            self.arrivals[server].put(Ready(worker, incarnation))
        elif kind != "forked":
            self.arrivals[server].put(Failure(worker, incarnation, kind, message["details"]))
        self.server_wake_ups[server].signal()

    def _next_report(self) -> dict[str, Any]:
        try:
            text = self.socket.recv(MESSAGE)
        except OSError:
            return {}
        return json.loads(text) if text else {}

    def _end_host(self) -> None:
        """Shut the socket down, at which the host ends, and the thread that reads its reports."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        try:
            self._host.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._host.kill()
            self._host.wait()
        if self._reader.is_alive():
            self._reader.join()


def _share_model(job: Job, file: Callable[[int], int]) -> list[tuple[int, int]]:
    """The model in files that other processes can map: their descriptors and sizes."""
    body, arrays = store_model(job.potential)
    parts = []
    for part in (memoryview(body), *arrays):
        descriptor = file(part.nbytes)
        with open(descriptor, "wb", closefd=False) as opened:
            opened.write(part)
        parts.append((descriptor, part.nbytes))
    return parts


def _environment(threads: int) -> dict[str, str]:
    """The host's environment: this one's, with a bound on the threads of numerical libraries.

    XLA has flags for it, which are not for us: they choose other code, so that products of matrices have other last
    bits in workers than in a replay. What it takes for the number of processors changes its threads alone.
    """
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "NPROC": str(threads),
        # A worker waits for every gradient: handing it to another thread of JAX's first takes half the time of a call.
        "JAX_CPU_ENABLE_ASYNC_DISPATCH": os.environ.get("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false"),
        "PYTHONPATH": module_path(),  # the same modules as here
    }
