"""Stale gradients in compiled blocks of a run that goes on: points are counted from where it does."""

import shutil

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import Logistic
from stalegrad.protocol import executor

pytestmark = pytest.mark.long


def test_a_session_with_stale_gradients_is_the_same_in_blocks(monkeypatch, tmp_path):
    """After 31 updates, which three points in turn do not divide."""
    rng = np.random.default_rng(5)
    model = Logistic(rng.normal(size=(60, 3)), rng.integers(2, size=60), batch_size=7, intercept=True)
    kernel = sg.SGLD(step_size=1e-3)
    sg.sample(model, kernel, steps=31, workers=3, engine="inline", seed=11, progress=False, store=tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "blocks")
    plain = sg.resume(tmp_path / "plain", model, kernel, steps=100, progress=False)
    used, real = [], executor.execute_block
    monkeypatch.setattr(executor, "execute_block", lambda *a: used.append(a[9].shape[0]) or real(*a))
    monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
    blocks = sg.resume(tmp_path / "blocks", model, kernel, steps=100, progress=False)
    assert sum(used) == 69
    assert plain.trace.chains[0].staleness.max() == 2
    np.testing.assert_array_equal(np.asarray(blocks.draws), np.asarray(plain.draws))
