"""Job files and modules in folders of their own."""

import itertools
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

_number = itertools.count()


@pytest.fixture
def restored_sys_path(monkeypatch, tmp_path):
    """Python's path as it was once the test is over, and no module left that came from its folder or the examples."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/")
        if tmp_path in file.parents or EXAMPLES in file.parents:
            del sys.modules[name]


@pytest.fixture
def write_module(restored_sys_path, tmp_path):
    """Writes a module under a name that no other test uses; returns the name."""

    def write(text, folder=tmp_path, name=None):
        name = name or f"job_module_{next(_number)}"
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    return write


@pytest.fixture
def write_job(tmp_path):
    """Writes a job file; returns its path."""

    def write(text, name="job.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
