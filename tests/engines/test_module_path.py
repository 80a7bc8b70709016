"""What other Python processes import: the modules that this one does, and none that happens to lie where it stands."""

import sys

import pytest

from stalegrad.engines import module_path

OWN = """
from stalegrad.testing import FaultyModel

class Model(FaultyModel):
    pass
"""
SCRIPT = """
import sys
from pathlib import Path
import own
import stalegrad as sg

model = own.Model(Path(sys.argv[1]), {}, seconds=0.0)
run = sg.sample(model, sg.SGHMC(step_size=0.02, friction=5.0), steps=20, workers=1, engine="processes", progress=False)
print(run.trace.chains[0].steps, len(run.events))
"""


@pytest.fixture
def planted(tmp_path):
    """A folder with files that have the names of modules which the host of the workers imports."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in ("cloudpickle", "json", "numpy", "mmap", "stalegrad"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write('{name} ')\nraise OSError")
    return folder


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_files_in_the_current_folder_are_not_executed_by_workers(planted, tmp_path, fresh_python):
    script = tmp_path / "script"
    script.mkdir()
    (script / "own.py").write_text(OWN)
    (script / "run.py").write_text(SCRIPT)
    done = fresh_python(script / "run.py", tmp_path / "calls", cwd=planted)
    assert not (tmp_path / "executed").exists(), (tmp_path / "executed").read_text()
    assert (done.stdout, done.returncode) == ("20 0\n", 0), done.stderr  # workers have found own.py, beside the script


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_modules_in_the_current_folder_are_found_by_workers_where_this_process_finds_them(tmp_path, fresh_python):
    """As in a notebook, or with ``python -c``."""
    (tmp_path / "own.py").write_text(OWN)
    done = fresh_python("-c", SCRIPT, tmp_path / "calls", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("20 0\n", 0), done.stderr


def test_the_current_folder_keeps_its_place(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/first", "", "/last"])
    assert module_path.module_path() == f"/first:{tmp_path}:/last"
