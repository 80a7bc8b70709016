"""A user's class that is made of a compiled model, with a gradient of its own, is sampled with that gradient."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.protocol import executor

DATA = np.random.default_rng(0).normal(size=(20, 3))


class OneByOne(sg.potentials.GaussianMean):
    def gradient(self, theta, indices):
        return -super().gradient(theta, indices)


class AllAtOnce(sg.potentials.GaussianMean):
    def gradients(self, theta, indices, out):
        super().gradients(theta, indices, out)
        np.negative(out, out=out)


class Answers(sg.potentials.GaussianMean):
    def answer(self, points, address, out):
        super().answer(points, address, out)


class Renamed(sg.potentials.GaussianMean):
    """Nothing of its gradient is changed."""

    def initial(self):
        return np.ones(3)


@pytest.mark.parametrize("own", [OneByOne, AllAtOnce, Answers])
def test_compiled_loops_leave_it_alone(own):
    assert own(DATA, batch_size=4).bound is None
    assert Renamed(DATA, batch_size=4).bound is not None


@pytest.mark.parametrize("own", [OneByOne, AllAtOnce])
def test_it_is_asked_for_the_gradient(own):
    theta, indices, out = np.ones((1, 3), np.float32), np.arange(4)[None], np.empty((1, 3), np.float32)
    model = own(DATA, batch_size=4)
    model.gradients(theta, indices, out)
    built_in = sg.potentials.GaussianMean(DATA, batch_size=4).gradient(theta[0], indices[0])
    np.testing.assert_array_equal(out[0], -built_in)
    np.testing.assert_array_equal(model.gradient(theta[0], indices[0]), -built_in)


@pytest.mark.parametrize("own", [OneByOne, AllAtOnce])
@pytest.mark.parametrize("architecture", [None, sg.StaleGradients(linear=1.0)])
def test_long_runs_take_it_too(monkeypatch, own, architecture):
    """They would otherwise be made in compiled blocks of the built-in gradient."""
    settings = {"steps": 40, "workers": 2, "engine": "inline", "architecture": architecture, "progress": False}
    short = sg.sample(own(DATA, batch_size=4), sg.SGLD(step_size=1e-4), **settings)
    monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
    long = sg.sample(own(DATA, batch_size=4), sg.SGLD(step_size=1e-4), **settings)
    np.testing.assert_array_equal(short.draws, long.draws)


class Around(sg.potentials.Wrapper):
    def gradient(self, theta, indices):
        return -self.potential.gradient(theta, indices)


@pytest.mark.parametrize("architecture", [None, sg.StaleGradients(linear=1.0)])
def test_a_wrapper_is_asked_for_its_own_gradient(architecture):
    """Not the model within, which knows a faster way to several at once."""
    settings = {"steps": 40, "workers": 2, "engine": "inline", "architecture": architecture, "progress": False}
    model = sg.potentials.GaussianMean(DATA, batch_size=4)
    run = sg.sample(Around(model), sg.SGLD(step_size=1e-4), **settings)
    same = sg.sample(OneByOne(DATA, batch_size=4), sg.SGLD(step_size=1e-4), **settings)
    np.testing.assert_array_equal(run.draws, same.draws)
