"""Compressed runs on MPI, elastic MPI and Ray: complete, and the same bits when replayed."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Ray

from .mpi_jobs import mpi

MODULE = """
import numpy as np
from stalegrad.potentials import Logistic

def model():
    rng = np.random.default_rng(3)
    return Logistic(rng.normal(size=(300, 300)), rng.random(300) < 0.5, prior_scale=1.0, batch_size=60)
"""
JOB = """
steps = 400
servers = 2
model = "wide:model"
kernel = {{name = "SGHMC", step_size = 0.01, friction = 2.0}}
messages = "{messages}"
"""


@pytest.fixture
def wide(tmp_path, monkeypatch):
    (tmp_path / "wide.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import wide

    yield wide
    monkeypatch.delitem(__import__("sys").modules, "wide")


def assert_replays(run, wide, messages):
    assert run.trace.record.settings.messages == messages
    assert run.draws.shape[:2] == (2, 400)
    assert max(chain.staleness.max() for chain in run.trace.chains) > 0
    assert np.array_equal(np.asarray(sg.replay(run.trace, wide.model()).draws), np.asarray(run.draws[:]))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("messages", ["bfloat16", "int8"])
def test_on_mpi(wide, tmp_path, messages):
    (tmp_path / "job.toml").write_text(JOB.format(messages=messages))
    status, _, err = mpi(6, ["run", "job.toml", "--engine", "mpi"], tmp_path)
    assert status == 0, err
    assert_replays(sg.load(tmp_path / "runs" / "job"), wide, messages)


@pytest.mark.parametrize("messages", ["bfloat16", "int8"])
def test_on_ray(wide, nodes, messages):
    run = sg.sample(
        wide.model(), sg.SGHMC(step_size=0.01, friction=2.0), steps=400, servers=2, workers=2, messages=messages,
        engine=Ray(cpus_per_worker=0.5), progress=False,
    )  # fmt: skip
    assert_replays(run, wide, messages)
