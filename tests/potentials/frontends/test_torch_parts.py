"""Parts of modules that are sampled, frozen parts that are computed once, gradients in bfloat16, centred priors."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import stalegrad as sg
from stalegrad.potentials import from_torch
from stalegrad.potentials.priors import Centred, Laplace

from .torch_models import CLASSES, IMAGES, N, Pairs, X, classifier, convolutional, perceptron, seeded


class Classifier(nn.Module):
    """A body, a head, and a place where something may be done with what the head gives."""

    def __init__(self, after=None, tied=False):
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.after = after
        if tied:
            self.body.append(nn.Linear(8, 8, bias=False))
            self.body[2].weight = nn.Parameter(torch.eye(8))
            self.head = nn.Linear(8, 8)
            self.head.weight = self.body[2].weight

    def forward(self, x):
        output = self.head(self.body(x))
        return output if self.after is None else self.after(output)


def double(output):
    return 2 * output


def parts(module, sample, **options):
    data = (IMAGES if isinstance(module[0] if isinstance(module, nn.Sequential) else None, nn.Conv2d) else X, CLASSES)
    return from_torch(module, "categorical", options.pop("data", data), sample=sample, **options)


@pytest.mark.parametrize(("sample", "names"), [
    ("2.*", ["2.weight", "2.bias"]),
    ("*.bias", ["0.bias", "2.bias"]),
    (["0.weight", "2.bias"], ["0.weight", "2.bias"]),
])  # fmt: skip
def test_what_fits_a_name_is_sampled_and_nothing_else(sample, names):
    model, whole = parts(perceptron(torch.float64), sample, cache=False), parts(perceptron(torch.float64), None)
    assert list(model.layout) == names
    pieces = whole.variables(whole.full_gradient(whole.initial()))
    assert_allclose(
        model.full_gradient(model.initial()), np.concatenate([pieces[n].ravel() for n in names]), rtol=1e-12
    )


@pytest.mark.parametrize("sample", ["conv.*", [], ["2.*", 3]])
def test_names_that_fit_nothing_are_refused(sample):
    with pytest.raises(sg.ArgumentError, match=r"sample=.*fits no parameter\. Give names.*are: 0\.weight, 0\.bias, 2"):
        parts(perceptron(), sample)


# ------------------------------------------------------------------------------------------------- frozen bodies


@pytest.mark.parametrize(
    ("module", "sample", "where"),
    [
        (perceptron(torch.float64), "2.*", "'2'"),
        (convolutional(torch.float64), "4.*", "'4'"),
        (seeded(Classifier).double(), "head.*", "'head'"),
        (
            nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3)).double(),
            ["2.*", "3.bias"],
            "'2'",
        ),
    ],
)
def test_features_of_a_frozen_body_change_nothing(module, sample, where):
    model, known = parts(module, sample, batch_size=6), parts(module, sample, batch_size=6, cache=False)
    assert model.frozen.startswith(f"computed once: what {where} is given of 30 data")
    assert known.frozen == "computed for every gradient: cache=False"
    theta, indices = model.initial() + 0.1, model.minibatches.draw(0, 0, 0, 0)
    inputs = IMAGES if model._channels_last else X
    for ask in (
        lambda m: m.gradient(theta, indices), lambda m: m.full_gradient(theta), lambda m: m.predict(theta, inputs[:7]),
        lambda m: m.predictive(inputs[:7])(theta), lambda m: m.log_likelihood(theta), lambda m: m.predictions(5)(theta),
        lambda m: m.log_likelihood(theta, inputs[:7], CLASSES[:7]), lambda m: m.potential(theta),
    ):  # fmt: skip
        assert_allclose(ask(model), ask(known), rtol=1e-10, atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    assert again.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()
    assert_allclose(again.predict(theta, inputs[:7]), known.predict(theta, inputs[:7]), rtol=1e-10)


def test_a_dataset_with_a_frozen_body_is_fetched_once():
    model = parts(perceptron(), "2.*", data=Pairs())
    assert model.fork_safe
    assert_allclose(
        model.full_gradient(model.initial()), parts(perceptron(), "2.*").full_gradient(model.initial()), rtol=1e-6
    )


@pytest.mark.parametrize(("module", "sample", "reason"), [
    (perceptron(), None, "nothing is frozen"),
    (perceptron(), "0.*", "what is sampled is not in the last part of the module alone"),
    (seeded(lambda: Classifier(after=double)), "head.*", "computes something with what 'head' gives"),
    (seeded(lambda: Classifier(tied=True)), "head.weight", "is not in the last part of the module alone"),
])  # fmt: skip
def test_features_are_kept_only_where_that_is_right(module, sample, reason):
    model = parts(module, sample, cache=None)
    assert model.frozen.endswith(reason)
    with pytest.raises(sg.ArgumentError, match=f"cache=True: cannot be done: .*{reason}. Sample the last part"):
        parts(module, sample, cache=True)


@pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_a_run_of_a_head_replays(engine):
    model = parts(convolutional(), "4.*", batch_size=7)
    kernel = sg.SGHMC.from_sgd(lr=0.05, momentum=0.9, n_data=N)
    run = sg.sample(model, kernel, steps=60, workers=2, seed=4, engine=engine, progress=False)
    assert sg.replay(run.trace, model, kernel).draws.tobytes() == run.draws.tobytes()


# ------------------------------------------------------------------------------------------ precision and priors


def test_gradients_in_bfloat16_of_a_chain_in_float32():
    model, known = classifier(autocast="bfloat16"), classifier()
    gradient, exact = (m.full_gradient(m.initial()) for m in (model, known))
    assert gradient.dtype == model.dtype == np.float32
    assert 0 < np.linalg.norm(gradient - exact) < 0.02 * np.linalg.norm(exact)
    run = sg.sample(model, sg.SGLD(step_size=1e-4), steps=20, workers=2, engine="threads", progress=False)
    assert sg.replay(run.trace, model, sg.SGLD(step_size=1e-4)).draws.tobytes() == run.draws.tobytes()
    with torch.autocast("cpu", dtype=torch.bfloat16):  # the caller's own is no matter
        assert known.full_gradient(known.initial()).tobytes() == exact.tobytes()
        assert model.full_gradient(model.initial() + 1).tobytes() != gradient.tobytes()
    with pytest.raises(sg.ArgumentError, match=r"autocast='float16': has gradients that vanish.*Give 'bfloat16'"):
        classifier(autocast="float16")


def test_a_prior_about_the_modules_own_weights():
    flat = classifier(prior={"0.*": Centred(0.1), "*.bias": Laplace(2.0), "*": 1.0})
    start = flat.initial()
    prior = flat.variables(flat.prior.gradient(start))
    assert not prior["0.weight"].any()
    assert not prior["0.bias"].any()
    assert_allclose(prior["2.weight"], flat.variables(start)["2.weight"])
    moved = flat.variables(flat.prior.gradient(start + np.float32(0.01)))
    assert_allclose(moved["0.weight"], 1.0, rtol=1e-4)
    theta, h = start.astype(np.float64) + 0.05, 1e-5
    slope = (flat.prior.log_density(theta + h) - flat.prior.log_density(theta - h)) / (2 * h)
    assert_allclose(-slope, flat.prior.gradient(theta.astype(np.float32)).sum(), rtol=1e-4)
