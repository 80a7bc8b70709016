"""Draws that do not fit in memory: they are read in blocks, and no more than a block or two is there at a time."""

import tracemalloc
import weakref
from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.estimates import draw_blocks

KERNELS = [sg.SGLD(step_size=sg.schedules.Polynomial(5e-3, gamma=0.4)), sg.SGLD(step_size=1e-3)]
BLOCK = 1 << 18


class LazyDraws:
    """(chain, draw, parameter), made when asked for, as an array on disk is read; it knows how much of it is alive.

    The entries of draw l of chain s are (l mod 7) + s.
    """

    def __init__(self, chains, draws, size):
        self.shape, self.ndim, self.dtype = (chains, draws, size), 3, np.dtype(np.float32)
        self.alive = self.most = 0

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * 4

    def __getitem__(self, index):
        chains, draws = index
        rows = np.arange(self.shape[1])[draws] % 7 + np.arange(self.shape[0])[chains, None]
        block = np.repeat(rows[:, :, None].astype(np.float32), self.shape[2], axis=2)
        self.alive += block.nbytes
        self.most = max(self.most, self.alive)
        weakref.finalize(block, self._forget, block.nbytes)
        return block

    def _forget(self, nbytes):
        self.alive -= nbytes

    def __array__(self, *arguments, **options):
        raise AssertionError("all draws were read at once")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(draw_blocks, "BLOCK_BYTES", BLOCK)


def run_on_disk(steps, **fields):
    trace = sg.Trace.constant_staleness(1, steps, chains=2)
    run = sg.replay(trace, sg.potentials.GaussianMean(np.zeros(4)), KERNELS)
    return replace(run, draws=LazyDraws(2, steps, 4000), **fields)


def peak_of(call):
    call()  # what is imported or compiled the first time is not looked at
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def share(theta):
    p = theta[:6, None] / 10
    return np.concatenate([p, 1 - p], axis=1)


def test_prediction_takes_no_more_memory_for_more_draws():
    """With ten times the draws, 58 MB more, the peak grows by the weights alone: some tens of bytes a draw."""
    short, long = run_on_disk(200), run_on_disk(2000)
    _, before = peak_of(lambda: short.predict(share))
    average, after = peak_of(lambda: long.predict(share))
    expected = np.average(np.arange(2000) % 7 + np.arange(2)[:, None], weights=long.step_sizes) / 10
    np.testing.assert_allclose(average.probabilities[:, 0], expected, rtol=1e-6)
    assert long.draws.nbytes - short.draws.nbytes > 57e6
    assert after - before < 0.01 * long.draws.nbytes
    assert all(run.draws.most <= 2 * BLOCK and run.draws.alive == 0 for run in (short, long))


def test_one_variable_is_converted_without_the_others():
    run = run_on_disk(1000, variables=lambda draws: {"few": draws[..., :3], "many": draws[..., 3:]})
    tree, peak = peak_of(lambda: run.to_arviz(variables="few", thin=2))
    few = np.arange(1, 1000, 2) % 7 + np.arange(2)[:, None]
    np.testing.assert_array_equal(tree.posterior["few"], np.repeat(few[:, :, None], 3, axis=2))
    assert peak < 0.1 * run.draws.nbytes
    assert run.draws.most <= 2 * BLOCK
    assert run.draws.alive == 0
