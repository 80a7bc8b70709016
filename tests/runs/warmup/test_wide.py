"""Coordinates of many parameters: a diagonal and directions that stand out, held against Hessians that are known."""

import numpy as np
import pytest

from stalegrad.potentials.coordinates import Coordinates
from stalegrad.runs.warmup.lanczos import lanczos
from stalegrad.runs.warmup.pilot import _look, moved
from stalegrad.runs.warmup.wide import wide_mode

from .given import Given

SIZE = 640


def steep_in_some_directions(seed=0):
    """A Hessian with units from 0.1 to 10, 40 directions of curvatures up to 1,000, and one that is nearly flat."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(SIZE, 41)))[0]
    inner = np.eye(SIZE) + basis * np.concatenate([np.geomspace(4, 1000, 40), [-0.97]]) @ basis.T
    units = np.exp(rng.uniform(np.log(0.1), np.log(10), SIZE))
    return units[:, None] * inner * units, rng.normal(size=SIZE)


def test_coordinates_of_low_rank_make_a_hessian_with_steep_directions_about_the_identity():
    hessian, mode = steep_in_some_directions()
    found = wide_mode(Given(lambda theta: hessian @ (theta - mode), SIZE), np.zeros(SIZE), low_rank=True, seed=1)
    root = found.coordinates.matrix()
    curvatures = np.linalg.eigvalsh(root.T @ hessian @ root)
    assert found.found
    assert curvatures[0] > 1 / 8
    assert curvatures[-1] < 3
    diagonal = np.sqrt(np.diag(hessian))
    unscaled = np.linalg.eigvalsh(hessian / diagonal[:, None] / diagonal)
    assert unscaled[-1] / unscaled[0] > 500 * curvatures[-1] / curvatures[0]  # of the exact diagonal alone


def test_lanczos_knows_which_directions_it_has_found():
    hessian = np.diag(np.concatenate([np.linspace(1, 20, 200), [500.0, 9000.0]]))
    seen = lanczos(lambda v: hessian @ v, 202, 16, np.random.default_rng(2))
    assert seen.values[-2:] == pytest.approx([500, 9000], rel=1e-6)
    assert seen.certain[-2:].all()
    assert not seen.certain[5:10].any()  # of the many between 1 and 20


@pytest.mark.parametrize("dense", [False, True])
def test_variances_are_the_diagonal_of_the_covariance(dense):
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    low = Coordinates(np.zeros(6), scale=rng.uniform(1, 2, 6), basis=basis, stretch=np.array([0.1, 3.0]))
    one = Coordinates(np.zeros(6), factor=np.triu(rng.normal(size=(6, 6)))) if dense else low
    assert one.variances() == pytest.approx(np.diag(one.matrix() @ one.matrix().T))


def test_pilot_chains_widen_what_chance_does_not_explain_and_move_the_centre():
    rng = np.random.default_rng(4)
    size = 2000
    draws = rng.normal(size=(4, 50, size))
    draws[..., :20] *= 4
    draws += 0.5
    coordinates = Coordinates(np.zeros(size), scale=np.full(size, 0.1))
    better = moved(coordinates, _look(draws), draws)
    assert better.scale[:20] == pytest.approx(0.4, rel=0.25)
    assert np.mean(better.scale[20:] == 0.1) > 0.95
    assert better.centre.mean() == pytest.approx(0.05, rel=0.1)
