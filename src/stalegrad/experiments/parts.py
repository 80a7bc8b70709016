"""Parts of an experiment that are files of their own, so that an interrupted one goes on where it was.

What a part depends on is in its name: with other constants it is another part, and is made.
"""

import hashlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stalegrad._internal.files import write_output
from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.types import Array

Part = TypeVar("Part")


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The numbers of a file; if it is not there, those that ``make`` gives, which it then holds."""
    if not path.exists():
        write_numbers(path, make())
    numbers: dict[str, Any] = json.loads(path.read_text())
    return numbers


def kept_array(path: Path, make: Callable[[], Array]) -> Array:
    """The same for an array, in a file that NumPy reads."""
    if not path.exists():
        file = io.BytesIO()
        np.save(file, make())
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, file.getvalue())
    return np.asarray(np.load(path, allow_pickle=False))


class OutOfTimeError(Exception):
    """The time is over, and something is left to be made."""


class Parts:
    """The parts of one figure.

    Args:
        folder: where they are kept; None to keep nothing.
        figure: the beginning of their names.
        deadline: by :func:`time.time`, after which what is missing is not begun: :class:`OutOfTimeError`.
    """

    def __init__(self, folder: Path | None = None, figure: str = "", deadline: float = float("inf")) -> None:
        self._folder, self._figure, self._deadline = folder, figure, deadline

    def numbers(self, name: str, constants: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A part of plain numbers.

        Args:
            name: what it is, for people.
            constants: everything that it depends on, in plain types.
            make: makes it.
        """
        path = self._path(name, constants, ".json")
        return self._timely(make)() if path is None else kept(path, self._timely(make))

    def array(self, name: str, constants: Any, make: Callable[[], Array]) -> Array:
        """A part that is one array."""
        path = self._path(name, constants, ".npy")
        return self._timely(make)() if path is None else kept_array(path, self._timely(make))

    def _path(self, name: str, constants: Any, suffix: str) -> Path | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()[:10]
        return self._folder / f"{self._figure}-{name}-{digest}{suffix}"

    def _timely(self, make: Callable[[], Part]) -> Callable[[], Part]:
        def made() -> Part:
            if time.time() >= self._deadline:
                raise OutOfTimeError
            return make()

        return made


NOT_KEPT = Parts()
"""Everything is made, and nothing kept."""
