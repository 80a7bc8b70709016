"""The processes that a soak has started, and theirs: found, reaped and ended, by number."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from .watch import descendants, is_alive, state

_CHILD_SUBREAPER = 36


class Children:
    """All that this process starts, directly or not: what loses its parent becomes a child of this process."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, so that Ctrl-C reaches none but this one."""
        with log.open("ab") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True
            )
        self._started.append(process)
        return process

    def alive(self) -> list[int]:
        """All that is there, after those that have ended are reaped."""
        self._started = [process for process in self._started if process.poll() is None]
        own = {process.pid for process in self._started}
        for pid in descendants(os.getpid()):
            if pid not in own and state(pid) == "Z":
                with contextlib.suppress(ChildProcessError):  # its parent is another
                    os.waitpid(pid, os.WNOHANG)
        return [pid for pid in descendants(os.getpid()) if is_alive(pid)]

    def signal(self, pids: Iterable[int], number: signal.Signals) -> None:
        """Send a signal to those that are still ours: numbers of processes are used again."""
        ours = set(self.alive())
        for pid in pids:
            if pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def wait_for_end(self, pids: Iterable[int], seconds: float) -> list[int]:
        """Wait until processes have ended; those that have not."""
        wanted, deadline = set(pids), time.monotonic() + seconds
        while (left := [pid for pid in self.alive() if pid in wanted]) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def end(self, pids: Iterable[int] | None = None) -> None:
        """Kill processes, or all there are, and wait until they are gone."""
        for _ in range(100):
            if not (left := [pid for pid in self.alive() if pids is None or pid in set(pids)]):
                return
            self.signal(left, signal.SIGKILL)
            time.sleep(0.05)


def command_line(pid: int) -> str:
    """What a process was started as, for reports."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:160].strip()
    except OSError:
        return "?"


def mapped(pids: Iterable[int]) -> set[str]:
    """The names in /dev/shm that processes have mapped."""
    found: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.update(re.findall(r"/dev/shm/([\w.-]+)", Path(f"/proc/{pid}/maps").read_text()))
    return found
