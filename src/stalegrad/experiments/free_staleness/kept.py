"""Pieces of an experiment that are files of their own, so that an interrupted one goes on where it was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stalegrad._internal.numbers_file import write_numbers


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The numbers of a file; if it is not there, those that ``make`` gives, which it then holds."""
    if not path.exists():
        write_numbers(path, make())
    numbers: dict[str, Any] = json.loads(path.read_text())
    return numbers
