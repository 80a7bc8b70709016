"""The short call on MPI and Ray: found once by who leads, sent to all, and right in raw units."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Ray

from .mpi_jobs import mpi

MODULE = """
import numpy as np
from stalegrad.potentials import Linear

def model():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2)) * [1.0, 1e3]
    X[:, 1] += 900 * X[:, 0]
    return Linear(X, X @ [1.0, 2e-3] + rng.normal(size=300), prior_scale=1e6, batch_size=60, dtype=np.float64)

def posterior():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2)) * [1.0, 1e3]
    X[:, 1] += 900 * X[:, 0]
    y = X @ [1.0, 2e-3] + rng.normal(size=300)
    covariance = np.linalg.inv(X.T @ X + np.eye(2) / 1e12)
    return covariance @ X.T @ y, np.sqrt(np.diag(covariance))
"""
JOB = """
steps = 1500
servers = 2
model = "raw_units:model"
"""


@pytest.fixture
def raw_units(tmp_path, monkeypatch):
    (tmp_path / "raw_units.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import raw_units

    yield raw_units
    monkeypatch.delitem(__import__("sys").modules, "raw_units")


def assert_right(run, raw_units):
    """2 · 1500 updates that forget in about ten are some 150 effective draws: five standard errors, and the bias."""
    mean, deviation = raw_units.posterior()
    draws = np.asarray(run.draws[:]).reshape(-1, 2)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < (0.1 + 5 / np.sqrt(150)) * deviation)
    assert np.all(np.abs(np.log(draws.std(axis=0) / deviation)) < 0.05 + 5 / np.sqrt(300))
    assert run.warmup.burn_in == run.trace.burn_in > 0
    assert np.array_equal(np.asarray(sg.replay(run.trace, raw_units.model()).draws), np.asarray(run.draws[:]))


@pytest.mark.usefixtures("compiled")
def test_on_mpi(raw_units, tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    status, _, err = mpi(6, ["run", "job.toml", "--engine", "mpi"], tmp_path)
    assert status == 0, err
    run = sg.load(tmp_path / "runs" / "job")
    assert run.trace.workers == 2
    assert_right(run, raw_units)


def test_on_ray(raw_units, nodes):
    run = sg.sample(
        raw_units.model(), steps=1500, servers=2, workers=2, engine=Ray(cpus_per_worker=0.5), progress=False
    )
    assert_right(run, raw_units)
