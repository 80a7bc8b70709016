"""Kernels that optimise before they sample, on MPI and Ray: what is kept is what samples, and runs replay."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Ray
from stalegrad.testing import small_model

from .mpi_jobs import mpi

PLAIN = sg.SGHMC(step_size=0.01, friction=2.0)
CYCLES = PLAIN.in_cycles(40, explore=0.5, floor=1e-3).after_optimising(30)
SAMPLED = [update for update in range(30, 200) if update % 40 >= 20]
JOB = """
steps = 200
servers = 2
seed = 5
model = "stalegrad.testing:small_model"

[kernel]
name = "SGHMC"
friction = 2.0
step_size = {name = "Cyclical", peak = 0.01, period = 40, floor = 1e-3}
temperature = {name = "Changed", before = 0.0, at = 30, after = {name = "Exploration", period = 40, explore = 20}}
"""


def assert_staged(run):
    assert run.draws.shape[:2] == (2, len(SAMPLED))
    wanted = [CYCLES.schedule(update) for update in SAMPLED]
    np.testing.assert_allclose(run.step_sizes, [wanted, wanted])
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), CYCLES).draws, np.asarray(run.draws[:]))


@pytest.mark.usefixtures("compiled")
def test_on_mpi(tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    status, _, err = mpi(6, ["run", "job.toml", "--engine", "mpi"], tmp_path)
    assert status == 0, err
    assert_staged(sg.load(tmp_path / "runs" / "job"))


def test_on_ray_from_points_that_were_optimised(nodes):
    """One run optimises an ensemble, a second goes on from its members in cycles."""
    settings = {"servers": 2, "workers": 2, "engine": Ray(cpus_per_worker=0.5), "progress": False}
    cold = sg.SGHMC(step_size=0.01, friction=2.0, temperature=0.0)
    members = sg.sample(small_model(), cold, steps=50, burn_in=49, **settings)
    run = sg.sample(small_model(), CYCLES, steps=200, initial=members, **settings)
    assert_staged(run)
