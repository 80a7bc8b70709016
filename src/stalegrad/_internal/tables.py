"""Objects as plain tables, dictionaries of what TOML and JSON both know, and back.

``{"name": "SGLD", "step_size": 0.001}`` is ``SGLD(step_size=0.001)``. A :class:`Registry` holds the classes that a
table may name; with a base class it also knows those of other packages, as ``{"name": "package.module:ClassName"}``.
Job files are written in such tables and stored runs keep them; every mistake in one is an :class:`ArgumentError` that
gives the key with its whole path, the value, and what would be right.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from math import inf
from numbers import Integral, Real
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from stalegrad._internal.errors import ArgumentError

Table = dict[str, Any]
"""Keys are strings; values are booleans, numbers, strings, lists and tables."""

OPAQUE = "opaque"
"""The only key of a table that stands for what no table describes, such as a schedule of the user's own."""

T = TypeVar("T")


class Form(Protocol):
    """How one kind of value is written and read."""

    def write(self, value: Any) -> Any:
        """The value in plain types."""
        ...

    def read(self, value: Any, path: str) -> Any:
        """The value again; ``path`` is where it stands, such as ``kernel.step_size``."""
        ...


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Dataclasses that a table may name.

    Args:
        kind: what they are called in messages.
        members: the classes by name.
        forms: of the fields that are more than a number or a word.
        base: of all of them. With it, dataclasses of other packages that have this base are known by module and name.
    """

    kind: str
    members: Mapping[str, type[T]]
    forms: Mapping[str, Form] = field(default_factory=dict)
    base: type[T] | None = None

    def write(self, value: T) -> Table:
        """The table of an object; of one that cannot be named, a table that says so, see :data:`OPAQUE`."""
        for name, member in self.members.items():
            if type(value) is member:
                return {"name": name, **self.settings(value)}
        if self._can_be_imported(type(value)):
            return {"name": f"{type(value).__module__}:{type(value).__qualname__}", **self.settings(value)}
        return {OPAQUE: in_words(value)}

    def _can_be_imported(self, of: type) -> bool:
        """Whether a class of another package is found by the name of its module and its own."""
        own = of.__module__.partition(".")[0] in (__name__.partition(".")[0], "__main__")
        if own or self.base is None or not (issubclass(of, self.base) and is_dataclass(of)):
            return False
        return getattr(sys.modules.get(of.__module__), of.__qualname__, None) is of

    def settings(self, value: T) -> Table:
        """The fields of an object. None, infinity and empty ones are left out: where they may be, they are defaults."""
        values = {f.name: getattr(value, f.name) for f in fields(value) if f.init}  # type: ignore[arg-type]
        return {
            name: self.forms[name].write(v) if name in self.forms else plain(v)
            for name, v in values.items()
            if not _nothing(v)
        }

    def read(self, table: Any, path: str) -> T:
        """The object of a table."""
        name = self.name_of(table, path)
        return self.build(self.members[name] if name in self.members else self._imported(name, path), table, path)

    def _imported(self, name: str, path: str) -> type[T]:
        """The class of ``package.module:ClassName``."""
        module, _, member = name.partition(":")
        base: Any = self.base
        try:
            found = getattr(import_module(module), member)
        except Exception as error:  # also of the module itself, which may be anybody's
            problem = f"cannot be imported ({type(error).__name__}: {error})"
            remedy = "Give package.module:ClassName, of a module on Python's path."
            raise ArgumentError(f"{path}.name", name, problem, remedy) from error
        if not (isinstance(found, type) and issubclass(found, base) and is_dataclass(found)):
            remedy = f"Give a dataclass that is derived from stalegrad's {base.__name__}."
            raise ArgumentError(f"{path}.name", name, f"is no {self.kind}", remedy)
        return found  # type: ignore[return-value]

    def name_of(self, table: Any, path: str) -> str:
        """The name in a table, which is a member's, or that of a class elsewhere."""
        known = ", ".join(map(repr, self.members))
        check_table(table, path, f'Give a table such as {{name = "{next(iter(self.members))}", …}}.')
        if OPAQUE in table:
            problem = "stands for one of your own, which no table can rebuild"
            raise ArgumentError(path, table[OPAQUE], problem, f"Those that can be rebuilt are: {known}.")
        if "name" not in table:
            raise ArgumentError(path, table, "has no name", f"Name the {self.kind}, one of: {known}.")
        name = table["name"]
        if self.base is not None and isinstance(name, str) and ":" in name:
            return name
        if not isinstance(name, str) or name not in self.members:
            remedy = f"{did_you_mean(name, self.members)}Give one of: {known}."
            raise ArgumentError(f"{path}.name", name, f"is no {self.kind} that is known", remedy)
        return name

    def build(self, member: type[T], table: Mapping[str, Any], path: str, also: Sequence[str] = ()) -> T:
        """An object of one class.

        Args:
            member: the class.
            table: its fields, and perhaps its name.
            path: where the table stands.
            also: other keys that are possible there, to be named in messages.
        """
        settings = {key: value for key, value in table.items() if key != "name"}
        known = {f.name: f for f in fields(member) if f.init}  # type: ignore[arg-type]
        taken = f"{member.__name__} takes: {', '.join((*known, *also))}."
        check_keys(settings, (*known, *also), path, taken)
        for name, f in known.items():
            if name not in settings and f.default is MISSING and f.default_factory is MISSING:
                raise ArgumentError(path, table, f"has no {name}", taken)
            if isinstance(settings.get(name), Mapping) and OPAQUE in settings[name] and name not in self.forms:
                problem = "stands for one of your own, which no table can rebuild"
                raise ArgumentError(f"{path}.{name}", settings[name][OPAQUE], problem, "Make the object in Python.")
            if name in settings and f.type is bool and not isinstance(settings[name], bool):
                raise ArgumentError(f"{path}.{name}", settings[name], "is not a boolean", "Give true or false.")
        arguments = {
            key: self.forms[key].read(value, f"{path}.{key}") if key in self.forms else value
            for key, value in settings.items()
        }
        try:
            return member(**arguments)
        except ArgumentError as error:  # of a field; or of the whole, by its own name: h of a Constant is step_size
            raise error.inside(path if error.name in known else path.rpartition(".")[0]) from None


@dataclass(frozen=True)
class NumberOr:
    """A number, or what another form reads.

    Args:
        other: the other form.
    """

    other: Form

    def write(self, value: Any) -> Any:
        """The number as it is."""
        return plain(value) if isinstance(value, Real | np.ndarray) else self.other.write(value)

    def read(self, value: Any, path: str) -> Any:
        """A table goes to the other form; all else is taken for a number, which its owner checks."""
        return self.other.read(value, path) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class ByWorker:
    """A number for some workers, ``{"3": 0.5}``, or for all of them, ``[1.0, 2.0]``."""

    def write(self, value: Any) -> Any:
        """Worker numbers as strings: keys of tables are strings."""
        return plain(value)

    def read(self, value: Any, path: str) -> Any:
        """Worker numbers as numbers."""
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if not re.fullmatch("[0-9]{1,9}", str(key)):  # Python reads no number of thousands of digits
                raise ArgumentError(f"{path}.{key}", value[key], "is not under the number of a worker", "Count from 0.")
        return {int(key): number for key, number in value.items()}


def plain(value: Any) -> Any:
    """Numbers of any library as Python's own, mappings with strings for keys, sequences as lists.

    >>> plain({3: np.float64(0.1), "x": (np.int64(1), True)})
    {'3': 0.1, 'x': [1, True]}
    """
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Iterable):
        return [plain(entry) for entry in value]
    return {OPAQUE: in_words(value)}


def check_table(value: Any, path: str, remedy: str) -> None:
    """Refuse what is not a table with strings for keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ArgumentError(path, value, "is not a table", remedy)


def check_keys(table: Mapping[str, Any], known: Sequence[str], path: str, taken: str) -> None:
    """Refuse a key that is not known, with the nearest one that is.

    Args:
        table: its keys are looked at.
        known: the keys that it may have.
        path: where the table stands; empty for the whole file.
        taken: the sentence that lists the known ones.
    """
    for key, value in table.items():
        if key not in known:
            name = f"{path}.{key}" if path else key
            raise ArgumentError(name, value, "is not known", f"{did_you_mean(key, known)}{taken}")


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    """A sentence with the nearest of the known words, or nothing if none is near.

    >>> did_you_mean("sghcm", ["SGLD", "SGHMC"]), did_you_mean("nuts", ["SGLD", "SGHMC"])
    ("Did you mean 'SGHMC'? ", '')
    """
    words = {name.casefold(): name for name in known}
    near = get_close_matches(str(word).casefold(), words, n=1)
    return f"Did you mean {words[near[0]]!r}? " if near else ""


def in_words(value: Any) -> str:
    """What an object is, without its address in memory: the same in every session.

    >>> in_words(in_words), in_words(np.random.Generator(np.random.Philox(1)))
    ('function stalegrad._internal.tables.in_words', 'Generator(Philox)')
    """
    if hasattr(value, "__qualname__"):
        return f"{type(value).__name__} {value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Real) and value == inf) or (hasattr(value, "__len__") and not len(value))
