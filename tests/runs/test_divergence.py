"""A chain that blows up says so, where, and what to do."""

import re

import numpy as np
import pytest

import stalegrad as sg

from .cases import KERNELS, gaussian, sample

REMEDY = "step_size · largest curvature · (staleness + ½) stays below about 1"


def test_it_names_chain_update_minibatch_worker_and_remedy():
    """Workers take turns, so update l is of worker l mod 3; 1 − hλ = −40, and float32 ends at 3.4e38."""
    with pytest.raises(sg.GradientError) as caught:
        sample(gaussian(), sg.SGLD(step_size=1.0), steps=1000, workers=3, initial=np.ones(5))
    message = str(caught.value)
    assert message.startswith("chain 0 has diverged after ")
    update = int(message.split()[5])
    assert 20 < update < 200
    assert (
        f"entries of the gradient are NaN or infinite, on minibatch {update // 3} of worker {update % 3}. " in message
    )
    assert "Use a smaller step_size" in message
    assert REMEDY in message
    tried = float(re.search(r"step_size=(\S+), or without a kernel", message)[1])
    assert tried * 41 * (2 + 0.5) < 0.5, "far from where chains of this staleness blow up"
    sample(gaussian(), sg.SGLD(step_size=tried), steps=1000, workers=3, initial=np.ones(5))
    assert len(caught.value.run.draws[0]) == update


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # of SGNHT's energy, on its way to infinity
@pytest.mark.parametrize("name", ["SGLD", "SGHMC-euler", "SGHMC-splitting", "SGNHT-shared-euler", "SGNHT-each-euler"])
def test_every_kernel_notices(name):
    """All but pSGLD and the thermostats' splitting, which rein themselves in and are wrong without overflowing."""
    kernel = KERNELS[name].with_step_size(0.39)  # friction · h < 2, yet far beyond what λ = 41 bears
    with pytest.raises(sg.GradientError, match="diverged"):
        sample(gaussian(), kernel, steps=3000, workers=5)


def test_the_diverging_chain_is_named():
    kernels = [KERNELS["SGLD"], KERNELS["SGLD"], sg.SGLD(step_size=1.0)]
    with pytest.raises(sg.GradientError, match="chain 2 has diverged after"):
        sample(gaussian(), kernels, steps=300, servers=3)


@pytest.mark.parametrize("repeats", [None, 2])
def test_an_overflow_after_the_last_gradient_is_noticed(repeats):
    """The gradient is finite, the update is not, and no gradient is taken at the new point."""
    potential = sg.potentials.from_gradient(lambda theta, indices: np.full(2, 3e38), size=2, n_data=1)
    with pytest.raises(
        sg.GradientError, match=r"chain 0 has diverged after 1 updates: its last draw is NaN.*smaller step"
    ):
        sample(potential, sg.SGLD(step_size=10.0), steps=1, repeats=repeats)


def test_the_last_stale_updates_are_noticed_too():
    """At staleness 20 the last twenty points are never asked for a gradient."""
    potential = sg.potentials.from_gradient(lambda theta, indices: np.full(2, 1e38), size=2, n_data=1)
    with pytest.raises(sg.GradientError, match="chain 1 has diverged"):
        sample(potential, [sg.SGLD(step_size=1e-3), sg.SGLD(step_size=1.0)], steps=15, workers=21, servers=2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_gradient_function_that_returns_nonsense(bad):
    def gradient(theta, indices):
        return np.array([0.0, bad]) if indices[0] == 7 else theta

    potential = sg.potentials.from_gradient(gradient, size=2, n_data=10, batch_size=1)
    with pytest.raises(
        sg.GradientError, match=r"after \d+ updates: 1 of 2 entries .* on minibatch \d+ of worker \d.*NaN in the data"
    ):
        sample(potential, sg.SGLD(step_size=1e-3), steps=200, workers=2)


@pytest.mark.parametrize(("value", "found"), [(0.0, "0.0"), (-1.0, "-1.0"), (np.nan, "nan"), ("big", "'big'")])
def test_a_schedule_that_goes_wrong_later_is_stopped_there(value, found):
    def schedule(step):
        return 1e-3 if step < 5 else value

    with pytest.raises(
        sg.ArgumentError, match=rf"step_size=.*gives h_5 = .*{found}.*maps l = 0, 1, … to step sizes > 0"
    ):
        sample(gaussian(), sg.SGLD(step_size=schedule), steps=10)
