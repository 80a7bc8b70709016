"""Kernel, model and architecture of a user's own, in files of their own, on MPI and Ray: stored, resumed, replayed."""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Ray

from .mpi_jobs import mpi

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
JOB = """
steps = 300
servers = 2
model = "own_potential:model"
architecture = {name = "own_architecture:ClippedGradients", most = 1e4}
[kernel]
name = "own_kernel:ExactFriction"
step_size = 1e-3
"""
MODEL = """

def model():
    return PoissonRegression(*made_up(n_data=200))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Copies of the examples in the folder of the test, as a user would have them beside a job file."""
    for name in ("own_kernel.py", "own_architecture.py", "own_potential.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    with (tmp_path / "own_potential.py").open("a") as file:
        file.write(MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("own_kernel", "own_architecture", "own_potential")
    yield tuple(importlib.import_module(name) for name in names)
    for name in names:
        monkeypatch.delitem(sys.modules, name)


def assert_replays(store, own, steps):
    kernels, _, models = own
    run = sg.load(store)
    assert [chain.steps for chain in run.trace.chains] == [steps] * 2
    assert type(run.trace.record.settings.architecture).__name__ == "ClippedGradients"
    again = sg.replay(run.trace, models.model(), kernels.ExactFriction(step_size=1e-3))
    np.testing.assert_array_equal(again.draws, np.asarray(run.draws))


@pytest.mark.usefixtures("compiled")
def test_on_mpi(own, tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    status, _, err = mpi(4, ["run", "job.toml", "--engine", "mpi"], tmp_path)
    assert status == 0, err
    status, _, err = mpi(5, ["resume", "runs/job", "--steps", "400"], tmp_path)
    assert status == 0, err
    assert_replays(tmp_path / "runs" / "job", own, 400)


def test_on_ray(own, nodes, tmp_path):
    kernels, architectures, models = own
    parts = models.model(), kernels.ExactFriction(step_size=1e-3)
    engine = Ray(cpus_per_worker=0.5)
    sg.sample(
        *parts, steps=300, servers=2, workers=2, architecture=architectures.ClippedGradients(most=1e4), engine=engine,
        store=tmp_path / "run", progress=False,
    )  # fmt: skip
    sg.resume(tmp_path / "run", *parts, steps=400, engine=engine, progress=False)
    assert_replays(tmp_path / "run", own, 400)
