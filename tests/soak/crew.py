"""The processes of one engine's turn: those that sample, and what they need beside them, such as a Ray cluster."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from .children import Children
from .watch import descendants, is_alive

MPIEXEC = str(Path(sys.executable).parent / "mpiexec")
RANKS = 4
LIMIT = 900.0  # seconds: what has not come by then does not come; ten processes beside it, and code to compile first
ROOT = Path(__file__).resolve().parents[2]
PATIENT = {"RAY_raylet_start_wait_time_s": "300", "RAY_gcs_server_request_timeout_seconds": "300"}
"""A node of Ray has half a minute to start unless it is told otherwise, which a busy machine may not have."""


class Broken(AssertionError):
    """A promise was not kept."""


def wait_until(there: Callable[[], Any], what: str, seconds: float = LIMIT) -> Any:
    """Wait for a condition, and return what made it true; :class:`Broken` if it does not come."""
    deadline = time.monotonic() + seconds
    while not (found := there()):
        if time.monotonic() > deadline:
            raise Broken(f"{what} did not come within {seconds:.0f} s")
        time.sleep(0.03)
    return found


class Subject:
    """A process that samples by order, see :mod:`tests.soak.subject`; on MPI a job.

    Args:
        engine: its name.
        home: a folder of its own.
        children: who starts it.
        environment: its environment.
    """

    def __init__(self, engine: str, home: Path, children: Children, environment: dict[str, str]) -> None:
        home.mkdir(parents=True)
        self.engine, self.home, self.log = engine, home, home / "log"
        self._children, self._environment = children, environment
        self._numbers = count()
        ranks = RANKS if engine == "mpi" else 1
        self.process = self._start([], ranks)
        names = [home / f"pid-{rank}" for rank in range(ranks)]
        wait_until(lambda: self._ended() or all(name.exists() for name in names), f"the start of {engine}")
        self._refuse_end("starts")
        wait_until(lambda: all(name.read_text() for name in names), "their numbers")
        self.pids = [int(name.read_text()) for name in names]

    @property
    def pid(self) -> int:
        """The process that leads."""
        return self.pids[0]

    def order(self, **facts: Any) -> int:
        """Have it do something; the order's number."""
        number = next(self._numbers)
        partial = self.home / ".order"
        partial.write_text(json.dumps(facts))
        partial.rename(self.home / f"order-{number}.json")
        return number

    def answer(self, number: int) -> dict[str, Any] | None:
        """The answer to an order, if it is there; :class:`Broken` if there will be none."""
        file = self.home / f"answer-{number}.json"
        if not file.exists():
            self._refuse_end("samples")
            return None
        answer: dict[str, Any] = json.loads(file.read_text())
        return answer

    def join(self, number: int) -> subprocess.Popen[bytes]:
        """Start an elastic worker that joins the run of an order."""
        environment = {"STALEGRAD_JOIN": str(self.home / "ports")}
        return self._start([str(number)], 1, environment)

    def processes(self) -> list[int]:
        """All of it that lives."""
        return [pid for pid in (self.process.pid, *descendants(self.process.pid)) if is_alive(pid)]

    def end(self) -> list[int]:
        """Order it to end; what has not ended after a while."""
        there = self.processes()
        if not self._ended():
            self.order(do="end")
        return self._children.wait_for_end(there, 60.0)

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def _refuse_end(self, while_it: str) -> None:
        if self._ended():
            raise Broken(f"the process that {while_it} has ended by itself, with status {self.process.returncode}")

    def _start(self, arguments: list[str], ranks: int, more: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        program = ["-m", "tests.soak.subject", self.engine, str(self.home), *arguments]
        if self.engine in ("mpi", "elastic"):
            launch = [MPIEXEC, "-localhost", "127.0.0.1", "-n", str(ranks), sys.executable, "-m", "mpi4py", *program]
        else:
            launch = [sys.executable, *program]
        return self._children.start(launch, self.log, self._environment | (more or {}))


class Crew:
    """What makes the runs of one engine, for one turn.

    Args:
        engine: its name in the plan.
        folder: of the turn.
        children: who starts processes.
        environment: for them, beyond this process's own.
    """

    def __init__(self, engine: str, folder: Path, children: Children, environment: dict[str, str]) -> None:
        self.engine, self._folder, self._children = engine, folder, children
        self._numbers = count()
        self.joined: list[subprocess.Popen[bytes]] = []
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._environment = {**os.environ, "PYTHONPATH": path, "SOAK_PID": str(os.getpid()), **environment}
        # One heap a process: the many that glibc has for threads fill one by one, which looks like growth for 20 runs.
        self._environment["MALLOC_ARENA_MAX"] = "1"
        for name in ("STALEGRAD_JOIN", "RAY_ADDRESS"):
            self._environment.pop(name, None)
        self.nodes: Nodes | None = None
        if engine == "ray":
            self.nodes = Nodes(folder / "r", children, self._environment)
            self._environment |= self.nodes.environment
        self.lasting = self.subject()

    def subject(self) -> Subject:
        """Another process that samples."""
        home = self._folder / f"{self.engine}-{next(self._numbers)}"
        return Subject(self.engine, home, self._children, self._environment)

    def logs(self) -> list[Path]:
        """What all of them have said."""
        return sorted(self._folder.glob("*/log"))

    def end(self) -> list[int]:
        """End all in the way that they are meant to end; those that have not."""
        left = self.lasting.end()
        left += self._children.wait_for_end([each.pid for each in self.joined], 30.0)
        if self.nodes is not None:
            left += self.nodes.end()
        return left


class Nodes:
    """A Ray cluster, see :mod:`tests.soak.ray_nodes`.

    Args:
        home: a folder with a short name: Ray's sockets are in it.
        children: who starts it.
        environment: for it.
    """

    def __init__(self, home: Path, children: Children, environment: dict[str, str]) -> None:
        home.mkdir()
        self._home, self._children = home, children
        (home / "token").write_text(secrets.token_hex(32))
        self.environment = {
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(home / "token"), "RAY_TMPDIR": str(home),
            "RAY_worker_niceness": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", **PATIENT,
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.soak.ray_nodes", str(home)]
        self.process = children.start(command, home / "log", environment | self.environment)
        there = home / "address"
        wait_until(lambda: self.process.poll() is not None or (there.exists() and there.read_text()), "a Ray cluster")
        if self.process.poll() is not None:
            raise Broken(f"no Ray cluster has come up, see {home / 'log'}")
        self.environment["RAY_ADDRESS"] = (home / "address").read_text()
        self.more = 0

    def change(self, order: str) -> None:
        """Add or remove a node."""
        (self._home / order).touch()
        wait_until(lambda: self.process.poll() is not None or not (self._home / order).exists(), f"{order} of a node")
        if self.process.poll() is not None:
            raise Broken(f"the Ray cluster has ended at the order to {order} a node, see {self._home / 'log'}")
        self.more += 1 if order == "add" else -1

    def end(self) -> list[int]:
        """End the cluster; what has not ended."""
        there = [self.process.pid, *descendants(self.process.pid)]
        (self._home / "end").touch()
        return self._children.wait_for_end(there, 60.0)


def server_processes(log: Path, beginning: int) -> list[int]:
    """The processes on Ray that have served chains, as a run has told since a place in its log."""
    with log.open(errors="replace") as file:
        file.seek(beginning)
        return [int(pid) for pid in re.findall(r"the server of chain \d+ is process (\d+)", file.read())]


def leave(worker: subprocess.Popen[bytes]) -> None:
    """Have an elastic worker go, as whoever needs its machine would."""
    worker.send_signal(signal.SIGTERM)
