"""The list of defects: one file an area, in which every entry is a change of the source that some test must notice.

An entry has the keys

    file      where the defect goes, relative to src/stalegrad
    before    a text that occurs there exactly once
    after     what stands there instead
    harm      what a user would suffer from it
    tests     the tests that ought to notice, the likeliest first; those of its area if it names none
    compiled  true if code is changed that numba compiles into others, which must then be compiled anew
    long      true if only a test of `make test-long` can notice
    equivalent  why no test can notice: such a defect is counted apart and not run

An area's own file is named after it and begins with its default ``tests``.
"""

import ast
import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class DoesNotApply(Exception):
    """The source has changed: the list must follow."""


@dataclass(frozen=True, kw_only=True)
class Defect:
    area: str
    file: str
    before: str
    after: str
    harm: str
    tests: tuple[str, ...]
    compiled: bool = False
    long: bool = False
    equivalent: str = ""
    number: int = 1
    """Among those of its file."""

    @property
    def name(self) -> str:
        return f"{self.file.removesuffix('.py')}#{self.number}"

    @property
    def digest(self) -> str:
        """Tells this change from others at the same place."""
        return hashlib.sha256(f"{self.file}\0{self.before}\0{self.after}".encode()).hexdigest()[:12]

    def applied(self, source: str) -> str:
        """The source with the defect in it; :class:`DoesNotApply` if its place is not there exactly once."""
        if (times := source.count(self.before)) != 1:
            raise DoesNotApply(f"{self.name}: the text {self.before!r} occurs {times} times in {self.file}")
        changed = source.replace(self.before, self.after)
        try:
            same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
        except SyntaxError as error:
            raise DoesNotApply(f"{self.name}: {self.after!r} is not Python there: {error}") from error
        if same:
            raise DoesNotApply(f"{self.name}: {self.after!r} in place of {self.before!r} changes nothing")
        return changed


def read() -> list[Defect]:
    """All of them, the areas in the order of their names."""
    found, numbers = [], {}
    for defect in _entries():
        numbers[defect.file] = numbers.get(defect.file, 0) + 1
        found.append(replace(defect, number=numbers[defect.file]))
    return found


def _entries() -> Iterator[Defect]:
    for path in sorted(HERE.glob("*.toml")):
        table = tomllib.loads(path.read_text())
        for entry in table["defect"]:
            yield Defect(area=path.stem, **{**entry, "tests": tuple(entry.get("tests", table["tests"]))})
