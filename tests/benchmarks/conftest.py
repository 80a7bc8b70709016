import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch):
    """Imports a script of the folder of benchmarks by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module
