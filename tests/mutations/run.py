"""Puts the defects of the list into copies of the tree, one at a time, and runs the tests that ought to notice each.

    python -m tests.mutations.run [--only TEXT …] [--copies N] [--seconds S] [--minutes M] [--fresh]

First every defect is put into functions in memory (:mod:`tests.mutations.quick`) and tried with the likeliest of its
tests, then those that were not noticed with the others, then they, and those that could not be put in there, are put
into the files of a copy. What is found is kept in tests/mutations/verdicts.json (:mod:`tests.mutations.verdicts`). A
run that is stopped goes on where it was; survivors are tried again.
"""

import argparse
import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from types import ModuleType

from .defects import ROOT, Defect, read
from .verdicts import NOTICED, Verdicts

OUTPUT = ROOT / ".mutate"
LEFT_OUT = shutil.ignore_patterns(".git", ".mutate", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*-output")
GOAL = 0.95
STAGES = FIRST_TESTS, OTHER_TESTS, IN_A_COPY = range(3)
HAND_OVER = {"kernels", "potentials"}  # functions of theirs are compiled into those of modules that do not import them
NOTHING_RUN = 5  # what pytest returns where all tests of a file are long
FIRST = ("protocol", "kernels", "noise", "estimates", "store", "engines")  # by turns; the others after them
SLOW = (  # last of all
    "tests/runs/",
    "tests/testing/",
    "tests/engines/test_faults",
    "tests/engines/threads/test_compiled",
)


class Copy:
    """A copy of the tree, in which one defect at a time is put.

    Args:
        number: of the copy, which names its folder.
        seconds: of a processor that the tests of a defect may take; three times as many where code is compiled anew.
    """

    def __init__(self, number: int, seconds: float) -> None:
        self._root, self._seconds = OUTPUT / f"copy-{number}", seconds
        synchronise(ROOT, self._root)
        self._conftest = load(self._root / "tests" / "conftest.py")
        self._servers: dict[str, subprocess.Popen[str]] = {}

    def close(self) -> None:
        """End the processes that run tests."""
        for server in self._servers.values():
            server.stdin.close()
            server.wait()

    def check(self) -> None:
        """See that the tests import the copy."""
        command = [sys.executable, "-c", "import stalegrad; print(stalegrad.__path__[0])"]
        found = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=True).stdout
        if Path(found.strip()).resolve() != (self._root / "src" / "stalegrad").resolve():
            raise SystemExit(f"the tests would import stalegrad from {found.strip()} and not from {self._root}")

    def try_out(self, defect: Defect) -> dict[str, object]:
        """What becomes of a defect: how it ended, how long it took and which test noticed."""
        path = self._root / "src" / "stalegrad" / defect.file
        source, status = path.read_text(), path.stat()
        sound = self._conftest._source_folder()
        path.write_text(defect.applied(source))
        changed = self._conftest._source_folder()
        # What numba has compiled is still good outside of this file, and of those that have compiled it into others.
        suspect = self._may_have_compiled(path) if defect.compiled else {path.stem}
        if changed != sound and suspect is not None:
            shutil.rmtree(changed, ignore_errors=True)
            shutil.copytree(sound, changed, copy_function=os.link, ignore=partial(compiled_of, suspect))
        marked = [] if defect.long else ["-m", "not long"]
        begun = time.monotonic()
        try:
            code, output = self.pytest(
                "-x", *marked, *defect.tests, seconds=self._seconds * (3 if defect.compiled else 1)
            )
        finally:
            path.write_text(source)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # numba's caches look at it
            if changed != sound:
                if suspect is not None:
                    keep_compiled(changed, sound, suspect)
                shutil.rmtree(changed, ignore_errors=True)
        outcome = {None: "timed out", 0: "survived", 1: "caught", NOTHING_RUN: "survived"}.get(code, "broken")
        by = next(iter(failed(output)), "")
        if outcome == "caught" and not by:
            outcome, by = "broken", output[-200:]
        return {"outcome": outcome, "seconds": round(time.monotonic() - begun, 1), "by": by}

    def _may_have_compiled(self, file: Path) -> set[str] | None:
        """The modules, by the names of their files, that may have compiled what is in a file; None for all of them."""
        found = importers(*self._conftest._modules(), file)
        folders = {path.relative_to(self._root / "src" / "stalegrad").parts[0] for path in found}
        return None if folders & HAND_OVER else {path.stem for path in found}

    def try_quickly(self, defect: Defect, tests: tuple[str, ...]) -> dict[str, object] | None:
        """What becomes of a defect that is put in in memory, if these tests notice it."""
        if not tests:
            return None
        marked = [] if defect.long else ["-m", "not long"]
        self._warm_up(marked, tests[0])
        begun = time.monotonic()
        code, output = self.pytest("-x", *marked, *tests, seconds=self._seconds, quickly=True, name=defect.name)
        by = failed(output) if code == 1 else []
        return (
            {"outcome": "caught", "seconds": round(time.monotonic() - begun, 1), "by": by[0], "quickly": True}
            if by
            else None
        )

    def _warm_up(self, marked: list[str], tests: str) -> None:
        """Have what these tests compile compiled and kept, once: what is compiled beside a defect never is."""
        noted = self._conftest._source_folder() / "warm.txt"
        known = noted.read_text().splitlines() if noted.exists() else []
        name = " ".join([tests, *marked])
        if name not in known:
            self.pytest(*marked, tests, quickly=True)
            noted.write_text("\n".join([*known, name]))

    def pytest(
        self, *arguments: str, seconds: float | None = None, quickly: bool = False, name: str | None = None
    ) -> tuple[int | None, str]:
        """Run it here: its code, None if it took too long, and what it printed; ``name``, a defect, is put in first."""
        server = self._server("tests.mutations.quick" if quickly else "tests.forked")
        output = self._root / "pytest.txt"
        order = {"arguments": ["-q", "-p", "no:cacheprovider", *arguments], "output": str(output), "seconds": seconds}
        print(json.dumps(order | {"name": name}), file=server.stdin, flush=True)
        answer = server.stdout.readline()
        return json.loads(answer), output.read_text(errors="replace") if output.exists() else ""

    def _server(self, module: str) -> "subprocess.Popen[str]":
        if module not in self._servers:
            self._servers[module] = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=self._root, env=self._environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        return self._servers[module]

    def _environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self._root / "src")}


def synchronise(tree: Path, copy: Path) -> None:
    """Make the copy like the tree, touching only what differs, so that compiled code stays good."""
    fresh = copy.with_name(f"{copy.name}-fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(tree, fresh, ignore=LEFT_OUT, symlinks=True)
    if copy.exists():
        for path in fresh.rglob("*.py"):
            old = copy / path.relative_to(fresh)
            if old.is_file() and old.read_bytes() == path.read_bytes():
                shutil.copystat(old, path)
        if (copy / ".numba_cache").exists():
            os.rename(copy / ".numba_cache", fresh / ".numba_cache")
        shutil.rmtree(copy)
    os.rename(fresh, copy)


def load(path: Path) -> ModuleType:
    """A module by its file."""
    found = importlib.util.spec_from_file_location("conftest_of_copy", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def importers(imports: Mapping[Path, Iterable[str]], names: Mapping[str, Path], file: Path) -> set[Path]:
    """A file and all that import it, directly or not: what it defines may have been compiled into their functions.

    Args:
        imports: the names that each file imports.
        names: the file of each module.
        file: one of them.
    """
    users: dict[Path, set[Path]] = {}
    for path, imported in imports.items():
        for name in imported:
            if name in names:
                users.setdefault(names[name], set()).add(path)
    found, todo = set[Path](), [file]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += users.get(path, ())
    return found


def compiled_of(modules: Collection[str], folder: str, names: list[str]) -> list[str]:
    """Which of some files in a folder are numba's, of one of these modules."""
    return [name for name in names if name.endswith((".nbi", ".nbc")) and name.partition(".")[0] in modules]


def keep_compiled(changed: Path, sound: Path, suspect: Collection[str]) -> None:
    """Keep what was compiled beside a defect for the next one, unless it is of a module that may have it in it."""
    for path in changed.rglob("*.nb[ci]"):
        if path.name.partition(".")[0] not in suspect:
            kept = sound / path.relative_to(changed)
            kept.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, kept)


def failed(output: str) -> list[str]:
    """The tests that pytest names at its end."""
    lines = [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return [line.split(" - ", 1)[0] for line in lines]


def run(defects: list[Defect], verdicts: Verdicts, copies: list[Copy], minutes: float) -> None:
    """Try them out, each copy on its own, stage by stage; none is begun after so many minutes."""
    end = time.monotonic() + 60 * minutes
    ordered = in_turn(defects)
    older = {defect.name for defect in ordered if verdicts.is_older(defect)}  # they are tried from the start, and last
    reached = {defect.name: 0 if defect.name in older else verdicts.stages(defect) for defect in ordered}
    left = [(stage, defect) for stage in STAGES for defect in ordered if stage >= reached[defect.name]]
    # What an earlier run has begun comes to its verdict first.
    left.sort(key=lambda each: (each[1].name in older, not reached[each[1].name]))
    total, failures, lock = len(left), [], threading.Lock()

    def work(copy: Copy) -> None:
        try:
            while not failures:
                with lock:
                    if not left or time.monotonic() > end:
                        return
                    stage, defect = left.pop(0)
                    number = total - len(left)
                if verdicts.is_settled(defect):
                    continue
                if stage == IN_A_COPY:
                    result = copy.try_out(defect)
                else:
                    tests = defect.tests[:1] if stage == FIRST_TESTS else defect.tests[1:]
                    result = copy.try_quickly(defect, tests)
                if result is None:
                    verdicts.put(defect, {"outcome": "not tried", "by": "", "stages": stage + 1})
                    continue
                verdicts.put(defect, {**result, "stages": stage})
                shown = f"{result['outcome']:9} {result['seconds']:6.1f} s  {defect.name}"
                print(f"[{number:3}/{total}] {shown}  {result['by']}"[:180], flush=True)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def confirm(defects: list[Defect], verdicts: Verdicts, copy: Copy) -> None:
    """See that the tests which have noticed something pass where nothing is wrong, in the same way."""
    caught = [defect for defect in defects if verdicts.is_settled(defect) and not verdicts.of(defect).get("confirmed")]
    for quickly in (True, False):
        fresh = [defect for defect in caught if bool(verdicts.of(defect).get("quickly")) == quickly]
        tests = sorted({str(verdicts.of(defect)["by"]) for defect in fresh})
        if not tests:
            continue
        print(f"{len(tests)} tests have noticed something; now without any defect", flush=True)
        code, output = copy.pytest(*tests, quickly=quickly)
        if code not in (0, 1):
            raise SystemExit(f"pytest fails without any defect:\n{output[-4000:]}")
        always = set(failed(output))
        for defect in fresh:
            found = verdicts.of(defect)
            lies = found["by"] in always
            verdicts.put(defect, {**found, "outcome": "broken" if lies else "caught", "confirmed": not lies})


def in_turn(defects: list[Defect]) -> list[Defect]:
    """The order to try them in: wherever a run is stopped, the areas that come first have been tried alike."""
    keys: list[tuple[bool, bool, bool, bool, float]] = []
    totals, counts = Counter(defect.area for defect in defects), Counter[str]()
    for defect in defects:
        counts[defect.area] += 1
        share = counts[defect.area] / totals[defect.area]
        slow = defect.tests[0].startswith(SLOW)
        keys.append((defect.compiled, defect.long, defect.area not in FIRST, slow, share))
    return [defects[at] for at in sorted(range(len(defects)), key=keys.__getitem__)]


def report(defects: list[Defect], verdicts: Verdicts) -> bool:
    """Print what was found by area, and who survived; whether the goal is reached."""
    outcomes = ("caught", "timed out", "survived", "broken", "equivalent", "not tried")
    table: dict[str, Counter[str]] = {}
    rest = []
    for defect in defects:
        outcome = verdicts.outcome(defect)
        table.setdefault(defect.area, Counter())[outcome] += 1
        if outcome != "caught":
            rest.append(f"  {outcome}: {defect.name}: {defect.before!r} → {defect.after!r}\n      {defect.harm}")
            rest += [f"      {defect.equivalent}"] if defect.equivalent else []
    table["all"] = sum(table.values(), Counter())
    print("", *rest, "", sep="\n")
    print(f"{'area':14}" + "".join(f"{outcome:>12}" for outcome in outcomes))
    for area, counts in table.items():
        print(f"{area:14}" + "".join(f"{counts[outcome]:12}" for outcome in outcomes))
    of_all = table["all"]
    tried = of_all.total() - of_all["equivalent"] - of_all["not tried"]
    noticed = sum(of_all[outcome] for outcome in NOTICED)
    older = sum(map(verdicts.is_older, defects))
    print(f"\n{noticed} of {tried} noticed" + (f", {noticed / tried:.1%}" if tried else ""), end="")
    print(f"; {older} of these verdicts are of older code" if older else "")
    return noticed >= GOAL * tried


def main() -> None:
    """Run what the command line asks for; fails if fewer defects are noticed than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="areas or parts of names, see the list")
    parser.add_argument("--copies", type=int, default=1, help="how many to try out at a time")
    parser.add_argument("--seconds", type=float, default=300.0, help="of a processor for the tests of a defect")
    parser.add_argument("--minutes", type=float, default=inf, help="after which no other defect is begun")
    parser.add_argument("--fresh", action="store_true", help="forget what is known from earlier runs")
    parser.add_argument("--report", action="store_true", help="show what is known and try nothing out")
    options = parser.parse_args()
    defects = [d for d in read() if any(text in f"{d.area}/{d.name}" for text in options.only)]
    OUTPUT.mkdir(exist_ok=True)
    lock = (OUTPUT / "lock").open("w")
    if not options.report:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run is at work in {OUTPUT}: wait for its end, or stop it") from None
    verdicts = Verdicts(fresh=options.fresh)
    if not options.report:
        wanted = [d for d in defects if not d.equivalent and not verdicts.is_settled(d)]
        copies = [Copy(number, options.seconds) for number in range(options.copies)]
        copies[0].check()
        try:
            run(wanted, verdicts, copies, options.minutes)
            confirm(defects, verdicts, copies[0])
        finally:
            for copy in copies:
                copy.close()
    sys.exit(not report(defects, verdicts))


if __name__ == "__main__":
    main()
