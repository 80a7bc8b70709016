"""An engine's turn: run after run with the faults that are planned, in processes that are watched and then ended."""

import json
import random
import shutil
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from . import plan as p
from .children import Children, command_line, mapped
from .crew import Broken, Crew
from .disk import Disk
from .model import SoakModel
from .session import STEPS, Session
from .tally import Tally
from .watch import Usage, grows, growth, shared_memory

MPI_PREFIX = "mpich_shm_"


def broken_promises(answer: dict[str, Any], *, lost: int, full: bool) -> list[str]:
    """What is wrong with a session, in words.

    Args:
        answer: of the process that sampled.
        lost: draws that were committed before a kill and not after it.
        full: whether the disk was filled up, which the run was to stop for.
    """
    if full and answer["outcome"] == "failed" and "No space left" in answer["error"]:
        return []
    if answer["outcome"] != "complete":
        return [f"the run {answer['outcome']}: {answer['error']}"]
    wrong = {
        f"the store says that the run is {answer['state']}": answer["state"] != "finished",
        f"the chains have made {answer['updates']} updates and not {STEPS}": set(answer["updates"]) != {STEPS},
        f"{answer['twice']} gradients were applied twice": answer["twice"] > 0,
        f"{answer['lost'] + lost} draws are lost": answer["lost"] + lost > 0,
        "the replay has other bits": not answer["same"],
    }
    return [words for words, broken in wrong.items() if broken]


class Turn:
    """One engine, for a while.

    Args:
        engine: its name in the plan.
        number: of the turn.
        seed: of the plan.
        folder: for whatever the turn needs, empty; with a short name.
        evidence: where what broke is kept.
        children: who starts and ends processes.
        disk: for the stores.
        private: whether nobody else uses this /dev/shm.
        tally: of the engine.
    """

    def __init__(
        self, engine: str, number: int, seed: int, folder: Path, evidence: Path, children: Children, disk: Disk,
        private: bool, tally: Tally,
    ) -> None:  # fmt: skip
        self._engine, self._number, self._seed, self._tally = engine, number, seed, tally
        self._folder, self._evidence, self._children, self._disk = folder, evidence, children, disk
        self._private, self._mapped = private, set[str]()
        self._rng = random.Random(seed * 1000 + number)
        self._usages: list[Usage] = []
        self._crew: Crew | None = None

    def run(self, seconds: float, most: int | None = None) -> None:
        """Begin runs for so many seconds, or so many runs if that is less, and end everything, whatever happens."""
        began, memory = time.monotonic(), shared_memory()
        temporary = self._folder / "tmp"
        temporary.mkdir()
        try:
            self._crew = Crew(
                self._engine, self._folder, self._children, {"TMPDIR": str(temporary), **self._disk.environment}
            )
            for number, plan in enumerate(islice(p.runs(self._engine, self._seed, self._number), most)):
                if time.monotonic() - began > seconds:
                    break
                self._one_run(number, plan)
            self._end()
        except Broken as promise:
            self._report(str(promise), None, None)
        finally:
            self._kill_the_rest()
            self._disk.free()
            self._sweep(memory)
            self._tally.seconds += time.monotonic() - began
        if left := sorted(path.name for path in temporary.iterdir()):
            self._leave_behind(f"files in TMPDIR: {left}")

    def _one_run(self, number: int, plan: p.RunPlan) -> None:
        assert self._crew is not None
        name = f"{self._engine}-{self._number}-{number}"
        folder, store = self._folder / name, self._disk.path / name
        SoakModel.prepare(folder)
        tally, broken, done, session = self._tally, len(self._tally.broken), [], None
        try:
            for k, faults in enumerate(plan.sessions()):
                session = Session(self._crew, self._disk, self._children, plan, faults, folder, store, self._rng)
                try:
                    answer = session.run(resume=k > 0)
                finally:
                    done += session.injected
                    tally.injected.update(session.injected)
                    tally.late.update(session.late)
                    self._mapped |= session.mapped
                tally.resumed += k > 0
                tally.lost += session.lost
                if answer is not None:
                    self._take(answer, session, stopped=p.DISK_STOPS in session.injected)
                    if answer["outcome"] == "complete":
                        break
                self._disk.free()
        except Broken as promise:
            self._report(str(promise), plan, store)
            self._renew()
        tally.gradients += session.calls() if session else 0
        if len(tally.broken) == broken:
            tally.runs += 1
            tally.survived.update(done)
        self._disk.free()
        shutil.rmtree(store, ignore_errors=True)
        if left := [path.name for path in self._disk.path.iterdir()]:
            self._leave_behind(f"files beside the store: {left}")
            for path in self._disk.path.iterdir():
                shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)

    def _take(self, answer: dict[str, Any], session: Session, *, stopped: bool) -> None:
        """Note an answer; :class:`Broken` if it tells of a promise that was not kept."""
        assert self._crew is not None
        if session.subject is self._crew.lasting:
            self._usages.append(Usage(**answer["usage"]))
        if answer["outcome"] == "complete":
            self._tally.replays += 1
            self._tally.equal += answer["same"]
            self._tally.twice += answer["twice"]
            self._tally.lost += answer["lost"]
            self._tally.events.update(answer["events"])
        if wrong := broken_promises(answer, lost=session.lost, full=stopped):
            raise Broken("; ".join(wrong))

    def _end(self) -> None:
        """End the turn's processes as they are meant to end, and see what they have left."""
        assert self._crew is not None
        self._note_growth()
        if left := self._crew.end():
            self._leave_behind(f"processes that do not end: {[command_line(pid) for pid in left]}")
        self._children.wait_for_end(self._children.alive(), 10.0)
        if left := self._children.alive():
            self._leave_behind(f"processes without anybody: {[command_line(pid) for pid in left]}")

    def _note_growth(self) -> None:
        if (slopes := growth(self._usages)) is not None:
            self._tally.grew(slopes)
            for words in grows(slopes):
                self._report(words, None, None, usages=[asdict(each) for each in self._usages])
        self._usages = []

    def _renew(self) -> None:
        """After a broken promise nothing is known of the processes: others take their place."""
        assert self._crew is not None
        self._usages = []
        self._kill_the_rest()
        folder = self._folder / f"again-{len(self._tally.broken)}"
        folder.mkdir()
        environment = {"TMPDIR": str(self._folder / "tmp"), **self._disk.environment}
        self._crew = Crew(self._engine, folder, self._children, environment)

    def _kill_the_rest(self) -> None:
        """End what has not ended by itself, with -9, after a look at what it has in /dev/shm."""
        self._mapped |= mapped(self._children.alive())
        self._children.end()

    def _sweep(self, before: set[str]) -> None:
        """Remove what is left in /dev/shm, and report it: but for what MPI has there for processes killed with -9."""
        left = shared_memory() - before
        if not self._private:
            left &= self._mapped
        killed = {name for name in left if name.startswith(MPI_PREFIX) and self._mapped}
        for name in left:
            (Path("/dev/shm") / name).unlink(missing_ok=True)
        self._tally.swept += len(killed)
        if left - killed:
            self._leave_behind(f"in /dev/shm: {sorted(left - killed)}")

    def _leave_behind(self, what: str) -> None:
        self._tally.left.append(what)
        self._report(f"left behind: {what}", None, None)

    def _report(self, promise: str, plan: p.RunPlan | None, store: Path | None, **more: Any) -> None:
        """Note a broken promise, and keep what may tell why."""
        kept = self._evidence / f"{self._engine}-{self._number}-{len(self._tally.broken)}"
        kept.mkdir(parents=True, exist_ok=True)
        about = {"promise": promise, "seed": self._seed, "turn": self._number, **more}
        if plan is not None:
            about["plan"] = asdict(plan)
        (kept / "about.json").write_text(json.dumps(about, indent=1))
        for log in self._folder.glob("**/log"):
            shutil.copy(log, kept / f"{log.parent.name}.log")
        if store is not None and store.exists():
            shutil.copytree(store, kept / "store", dirs_exist_ok=True)
        self._tally.broken.append(f"{promise.strip().splitlines()[-1][:300]} [{kept}]")
        print(f"BROKEN {self._engine}: {self._tally.broken[-1]}", flush=True)
