"""Figures 1 and 2 and the theory's picture go on where they were stopped, and what is kept is what would be made."""

import json
from dataclasses import replace

import numpy as np
import pytest

from stalegrad.experiments import fig1, theory_picture
from stalegrad.experiments.parts import NOT_KEPT, OutOfTimeError, Parts

FIG1 = fig1.Settings(
    runs=3, tau=(1, 2), n_data=20, steps_per_tau=10, bound_tau=(1, 2), bound_steps_per_tau=(10, 20),
    mixing_tau=(0, 3), mixing_steps=200, mixing_burn_in=100, mixing_thin=5, mixing_runs=10,
)  # fmt: skip
THEORY = theory_picture.Settings(
    runs=20, steps=50, tau=(0, 4), step_sizes=(0.01, 0.02), servers=(1, 2), servers_batches=2
)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize(
    ("module", "settings", "pieces"), [(fig1, FIG1, 2 + 4 + 2), (theory_picture, THEORY, 4 + 1)], ids=["fig1", "theory"]
)
def test_a_figure_that_was_interrupted_goes_on(module, settings, pieces, tmp_path, monkeypatch):
    whole = module.reproduce(settings)
    real, calls = module.replay, []

    def failing(*arguments, **named):
        if len(calls) == 3:
            raise Interrupted
        calls.append(1)
        return real(*arguments, **named)

    monkeypatch.setattr(module, "replay", failing)
    with pytest.raises(Interrupted):
        module.reproduce(settings, Parts(tmp_path, "figure"))
    assert len(list(tmp_path.iterdir())) == 3
    monkeypatch.setattr(module, "replay", lambda *arguments, **named: calls.append(1) or real(*arguments, **named))
    again = module.reproduce(settings, Parts(tmp_path, "figure"))
    assert len(list(tmp_path.iterdir())) == pieces
    monkeypatch.setattr(module, "replay", None)  # nothing is left to be made
    once_more = module.reproduce(settings, Parts(tmp_path, "figure", deadline=0.0))
    for found in (again, once_more):
        assert json.dumps({**found, "seconds": 0}) == json.dumps({**whole, "seconds": 0})


def test_other_constants_are_other_parts(tmp_path, monkeypatch):
    fig1.reproduce(FIG1, Parts(tmp_path, "fig1"))
    with pytest.raises(OutOfTimeError):
        fig1.reproduce(replace(FIG1, seed=1), Parts(tmp_path, "fig1", deadline=0.0))
    monkeypatch.setattr(fig1, "replay", None)
    fewer = fig1.reproduce(replace(FIG1, tau=(2,)), Parts(tmp_path, "fig1"))  # of which all are there
    assert fewer["tau"] == (2,)


def test_arrays_are_kept_to_the_last_bit(tmp_path):
    values = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    parts = Parts(tmp_path / "new", "figure")
    assert parts.array("w1", [1], lambda: values).dtype == np.float32
    kept = parts.array("w1", [1], lambda: values + 1)
    np.testing.assert_array_equal(kept, values)
    np.testing.assert_array_equal(parts.array("w1", [2], lambda: values + 1), values + 1)
    np.testing.assert_array_equal(NOT_KEPT.array("w1", [1], lambda: values), values)
