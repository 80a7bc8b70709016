"""Numbers of an experiment as a JSON file."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np


def write_numbers(path: Path, numbers: Any) -> None:
    """All of the file or nothing: written beside, then renamed. Infinite numbers and NaN become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(_finite(numbers), indent=1, allow_nan=False) + "\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _finite(value: Any) -> Any:
    """The same with None for what JSON has no word for: the end of an interval that has none."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
