"""Updates that follow each other through a chain leave what whole updates would, and nobody sees them half made."""

import threading

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Threads, segment
from stalegrad.engines.threads import compiled_server, shared
from stalegrad.engines.threads.shared import (
    CORES,
    LINE,
    LOCK,
    VERSION,
    Shared,
    cut,
    lock,
    lock_chain,
    lock_for_update,
    unlock,
)  # fmt: skip
from stalegrad.kernels.noise import TILE
from stalegrad.potentials import GaussianMean
from stalegrad.testing import KERNELS

pytestmark = pytest.mark.usefixtures("compiled")

SIZE = 5 * TILE + 37
KERNEL = sg.SGHMC(step_size=0.02, friction=3.0)


def wide_model(like=GaussianMean):
    """Forty data in so many dimensions that the chain has six sections of a tile."""
    data = np.random.Generator(np.random.Philox(key=1)).standard_normal((40, SIZE))
    return like(data, batch_size=4)


@pytest.fixture
def short_sections(monkeypatch):
    """Sections of one tile, on a machine that has cores enough to be in all of them."""
    monkeypatch.setattr(shared, "_LEAST", TILE)
    monkeypatch.setattr(shared, "_MOST", TILE)
    monkeypatch.setattr(shared, "available_cores", lambda: 8)


@pytest.fixture
def sectioned(in_compiled_loops, short_sections, monkeypatch):
    """The servers of runs in compiled loops, with sections."""
    monkeypatch.setattr(compiled_server, "WORTH_COMPILING_FOR_PYTHON", 1)
    return in_compiled_loops


def sampled(kernel=KERNEL, model=None, *, steps=2000, **settings):
    settings = {"workers": 4, "seed": 3, "progress": False, "warmup": None} | settings
    return sg.sample(model or wide_model(), kernel, steps=steps, engine=Threads(), **settings)


def assert_replays(run, kernel=KERNEL, model=None, **settings):
    (chain,) = run.trace.chains
    assert chain.applied_twice() == 0
    again = sg.replay(run.trace, model or wide_model(), kernel, **settings)
    np.testing.assert_array_equal(again.draws, run.draws)
    np.testing.assert_array_equal(again.stats.gradient_norm, run.stats.gradient_norm)
    np.testing.assert_array_equal(again.stats.kinetic_temperature, run.stats.kinetic_temperature)


def by_section(server):
    return len(server._shared.sections) > 2 and server._compiled_chain.elementwise


@pytest.mark.parametrize("thin", [1, 7])
def test_runs_replay_to_the_bit(sectioned, thin):
    run = sampled(thin=thin, burn_in=3)
    (server,) = sectioned
    assert len(server._shared.sections) == 7
    assert by_section(server)
    assert (server._shared.passed[::LINE] == 2000).all()
    assert run.timing.updates > 0
    assert_replays(run)


def test_without_momentum(sectioned):
    kernel = sg.SGLD(step_size=0.002)
    run = sampled(kernel, workers=3)
    assert by_section(sectioned[0])
    assert np.isnan(run.stats.kinetic_temperature).all()
    assert_replays(run, kernel)


@pytest.mark.parametrize(("policy", "bound"), [("drop", 1), ("wait", 3)])
def test_gradients_that_are_dropped_and_workers_that_are_held(sectioned, policy, bound):
    """Who drops a gradient, and who is held, is sent the chain as a whole."""
    run = sampled(workers=6, max_staleness=bound, policy=policy)
    assert run.trace.chains[0].updates().staleness.max() <= bound
    assert_replays(run)


def test_segments_end_anywhere(sectioned, monkeypatch):
    monkeypatch.setattr(segment, "_UPDATES", 16)
    run = sampled(thin=3)
    assert sectioned[0]._segment.number >= 2000 // 16 - 1
    assert_replays(run)


class Faulty(GaussianMean):
    """Its fiftieth gradient raises, and its ninetieth is not finite: of whichever worker that is."""

    asked = 0

    def gradient(self, theta, indices):
        self.asked += 1
        if self.asked == 50:
            raise RuntimeError("the fiftieth")
        return super().gradient(theta, indices) * (np.nan if self.asked == 90 else 1)


def test_faults_on_the_way(sectioned):
    run = sampled(model=wide_model(like=Faulty), steps=600)
    assert by_section(sectioned[0])
    assert {event.kind for event in run.events} == {"refused", "raised"}
    assert_replays(run)


def linear_parts():
    rng = np.random.Generator(np.random.Philox(key=2))
    diagonal, factor = rng.random(SIZE) * 10, rng.standard_normal((SIZE, 2))
    return {
        "number": (3.0, True), "diagonal": (diagonal, True), "low rank": (sg.LowRank(2.0, factor), False)
    }  # fmt: skip


@pytest.mark.parametrize("form", ["number", "diagonal", "low rank"])
def test_with_a_linear_part_a_point_ahead_and_tamed(sectioned, form):
    """A product with a matrix that mixes coordinates needs the whole point: such updates are whole."""
    linear, alone = linear_parts()[form]
    architecture = sg.architectures.StaleGradients(linear=linear, look_ahead=3.0, tame=2.0)
    run = sampled(architecture=architecture, steps=800)
    assert by_section(sectioned[0]) == alone
    assert_replays(run)


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_kernel(sectioned, kernel):
    """Those with a number for all coordinates, as a thermostat, are updated whole."""
    run = sampled(kernel, workers=5, steps=400)
    assert_replays(run, kernel)


@pytest.mark.long
def test_many_more_threads_than_cores(sectioned, monkeypatch):
    monkeypatch.setattr(shared, "available_cores", lambda: 2)
    run = sampled(workers=64, steps=20_000, thin=50)
    assert by_section(sectioned[0])
    assert_replays(run)


class Under:
    """Way of an update through two sections at version 7: number 7 has left the first one."""

    def __init__(self, cores=2):
        self.shared = Shared.of(2, np.zeros((1, 2 * TILE)), None, version=7, held=False)
        assert len(self.shared.sections) == 3
        self.shared.words[CORES] = cores
        self.shared.words[VERSION], self.shared.passed[0] = 8, 8

    def ends(self):
        self.shared.passed[LINE] = 8

    def is_let_in(self, call):
        """Whether a thread comes through a call, before and after the update ends, once what it calls is compiled."""
        free = Shared.of(2, np.zeros((1, 2 * TILE)), None, version=7, held=False)
        for take in (lock_chain, lock_for_update):
            take(free)
            unlock(free.words)
        done = threading.Event()
        thread = threading.Thread(target=lambda: (call(self.shared), done.set()))
        thread.start()
        before = done.wait(0.2)
        self.ends()
        return before, done.wait(0.2 if self.shared.words[LOCK] and not before else 60)


def test_who_wants_the_whole_chain_waits_for_the_update_under_way(short_sections):
    under = Under()
    assert under.is_let_in(lock_chain) == (False, True)


def test_who_wants_to_update_does_not(short_sections):
    under = Under()
    assert under.is_let_in(lock_for_update) == (True, True)


def test_unless_all_cores_update(short_sections):
    under = Under(cores=1)
    assert under.is_let_in(lock_for_update) == (False, True)


def test_the_lock_is_one_for_both(short_sections):
    under = Under()
    lock(under.shared.words)
    try:
        assert under.is_let_in(lock_for_update) == (False, False)
    finally:
        unlock(under.shared.words)


def test_sections_are_whole_tiles_and_cover_the_chain():
    for n in (1, 127, 2048, 2049, 7850, 50_000, 431_080, 10_000_001):
        sections = cut(n)
        assert sections[0] == 0
        assert sections[-1] == n
        assert (np.diff(sections) > 0).all()
        assert (sections[:-1] % TILE == 0).all()
        assert len(sections) - 1 <= max(1, n // 2048 + 1)


def test_one_worker_has_no_sections():
    assert len(Shared.of(1, np.zeros((1, 100_000)), None, version=0, held=False).sections) == 2
