"""The conformance suite of models: ours pass it, and broken ones are told what is wrong."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import GaussianMean, Linear, Softmax, from_gradient
from stalegrad.testing import check_potential, small_logistic, small_model

pytestmark = pytest.mark.usefixtures("compiled")
RNG = np.random.Generator(np.random.Philox(key=8))
X, Y = RNG.standard_normal((30, 3)), RNG.standard_normal(30)

MODELS = {
    "Gaussian": small_model,
    "logistic": small_logistic,
    "linear": lambda: Linear(X, Y, batch_size=5, dtype=np.float64),
    "softmax": lambda: Softmax(X, np.arange(30) % 3, n_classes=3, batch_size=5),
    "function": lambda: from_gradient(mean_gradient, size=3, n_data=30, batch_size=5),
    "control variates": lambda: sg.potentials.control_variates(small_logistic(), np.full(3, 0.1)),
    "SVRG": lambda: sg.potentials.svrg(small_logistic(), refresh=5),
}


def mean_gradient(theta, indices):
    return theta + 30 * (theta - X[indices].mean(axis=0))


@pytest.mark.parametrize("name", MODELS)
def test_our_models_keep_all_promises(name):
    check_potential(MODELS[name]())


class Broken(GaussianMean):
    """A model with one thing wrong."""

    def __init__(self, fault):
        super().__init__(X, batch_size=4)
        self.fault, self.calls, self.start = fault, 0, np.zeros(3, np.float32)

    def gradients(self, theta, indices, out):
        super().gradients(theta, indices, out)
        self.calls += 1
        if self.fault == "biased" and indices.shape[1] < self.n_data:
            out *= out.dtype.type(3)
        if self.fault == "random":
            out += out.dtype.type(self.calls)
        if self.fault == "repetitions" and len(theta) > 1:
            out[1:] *= out.dtype.type(1.0001)
        if self.fault == "greedy":
            theta[0, 0] = 7

    def initial(self):
        return self.start if self.fault == "shared start" else super().initial()

    @property
    def layout(self):
        return {"a": (2,)} if self.fault == "layout" else super().layout


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("biased", "minibatch gradients are biased: coordinate"), ("random", "differ in their bits"),
        ("repetitions", "differ in their bits"), ("greedy", "changes θ"), ("shared start", "not a fresh copy"),
        ("layout", "the layout has 2 entries, and θ 3"),
    ],
)  # fmt: skip
def test_a_broken_model_is_told_what_is_wrong(fault, words):
    with pytest.raises(AssertionError, match=words):
        check_potential(Broken(fault), engines=("inline",))
