"""One session of a run, from its order to its end, and every fault that can be done to it meanwhile."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stalegrad._internal.errors import StoreError
from stalegrad.runs.store import inspect

from . import plan as p
from .children import Children, command_line, mapped
from .crew import Broken, Crew, Subject, leave, server_processes, wait_until
from .disk import Disk
from .watch import descendants, is_alive, parent

STEPS = 4000
GOES_ON = 20  # gradients after a fault that show that the run goes on
PLACES = 3  # of elastic workers
SHORT_ONLY = ("elastic", "ray")  # where a run that is stopped for longer than a heartbeat is a run that is lost


class Session:
    """A run until it ends, is killed, or its disk is full.

    Args:
        crew: the engine's processes.
        disk: where the store is.
        children: who ends processes.
        plan: of the run.
        faults: of this session.
        folder: of the run's model.
        store: of the run.
        rng: which process a fault hits.
    """

    def __init__(
        self, crew: Crew, disk: Disk, children: Children, plan: p.RunPlan, faults: tuple[p.Fault, ...], folder: Path,
        store: Path, rng: random.Random,
    ) -> None:  # fmt: skip
        self._crew, self._disk, self._children, self._plan, self._faults = crew, disk, children, plan, faults
        self._folder, self._store, self._rng = folder, store, rng
        self.injected: list[str] = []
        self.late: list[str] = []
        self.mapped: set[str] = set()  # names in /dev/shm of processes that were killed
        self.lost = 0  # draws that were committed and are gone
        self.subject: Subject = crew.lasting

    def run(self, *, resume: bool) -> dict[str, Any] | None:
        """Carry it out; the answer of the process that sampled, or None if it was killed."""
        kinds = {fault.kind for fault in self._faults}
        self.subject = self._crew.subject() if kinds & p.KILLING else self._crew.lasting
        self._said = self.subject.log.stat().st_size
        goes_on = p.DISK_RETRIES in {fault.kind for fault in self._plan.faults}
        self._number = self.subject.order(
            do="resume" if resume else "sample", plan=asdict(self._plan), store=str(self._store), steps=STEPS,
            folder=str(self._folder), on_store_error="continue" if goes_on else "stop",
        )  # fmt: skip
        if self._crew.engine == "elastic":
            wait_until(lambda: self._answer() or self._is_open(), "the server's port")
            self._join()
        self._await_progress("the start")
        for fault in self._faults:
            time.sleep(fault.pause)
            if self._answer() is not None:
                self.late.append(fault.kind)
                continue
            if self._inject(fault):
                self.injected.append(fault.kind)
                if fault.kind in p.KILLING:
                    return None
                if fault.kind == p.DISK_STOPS:
                    return self._await_answer("the end of a run whose disk is full")
            else:
                self.late.append(fault.kind)
            self._await_progress(f"a gradient after a fault ({fault.kind})")
        (self._folder / "hurry").touch()
        return self._await_answer("the end of the run")

    def _inject(self, fault: p.Fault) -> bool:
        """Do it; whether there was anything to do it to."""
        actions: dict[str, Callable[[p.Fault], bool]] = {
            p.RAISES: lambda _: self._request("raise"),
            p.NAN: lambda _: self._request("nan"),
            p.HANGS: lambda _: self._request("hang"),
            p.SLOWED: lambda _: self._request("slow"),
            p.KILLED: lambda _: self._kill_worker(),
            p.STOPPED: self._stop_worker,
            p.RUN_STOPPED: self._stop_run,
            p.SERVER_KILLED: lambda _: self._kill_job([self.subject.pid]),
            p.RANK_KILLED: lambda _: self._kill_job(self._workers()),
            p.DISK_STOPS: lambda _: self._fill_disk(),
            p.DISK_RETRIES: self._fill_and_free_disk,
            p.JOINS: lambda _: self._join(),
            p.LEAVES: lambda _: self._leave(),
            p.ACTOR_KILLED: lambda _: self._kill_server_on_ray(),
            p.NODE_JOINS: lambda _: self._change_nodes("add"),
            p.NODE_LEAVES: lambda _: self._change_nodes("remove"),
        }
        return actions[fault.kind](fault)

    # ------------------------------------------------------------------------------------------------ waiting

    def _answer(self) -> dict[str, Any] | None:
        return self.subject.answer(self._number)

    def _await_answer(self, what: str) -> dict[str, Any]:
        answer: dict[str, Any] = wait_until(self._answer, what)
        return answer

    def calls(self) -> int:
        """How many gradients were computed."""
        file = self._folder / "calls"
        return file.stat().st_size if file.exists() else 0

    def _await_progress(self, what: str) -> None:
        before = self.calls()

        def goes_on() -> bool:
            if self._crew.engine == "elastic" and not self._workers():
                self._join()
            return self.calls() >= before + GOES_ON or self._answer() is not None

        wait_until(goes_on, what)

    def _committed(self) -> list[int]:
        try:
            return inspect(self._store).draws
        except StoreError:  # it is not there yet
            return []

    # ------------------------------------------------------------------------------------------------ workers

    def _workers(self) -> list[int]:
        """The processes that compute for this run: neither its servers nor the host of its workers."""
        others = set(self.subject.pids[: self._plan.servers])
        told = {int(file.name) for file in (self._folder / "computing").iterdir()}
        if self._crew.engine == "processes":
            others |= {pid for pid in told if parent(pid) == self.subject.pid}
        return sorted(pid for pid in told - others if is_alive(pid))

    def _request(self, name: str) -> bool:
        file = self._folder / "requests" / name
        file.touch()
        wait_until(lambda: not file.exists() or self._answer(), f"a worker that takes the request {name}")
        taken = not file.exists()
        file.unlink(missing_ok=True)
        return taken

    def _kill_worker(self) -> bool:
        workers = self._workers()
        if workers:
            victim = self._rng.choice(workers)
            self.mapped |= mapped([victim])
            self._children.signal([victim], signal.SIGKILL)
        return bool(workers)

    def _stop_worker(self, fault: p.Fault) -> bool:
        workers = self._workers()
        if workers:
            victim = self._rng.choice(workers)
            self._pause([victim], fault.seconds)
        return bool(workers)

    def _stop_run(self, fault: p.Fault) -> bool:
        short = self._crew.engine in SHORT_ONLY
        self._pause(self.subject.processes(), p.SHORT if short else fault.seconds)
        return True

    def _pause(self, pids: list[int], seconds: float) -> None:
        try:
            self._children.signal(pids, signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            self._children.signal(pids, signal.SIGCONT)

    # ------------------------------------------------------------------------------------------------ servers

    def _kill_job(self, candidates: list[int]) -> bool:
        """kill -9 of a process without which the job cannot go on: all of it ends, and what was committed stays."""
        wait_until(lambda: self._answer() or min(self._committed(), default=0) > 0, "a commit")
        if not candidates or self._answer():
            return False
        job = set(self.subject.processes()) | set(self._workers() if self._crew.engine == "elastic" else ())
        self.mapped |= mapped(job)
        before = self._committed()
        self._children.signal([self._rng.choice(candidates)], signal.SIGKILL)
        left = self._children.wait_for_end(job, 60.0)
        after = self._committed()
        self.lost += sum(max(0, was - now) for was, now in zip(before, after, strict=True))
        if left:
            names = [command_line(pid) for pid in left]
            self._children.end(left)
            raise Broken(f"processes of a job whose server was killed go on: {names}")
        return True

    def _kill_server_on_ray(self) -> bool:
        servers = [pid for pid in server_processes(self.subject.log, self._said) if is_alive(pid)]
        if servers:
            self._children.signal([servers[-1]], signal.SIGKILL)
        return bool(servers)

    # --------------------------------------------------------------------------------------------------- disk

    def _fill_disk(self) -> bool:
        wait_until(lambda: self._answer() or min(self._committed(), default=0) > 0, "a commit")
        self._disk.fill()
        return True

    def _fill_and_free_disk(self, fault: p.Fault) -> bool:
        """Free it when nothing has been committed for a second; a little later, if the fault lasts."""
        self._fill_disk()
        try:
            latest, since = self._committed(), time.monotonic()
            while time.monotonic() - since < 1.0 and self._answer() is None:
                time.sleep(0.05)
                if (now := self._committed()) != latest:
                    latest, since = now, time.monotonic()
            time.sleep(fault.seconds / 5)
        finally:
            self._disk.free()
        return True

    # --------------------------------------------------------------------------------------- comings and goings

    def _is_open(self) -> bool:
        """Whether the server has told workers how to join."""
        return any((self.subject.home / "ports").glob("server-*.json"))

    def _join(self) -> bool:
        """Another elastic worker, if there is a place for it; its first gradient is waited for."""
        there = [each for each in self._crew.joined if each.poll() is None]
        if len(there) >= PLACES:
            return False
        worker, before = self.subject.join(self._number), set(self._workers())
        self._crew.joined = [*there, worker]
        wait_until(
            lambda: set(self._workers()) - before or worker.poll() is not None or self._answer(),
            "the worker that joins",
        )
        return worker.poll() is None

    def _leave(self) -> bool:
        there = [each for each in self._crew.joined if each.poll() is None]
        if there:
            worker = self._rng.choice(there)
            family = [worker.pid, *descendants(worker.pid)]
            self.mapped |= mapped(family)
            leave(worker)
            if left := self._children.wait_for_end(family, 30.0):
                raise Broken(f"a worker that was to leave is still there: {[command_line(pid) for pid in left]}")
        return bool(there)

    def _change_nodes(self, order: str) -> bool:
        nodes = self._crew.nodes
        assert nodes is not None
        if order == "add" and nodes.more >= 2:
            return False
        if order == "remove" and nodes.more == 0:
            nodes.change("add")
        nodes.change(order)
        return True
