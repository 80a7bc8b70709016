"""One chain by itself: which noise, which coefficients and which numbers an update has, and what is a copy."""

import pickle

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels.noise import Stream, normals
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Chain, Each

SCHEDULE = sg.schedules.Polynomial(0.1, 2.0, 0.5)
SPLITTING = sg.SGHMC(step_size=SCHEDULE, friction=2.0, integrator="splitting")
START = np.array([[0.5, -1.0, 2.0]])


def advanced(updates, kernel=SPLITTING, **place):
    chain = Chain(kernel, START, **{"seed": 9, "chain": 3, **place})
    for _ in range(updates):
        chain.advance(chain.point**3)
    return chain


def test_the_noise_of_an_update_has_its_address():
    """Seed, chain, number of the update and repetition."""
    chain = Chain(sg.SGLD(step_size=0.02), np.zeros((2, 200)), seed=9, chain=3, first_repeat=5)
    for update in range(3):
        before = chain.position.copy()
        chain.advance(np.zeros((2, 200)))
        expected = normals(np.empty((2, 200)), 9, Stream.UPDATE, 3, update, first_repeat=5)
        np.testing.assert_allclose(chain.position - before, np.sqrt(0.04) * expected, rtol=1e-10, atol=1e-12)


def test_a_snapshot_is_a_copy_and_a_chain_that_is_put_there_goes_on_as_the_first_did():
    chain = advanced(4)
    taken = chain.snapshot()
    kept = {name: array.copy() for name, array in taken.items()}
    other = advanced(0)
    other.restore(4, taken)
    unpickled = pickle.loads(pickle.dumps(chain))
    for each in (chain, other, unpickled):
        for _ in range(3):
            each.advance(each.point**3)
    for name, array in taken.items():
        np.testing.assert_array_equal(array, kept[name], name)
    for each in (other, unpickled):
        assert each.version == 7
        np.testing.assert_array_equal(each.position, chain.position)


def test_the_start_is_a_copy():
    start = START.copy()
    chain = Chain(sg.SGLD(step_size=0.1), start, seed=0, chain=0)
    chain.advance(np.ones_like(start))
    np.testing.assert_array_equal(start, START)


def test_the_coefficients_of_many_updates_are_those_of_each():
    """Of this step and the next, counted from where the chain is; step sizes of a trace replace those of this step."""
    chain = advanced(0)
    chain.advanced(4)
    chain.advanced(3)
    rows, used = chain.coefficient_rows(5)
    h = np.array([SCHEDULE(7 + k) for k in range(6)])
    np.testing.assert_allclose(used, h[:5])
    np.testing.assert_allclose(rows, [SPLITTING.coefficients(h[k], h[k + 1]) for k in range(5)])
    rows, used = chain.coefficient_rows(5, np.full(5, 0.03))
    np.testing.assert_allclose(used, 0.03)
    np.testing.assert_allclose(rows, [SPLITTING.coefficients(0.03, h[k + 1]) for k in range(5)])


@pytest.mark.parametrize("schedule", [0.1, SCHEDULE])
def test_a_step_size_that_is_given_wins(schedule):
    chain = Chain(sg.SGLD(step_size=schedule, temperature=0.0), START, seed=0, chain=0)
    assert chain.advance(np.ones_like(START), 0.25) == 0.25
    np.testing.assert_allclose(chain.position, START - 0.25)
    assert chain.advance(np.ones_like(START)) == (0.1 if schedule == 0.1 else SCHEDULE(1))


def test_what_is_used_and_recorded_is_the_weighted_answer():
    class Doubled(Chain):
        def weighted(self, gradient, worker):
            return gradient * (worker + 1)

    seen = []
    chain = Doubled(sg.SGLD(step_size=0.5, temperature=0.0), START, seed=0, chain=0)
    record = Each(lambda update, chain, gradient: seen.append((update, chain.version, gradient[0, 0])))
    for worker in (1, 2):
        chain.apply(np.ones_like(START), worker, record)
    np.testing.assert_allclose(chain.position, START - 0.5 * (2 + 3))
    assert seen == [(0, 1, 2.0), (1, 2, 3.0)]


def test_elastic_workers_start_with_momenta_of_their_own():
    place = Place(np.zeros((1, 4)), seed=1, chain=0)
    chain = sg.Elastic(rho=1.0).chain(sg.SGHMC(step_size=0.1, friction=1.0), place, workers=3)
    momenta = chain.snapshot()["momentum"]
    assert np.unique(momenta).size == momenta.size == 12
