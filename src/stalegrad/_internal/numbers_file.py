"""Numbers as JSON, which knows neither NaN nor infinity."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stalegrad._internal.files import write_json


def without_nan(value: Any) -> Any:
    """The same in plain types, with None for every float that is NaN or infinite.

    >>> without_nan({"low": 1.0, "high": float("inf"), "draws": (1, float("nan"))})
    {'low': 1.0, 'high': None, 'draws': [1, None]}
    """
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_numbers(path: Path, numbers: Any) -> None:
    """Write a JSON file, all of it or nothing; its folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, without_nan(numbers), "numbers")


def write_numbers_and_picture(
    out: Path, name: str, numbers: Any, draw: Callable[[Any, Path], None]
) -> tuple[Path, Path]:
    """Write ``name``.json and ``name``.png, which ``draw(numbers, path)`` makes, into the folder ``out``."""
    text, picture = out / f"{name}.json", out / f"{name}.png"
    write_numbers(text, numbers)
    draw(numbers, picture)
    return text, picture
