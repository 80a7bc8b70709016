"""Models that every process loads for itself."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import GaussianMean, from_loader, natural, svrg

DATA = np.arange(12.0)


def plain():
    return GaussianMean(DATA, batch_size=3, dtype=np.float64)


@pytest.mark.parametrize(
    "load", [lambda: svrg(plain()), lambda: natural(plain(), sg.metrics.ExpandedMean())], ids=["svrg", "natural"]
)
def test_a_loader_that_wraps_its_model_is_refused(load):
    """Nothing would say that the run's gradients are others than those of the wrapper."""
    with pytest.raises(sg.ArgumentError, match=r"load=.*Let it return the model inside"):
        from_loader(load)


def test_the_remedy_works():
    model = svrg(from_loader(plain))
    run = sg.sample(model, sg.SGLD(step_size=0.01), steps=20, workers=2, engine="inline", progress=False)
    again = sg.replay(run.trace, svrg(plain()), sg.SGLD(step_size=0.01))
    np.testing.assert_array_equal(run.draws, again.draws)
