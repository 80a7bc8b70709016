"""The process that forks the workers of the processes engine.

The user's process may have run JAX or torch, after which forking it hangs; and starting a fresh Python for each worker
takes a second. So the engine starts this one process, which imports stalegrad, never computes, and forks a worker
on request. Workers load the model themselves: what the model imports is imported after the fork. Only a
model that says it is ``fork_safe`` is loaded and tried here, so that its workers start at once.

The host ends its workers and itself when the engine's process closes its end of the socket, however it came to that.
"""

import contextlib
import ctypes
import json
import mmap
import os
import pickle
import select
import signal
import socket
import sys
import traceback
from typing import Any

from stalegrad.engines.processes.freed_memory import keep_freed_memory
from stalegrad.engines.processes.hostile import HostileSlotWorker
from stalegrad.engines.processes.reports import MESSAGE, report
from stalegrad.engines.processes.slot_worker import SlotWorker
from stalegrad.engines.worker_loop import run_worker
from stalegrad.potentials.base import Potential
from stalegrad.protocol.worker import Worker


class WorkerHost:
    """Forks workers and reports their ends."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.socket = socket.socket(fileno=settings["socket"])
        self.workers: dict[int, tuple[int, int, int]] = {}  # pid: server, worker, incarnation
        self.potential = self._warm_model() if settings["fork_safe"] else None

    def run(self) -> None:
        """Fork and report until the engine closes its end of the socket."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal reaches all; the engine decides
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.register(wake, select.POLLIN)
        try:
            while True:
                ready = dict(poll.poll())
                if wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 4096)
                    self._reap()
                if self.socket.fileno() in ready:
                    message = self.socket.recv(MESSAGE)
                    if not message:
                        return
                    self._execute(json.loads(message))
        finally:
            for pid in self.workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _execute(self, order: dict[str, Any]) -> None:
        who = (order["server"], order["worker"], order["incarnation"])
        if order["order"] == "start":
            self._fork(*who)
        else:
            for pid, worker in self.workers.items():
                if worker == who:
                    os.kill(pid, signal.SIGKILL)

    def _fork(self, *who: int) -> None:
        pid = os.fork()
        if pid:
            self.workers[pid] = who  # type: ignore[assignment]
            report(self.socket, "forked", who, str(pid))
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _die_with_parent()
            keep_freed_memory()
            potential = self.potential
            if potential is None:
                potential = load_model(self.settings["model"])
                Worker(potential, self.settings["seed"], 0, who[1]).rehearse()  # with its own shard, if there are any
            slow = self.settings["slow"].get(str(who[1]), 0.0)
            kind = HostileSlotWorker if self.settings["hostile"] else SlotWorker
            run_worker(kind(potential, self.settings, self.socket, *who), slow)
            status = 0
        except BaseException:
            report(self.socket, "raised", who, traceback.format_exc())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _warm_model(self) -> Potential | None:
        """The model with its compiled code loaded. If that fails, each worker tries for itself and can report why."""
        try:
            potential = load_model(self.settings["model"])
            Worker(potential, self.settings["seed"], 0, 0).rehearse()
            return potential
        except Exception:
            return None

    def _reap(self) -> None:
        """Report workers that have ended."""
        while self.workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            details = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
            report(self.socket, "died", self.workers.pop(pid), details)


def load_model(parts: list[tuple[int, int]]) -> Potential:
    """The model from (descriptor, size) of its parts. Arrays are mapped privately: shared until written to."""
    body, *arrays = [mmap.mmap(fd, max(size, 1), access=mmap.ACCESS_COPY) for fd, size in parts]
    views = [memoryview(array)[:size] for array, (_, size) in zip(arrays, parts[1:], strict=True)]
    potential: Potential = pickle.loads(memoryview(body)[: parts[0][1]], buffers=views)
    return potential


def _die_with_parent() -> None:
    """On Linux the kernel ends a worker whose host is gone."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> None:
    """Fork workers as the engine's subprocess, with the settings of the command line."""
    WorkerHost(json.loads(sys.argv[1])).run()
