"""Jobs of ``mpiexec`` for the tests of the MPI engine: started, watched, ended or killed, and nothing left of them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2] / "src"
MPIEXEC = Path(sys.executable).parent / "mpiexec"
COMMAND_LINE = "from stalegrad.cli import main; main()"
LIMIT = 230.0  # seconds, on a machine that does other things as well; ranks end themselves after 240


class Ranks:
    """A job.

    Args:
        ranks: how many.
        case: what they do, a function of ``mpi_rank.py``; or the arguments of ``stalegrad``, in a list.
        folder: of the test.
        prefix: a command that is to start the job.
        hosts: options that say where the ranks are.
        environment: more of it.
    """

    def __init__(self, ranks, case, folder, prefix=(), hosts=("-localhost", "127.0.0.1"), **environment):
        script = ["-m", "mpi4py", str(HERE / "mpi_rank.py"), case, str(folder)]
        if isinstance(case, list):
            script = ["-c", COMMAND_LINE, *map(str, case)]
        self.process = subprocess.Popen(
            [*prefix, str(MPIEXEC), *hosts, "-n", str(ranks), sys.executable, *script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            cwd=folder, env=os.environ | {"PYTHONPATH": str(SOURCE), "STALEGRAD_TEST": str(folder)} | environment,
        )  # fmt: skip
        self._folder, self._pids, self._memory = str(folder), set(), set()

    def watch(self):
        """Note its processes, and what MPICH has in shared memory for them and leaves there when they are killed."""
        now = descendants(self.process.pid)
        self._pids.update(now)
        for pid in now:
            with contextlib.suppress(OSError):
                self._memory.update(re.findall(r"/dev/shm/mpich_shm_\w+", Path(f"/proc/{pid}/maps").read_text()))

    def end(self, as_facts=True):
        """Wait for its end; the exit status, what it told (facts, one a line, or any text) and its standard error."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                out, err = self.process.communicate(timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                self.watch()
                if time.monotonic() > deadline:
                    pytest.fail(f"the job did not end in {LIMIT:.0f} s: {self.kill()}")
        self._sweep()
        return self.process.returncode, facts(out) if as_facts else out, err

    def kill(self):
        """kill -9 of mpiexec and all below it, if there is anything left; what was said."""
        self.watch()
        self._kill()
        said = self.process.communicate()
        self._sweep()
        return said

    def until(self, there, what):
        """Wait for something that the job is to do."""
        deadline = time.monotonic() + LIMIT
        while not there():
            self.watch()
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{what} did not come: {self.kill()}")
            time.sleep(0.05)

    def _kill(self):
        for pid in self._alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _sweep(self):
        """Remove what MPICH has left in shared memory; nobody must be left who could use it."""
        deadline = time.monotonic() + 5.0
        while self._alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        left = self._alive()
        self._kill()
        for path in self._memory:
            Path(path).unlink(missing_ok=True)
        assert not left, f"the job has ended without its processes {left}"

    def _alive(self):
        return [pid for pid in self._pids if is_of(pid, self._folder)]


def facts(out):
    """The JSON objects at the beginnings of lines; those of two ranks may share a line."""
    found = []
    for line in out.splitlines():
        while line.startswith("{"):
            fact, end = json.JSONDecoder().raw_decode(line)
            found.append(fact)
            line = line[end:]
    return found


def is_of(pid, folder):
    """Whether a process belongs to a test and is not about to vanish: numbers of processes are used again."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"STALEGRAD_TEST={folder}".encode() in variables


def descendants(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in descendants(int(child)))]


def mpi(ranks, case, folder, **environment):
    """A job, from its start to its end."""
    return Ranks(ranks, case, folder, **environment).end()
