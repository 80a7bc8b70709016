"""A model by the name of the function that makes it: ``module:function`` and its arguments."""

import importlib
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any

from stalegrad._internal.errors import ArgumentError, JobError, StalegradError
from stalegrad._internal.tables import Table, check_keys, check_table, did_you_mean
from stalegrad.potentials import Potential

_KEYS = ("function", "arguments")
_LONGEST = 200  # letters of arguments in a message
_TAKEN = "A model takes: function, and the arguments of that function in a table of their own, model.arguments."


@dataclass(frozen=True)
class ModelFunction:
    """A function, or a class, that gives a :class:`Potential`.

    Args:
        function: ``module:function``.
        arguments: what to call it with, by name; booleans, numbers, strings, lists and tables.

    >>> model = ModelFunction("stalegrad.potentials:GaussianMean", {"data": [1.0, 2.0, 3.0], "batch_size": 1})
    >>> model.potential().n_data
    3
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not re.fullmatch(
            r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d][\w.]*", self.function
        ):
            remedy = 'Give "module:function", such as "stalegrad.datasets.models:digits".'
            raise ArgumentError("function", self.function, "does not name a function", remedy)
        check_table(self.arguments, "arguments", "Give the function's arguments by name.")
        _check_plain(self.arguments, "arguments")

    @classmethod
    def read(cls, value: Any, path: str) -> "ModelFunction":
        """From ``"module:function"``, or from a table with the arguments as well, that stands at ``path``."""
        if isinstance(value, str):
            value = {"function": value}
        check_table(value, path, 'Give "module:function", or a table with function and arguments.')
        check_keys(value, _KEYS, path, _TAKEN)
        if "function" not in value:
            raise ArgumentError(path, value, "has no function", _TAKEN)
        try:
            return cls(**value)
        except ArgumentError as error:
            raise error.inside(path) from None

    def table(self) -> Table:
        """As a plain table, which :meth:`read` reads."""
        return {"function": self.function, "arguments": dict(self.arguments)}

    def potential(self, *folders: Path) -> Potential:
        """Import the function, call it, and check what it gives.

        The module is looked for in ``folders`` first and then where Python looks. The folder that has it stays on
        Python's path: worker processes import from there, too.

        Raises:
            JobError: the module or the function is not there, does not take these arguments, or gives no potential.
                Also what goes wrong inside of them, with the line that it happened at; the exception itself is the
                cause of this one.
        """
        function = self._find(folders)
        self._check_arguments(function)
        try:
            potential = function(**self.arguments)
        except StalegradError:
            raise
        except Exception as error:
            raise JobError(f"{self._call()} raised {type(error).__name__}: {error}{_where(error)}") from error
        if not isinstance(potential, Potential):
            raise JobError(
                f"{self.function} gave a {type(potential).__name__}, not a Potential. Return one of sg.potentials, "
                "such as Logistic, or wrap a function with sg.potentials.from_gradient"
            )
        return potential

    def _call(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.function}({given if len(given) <= _LONGEST else '…'})"

    def _find(self, folders: tuple[Path, ...]) -> Callable[..., Any]:
        name, _, attribute = self.function.partition(":")
        found: Any = _import(name, folders, self.function)
        for part in attribute.split("."):
            if not hasattr(found, part):
                near = did_you_mean(part, (word for word in vars(found) if not word.startswith("_")))
                raise JobError(f"{self.function}: {_place(found)} has no {part}. {near}".rstrip())
            found = getattr(found, part)
        if not callable(found):
            raise JobError(f"{self.function} is a {type(found).__name__}, not a function that gives a model")
        function: Callable[..., Any] = found
        return function

    def _check_arguments(self, function: Callable[..., Any]) -> None:
        try:
            signature = inspect.signature(function)
        except ValueError:  # of some functions written in C: they check their arguments themselves
            return
        try:
            signature.bind(**self.arguments)
        except TypeError as error:
            takes = ", ".join(str(p) for p in signature.parameters.values()) or "no arguments"
            unknown = [name for name in self.arguments if name not in signature.parameters]
            problem = f"{error}. "
            if unknown:
                problem = f"{unknown[0]} is not known. {did_you_mean(unknown[0], signature.parameters)}"
            raise JobError(f"model.arguments: {problem}{self.function} takes: {takes}") from None


def _where(error: Exception) -> str:
    """The line of a traceback to look at: the last one that is neither Python's nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and Path(frame.filename).is_file()]
    libraries = {str(Path(place).resolve()) for place in sysconfig.get_paths().values()}
    mine = [frame for frame in own if not any(str(Path(frame.filename).resolve()).startswith(p) for p in libraries)]
    if not (mine or own):
        return ""
    frame = (mine or own)[-1]
    return f", in {Path(frame.filename).name} at line {frame.lineno}: {frame.line}"


def _import(name: str, folders: tuple[Path, ...], reference: str) -> ModuleType:
    """Import a module, with the folder that has it first on Python's path."""
    whole_then_first = (name, name.partition(".")[0])
    home = next((folder.resolve() for part in whole_then_first for folder in folders if _has(folder, part)), None)
    if home is not None:
        look_in(home)
    with _clear_words(name, folders, reference):
        module = importlib.import_module(name)
    if home is not None and not _lies_in(module, home):
        raise JobError(
            f"{reference}: {home} has a module {name}, but {_place(module)} has the same name and was imported before. "
            f"Rename the one in {home}"
        )
    return module


def look_in(folder: Path) -> None:
    """Have Python look for modules in a folder first; processes that are started from here do so, too."""
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()  # the folder may be as new as this run


def _has(folder: Path, name: str) -> bool:
    path = folder.joinpath(*name.split("."))
    return path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file()


@contextmanager
def _clear_words(name: str, folders: tuple[Path, ...], reference: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise JobError(f"{reference} cannot be imported: {error}") from error
        looked = ", ".join([*(str(folder) for folder in folders), "where Python looks for modules"])
        raise JobError(f"{reference}: there is no module {error.name}. It was looked for in {looked}") from None


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return module.__spec__ is not None and folder in Path(module.__spec__.origin or "/").resolve().parents


def _place(found: Any) -> str:
    file = getattr(found, "__file__", None)
    return str(file) if file else str(getattr(found, "__name__", found))


def _check_plain(value: Any, path: str) -> None:
    """Refuse what a stored run could not keep, such as dates and infinity."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _check_plain(entry, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_plain(entry, path)
    elif not isinstance(value, bool | int | float | str):
        raise ArgumentError(path, value, f"is a {type(value).__name__}", "Give it as text or as numbers.")
    elif isinstance(value, float) and not isfinite(value):
        raise ArgumentError(path, value, "is not finite", "Leave it out, or let the function take a word for it.")
