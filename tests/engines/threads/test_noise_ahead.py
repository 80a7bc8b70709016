"""Noise that is made before its turn is the noise of its turn, whoever makes it and however late."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Threads
from stalegrad.engines.threads import noise_ahead
from stalegrad.engines.threads.noise_ahead import NoiseAhead, is_made, note_waiting, prepare
from stalegrad.engines.threads.shared import PREPARES, VERSION, Shared
from stalegrad.kernels import Address
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.turn import CompiledChain
from stalegrad.testing import KERNELS, check_replay, small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGLD(step_size=0.002)


@pytest.fixture
def always_ahead(monkeypatch):
    """Every worker makes noise ahead, of however few parameters."""
    monkeypatch.setattr(noise_ahead, "LEAST_PARAMETERS", 1)
    monkeypatch.setattr(noise_ahead, "_BEGIN", 0)


class Ring:
    """The ring of a chain of 5 parameters and two workers, three entries long, at version 7."""

    def __init__(self, kernel=KERNEL):
        self.chain = Chain(kernel, np.zeros((1, 5), np.float32), seed=9, chain=2)
        self.chain.version = 7
        self.shared = Shared.of(2, self.chain.position, None, version=7, held=False)
        coefficients, _ = self.chain.coefficient_rows(1)
        self.ahead = NoiseAhead.of(self.chain.state, coefficients, 2, 7)
        self.shared.of_worker(PREPARES)[:] = 1

    def prepare(self):
        prepare(self.shared, self.ahead, CompiledChain.of(self.chain), 0)

    def made(self):
        return [number for number in range(7, 20) if is_made(self.ahead, number)]

    def noise(self, number):
        return self.ahead.values[number % 3, 0]

    def expected(self, number):
        return self.chain.kernel.noise_at(self.chain.state, Address(9, 2, number))


def test_two_at_a_time_until_the_ring_is_full(always_ahead):
    ring = Ring()
    assert len(ring.ahead.values) == 3
    ring.prepare()
    assert ring.made() == [7, 8]
    ring.prepare()
    assert ring.made() == [7, 8, 9]
    ring.prepare()
    assert ring.made() == [7, 8, 9]
    ring.shared.words[VERSION] = 9
    ring.prepare()
    assert ring.made() == [9, 10, 11]
    for number in (9, 10, 11):
        np.testing.assert_array_equal(ring.noise(number), ring.expected(number))


def test_an_entry_that_somebody_is_still_filling_is_left_to_him(always_ahead):
    """Somebody began update 7 and was stopped by the scheduler; the chain has gone on without that noise."""
    ring = Ring()
    ring.ahead.following[0] = 8
    ring.shared.words[VERSION] = 8
    ring.prepare()
    assert ring.made() == [8, 9]
    ring.shared.words[VERSION] = 10
    ring.prepare()
    assert ring.made() == [8, 9]  # update 10 would have the entry of update 7
    ring.ahead.made[(7 % 3) * 16] = 7  # it is filled at last, for nobody
    ring.prepare()
    assert ring.made() == [9, 10, 11]
    np.testing.assert_array_equal(ring.noise(10), ring.expected(10))


def test_updates_that_are_over_are_passed_by(always_ahead):
    ring = Ring()
    ring.shared.words[VERSION] = 12
    ring.prepare()
    np.testing.assert_array_equal(ring.noise(12), ring.expected(12))
    np.testing.assert_array_equal(ring.noise(13), ring.expected(13))
    assert ring.ahead.following[0] == 14


def test_none_is_made_where_none_is_needed(always_ahead):
    assert len(Ring(sg.SGLD(step_size=0.002, temperature=0.0)).ahead.values) == 0


def test_a_worker_that_waits_often_makes_noise_ahead_until_it_waits_seldom(monkeypatch):
    monkeypatch.setattr(noise_ahead, "LEAST_PARAMETERS", 1)
    ring = Ring()
    ring.shared.of_worker(PREPARES)[:] = 0

    def turns(waited, times):
        for _ in range(times):
            note_waiting(ring.shared, ring.ahead, 1, waited)
        return int(ring.shared.of_worker(PREPARES)[1])

    assert turns(True, 3) == 0
    assert turns(True, 30) == 1
    assert turns(False, 5) == 1
    assert turns(False, 60) == 0
    assert ring.shared.of_worker(PREPARES)[0] == 0


@pytest.mark.parametrize(("policy", "bound"), [("drop", None), ("drop", 1), ("wait", 3)])
def test_runs_replay_to_the_bit(in_compiled_loops, always_ahead, policy, bound):
    """Also where gradients are dropped, so that the noise of an update waits for another one."""
    run = sg.sample(
        small_model(), KERNEL, steps=3000, workers=6, seed=3, engine=Threads(), progress=False, max_staleness=bound,
        policy=policy,
    )  # fmt: skip
    (server,) = in_compiled_loops
    assert len(server._ahead.values) == 7
    assert server._ahead.following[0] > 0
    assert run.trace.chains[0].applied_twice() == 0
    again = sg.replay(run.trace, small_model(), KERNEL)
    np.testing.assert_array_equal(again.draws, run.draws)


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_kernel(in_compiled_loops, always_ahead, kernel):
    check_replay(Threads(), kernel, servers=2, workers=4, steps=300)


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_update_has_the_same_bits_with_noise_that_was_made_before(kernel, dtype):
    gradient = np.random.default_rng(1).normal(size=(2, 300)).astype(dtype)
    kernel = kernel.for_model(60, 7)
    fresh, given = (Chain(kernel, np.full((2, 300), 0.1, dtype), seed=4, chain=1) for _ in range(2))
    for _ in range(3):
        fresh.advance(gradient)
        if given.can_prepare:
            assert given.prepare_noise()
        given.advance(gradient)
    for name, array in fresh.snapshot().items():
        np.testing.assert_array_equal(given.snapshot()[name], array)
