"""Potentials of PyTorch modules: gradients against closed forms and differences, data, layouts."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import stalegrad as sg
from stalegrad.potentials import Linear, Softmax, from_torch
from stalegrad.potentials.frontends.torch.data import TensorData
from stalegrad.potentials.priors import Laplace, Normal, StudentT

from .torch_models import CLASSES, IMAGES, N, Pairs, X, Y, classifier, convolutional, perceptron, seeded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_linear_module_is_softmax_regression(dtype):
    module = seeded(lambda: nn.Linear(4, 3, bias=False)).to(dtype)
    model = from_torch(module, "categorical", (X, CLASSES), prior=0.7, batch_size=6, scheme="reshuffle")
    known = Softmax(X, CLASSES, prior_scale=0.7, batch_size=6, scheme="reshuffle", dtype=np.float64)
    assert model.minibatches == known.minibatches
    theta = np.random.default_rng(1).normal(size=12).astype(model.dtype)
    indices = model.minibatches.draw(3, 0, 0, 0)
    tolerance = {"rtol": 500 * np.finfo(model.dtype).eps, "atol": 100 * np.finfo(model.dtype).eps}
    gradient = model.gradient(theta, indices)
    assert (gradient.dtype, gradient.shape, gradient.flags.writeable) == (model.dtype, (12,), True)
    assert_allclose(gradient, known.gradient(theta, indices), **tolerance)
    assert_allclose(model.full_gradient(theta), known.full_gradient(theta), **tolerance)
    assert_allclose(model.predict(theta, X), known.predict(theta, X), **tolerance)
    assert_allclose(
        model.log_likelihood(theta, X, CLASSES), known.log_likelihood(theta, X, CLASSES), **tolerance
    )  # fmt: skip
    other = theta[::-1].copy()
    difference = known.potential(theta) - known.potential(other)
    assert model.potential(theta) - model.potential(other) == pytest.approx(difference, rel=1e-5)


@pytest.mark.parametrize("y", [Y, Y[:, None]])
def test_a_linear_module_with_normal_noise_is_linear_regression(y):
    module = nn.Linear(4, 1, bias=False, dtype=torch.float64)
    model = from_torch(module, "gaussian", (X, y), prior=2.0, batch_size=6, noise_scale=0.5)
    known = Linear(X, Y, noise_scale=0.5, prior_scale=2.0, batch_size=6, dtype=np.float64)
    theta, indices = np.arange(4.0), model.minibatches.draw(1, 0, 0, 0)
    assert_allclose(model.gradient(theta, indices), known.gradient(theta, indices), rtol=1e-12)
    assert abs(model.full_gradient(known.posterior()[0])).max() < 1e-10
    assert_allclose(model.predict(theta, X)[:, 0], X @ theta, rtol=1e-12)
    density = -0.5 * ((Y - X @ theta) / 0.5) ** 2 - np.log(0.5 * np.sqrt(2 * np.pi))
    assert_allclose(model.log_likelihood(theta, X, y), density, rtol=1e-12)


@pytest.mark.parametrize("data", [(X, CLASSES), (IMAGES, CLASSES)], ids=["perceptron", "convolutional"])
def test_gradients_are_slopes_of_the_potential(data):
    module = (perceptron if data[0] is X else convolutional)(torch.float64)
    prior = {"0.*": StudentT(df=3.0, scale=0.5), "*.bias": Laplace(2.0), "*": Normal(1.5)}
    model = from_torch(module, "categorical", data, prior=prior)
    theta = model.initial() + 0.1
    gradient, h = model.full_gradient(theta), 1e-5
    slopes = [(model.potential(theta + h * e) - model.potential(theta - h * e)) / (2 * h) for e in np.eye(model.size)]
    assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


def test_a_minibatch_gradient_is_unbiased():
    """The mean over all disjoint minibatches of an epoch is the full gradient."""
    model = from_torch(perceptron(torch.float64), "categorical", (X, CLASSES), batch_size=6, scheme="reshuffle")
    theta = model.initial()
    epoch = [model.gradient(theta, model.minibatches.draw(0, 0, 0, count)) for count in range(N // 6)]
    assert_allclose(np.mean(epoch, axis=0), model.full_gradient(theta), rtol=1e-10, atol=1e-10)


def test_a_loss_of_ones_own_may_be_a_vector_or_a_sum():
    theta, indices = perceptron_theta(), np.arange(5)
    expected = classifier().gradient(theta, indices)
    for reduction in ("none", "sum"):
        model = from_torch(
            perceptron(), lambda o, y, r=reduction: F.cross_entropy(o, y, reduction=r), (X, CLASSES), batch_size=6
        )
        assert_allclose(model.gradient(theta, indices), expected, rtol=1e-5, atol=1e-5)
    outputs = model.module_at(theta)(torch.from_numpy(X).float()).detach()
    assert_allclose(model.predict(theta, X), outputs, rtol=1e-6, atol=1e-6)
    with pytest.raises(sg.ArgumentError, match=r"loss=.*returns shape \(\)\. Return −log p of each datum"):
        model.log_likelihood(theta, X, CLASSES)


@pytest.mark.parametrize("loss", ["categorical", lambda output, y: F.cross_entropy(output, y, reduction="sum")])
def test_one_datum_is_enough(loss):
    known = Softmax(X[:1], CLASSES[:1], n_classes=3, dtype=np.float64)
    model = from_torch(nn.Linear(4, 3, bias=False, dtype=torch.float64), loss, (X[:1], CLASSES[:1]))
    assert_allclose(model.full_gradient(np.ones(12)), known.full_gradient(np.ones(12)), rtol=1e-12)


def perceptron_theta():
    return np.concatenate([p.detach().numpy().ravel() for p in perceptron().parameters()])


# ----------------------------------------------------------------------------------------------- data and layouts


def test_every_form_of_data_gives_the_same_gradient():
    theta, indices = perceptron_theta(), np.array([3, 20, 3, 7])
    tensors = torch.from_numpy(X).float(), torch.from_numpy(CLASSES)
    record = type("Data", (), {"X": X, "y": CLASSES.astype(np.uint8)})()
    expected = classifier().gradient(theta, indices)
    for data in (tensors, TensorDataset(*tensors), Pairs(), record, (X[::-1][::-1], CLASSES.astype(float))):
        model = from_torch(perceptron(), "categorical", data, batch_size=6)
        assert model.gradient(theta, indices).tobytes() == expected.tobytes()


def test_a_transform_makes_inputs_of_bytes():
    pixels = np.random.default_rng(2).integers(256, size=(N, 4), dtype=np.uint8)
    scaled = from_torch(perceptron(), "categorical", (pixels / 256, CLASSES))
    model = from_torch(perceptron(), "categorical", (pixels, CLASSES), transform=lambda x: x.float() / 256)
    theta = model.initial()
    assert model.full_gradient(theta).tobytes() == scaled.full_gradient(theta).tobytes()
    assert model.predict(theta, pixels).tobytes() == scaled.predict(theta, pixels / 256).tobytes()


def test_rows_that_follow_each_other_are_not_copied_where_the_bits_allow_it():
    x, y = torch.from_numpy(X).float(), torch.from_numpy(CLASSES).clone()  # memory of torch's is aligned
    odd = torch.cat([x[:1], x])[1:]  # the same rows, 16 bytes further on
    data, elsewhere = TensorData((x, y)), TensorData((odd, y))
    assert (x.data_ptr() % 64, odd.data_ptr() % 64) == (0, 16)
    aligned, unaligned, gaps = np.arange(8, 16), np.arange(3, 9), np.array([8, 10, 10])
    assert data.batch(aligned)[0].data_ptr() == x[8].data_ptr()
    for source, indices in ((data, unaligned), (data, gaps), (elsewhere, aligned)):
        batch, _ = source.batch(indices)
        assert not x.data_ptr() <= batch.data_ptr() < x[-1].data_ptr()
        assert batch.data_ptr() % 64 == 0
        assert torch.equal(batch, x[torch.from_numpy(indices)])
    theta = perceptron_theta()
    one, other = (from_torch(perceptron(), "categorical", (rows, y), batch_size=8) for rows in (x, odd))
    assert one.gradient(theta, aligned).tobytes() == other.gradient(theta, aligned).tobytes()


def test_layout_names_the_parameters():
    model = from_torch(convolutional(), "categorical", (IMAGES, CLASSES))
    assert model.layout == {"0.weight": (3, 2, 3, 3), "0.bias": (3,), "4.weight": (3, 12), "4.bias": (3,)}
    assert (model.size, model.dtype, model.n_data, model.batch_size) == (96, np.float32, N, N)
    named = model.variables(np.stack([model.initial(), 0 * model.initial()]))
    for name, parameter in convolutional().named_parameters():
        assert_allclose(named[name][0], parameter.detach())
        assert not named[name][1].any()


def test_channels_last_changes_the_speed_alone():
    models = [from_torch(convolutional(), "categorical", (IMAGES, CLASSES), channels_last=c) for c in (None, False)]
    assert [m._inputs(torch.zeros(2, 1, 5, 5)).stride(1) for m in models] == [1, 25]
    first, second = (m.full_gradient(m.initial()) for m in models)
    assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_frozen_and_shared_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(4, 4, bias=False), nn.Linear(4, 4)
            self.out.weight = self.into.weight
            self.out.bias.requires_grad_(False)

        def forward(self, x):
            return self.out(torch.tanh(self.into(x)))

    module = seeded(Tied).double()
    model = from_torch(module, "categorical", (X, CLASSES))
    assert model.layout == {"into.weight": (4, 4)}
    theta, h = model.initial(), 1e-5
    slopes = [(model.potential(theta + h * e) - model.potential(theta - h * e)) / (2 * h) for e in np.eye(16)]
    assert_allclose(model.full_gradient(theta), slopes, rtol=1e-6, atol=1e-6)
    assert torch.equal(model.module_at(theta).out.bias, module.out.bias)


def test_a_parameter_that_is_not_used_feels_the_prior_alone():
    module = nn.Linear(4, 3)
    module.register_parameter("unused", nn.Parameter(torch.tensor([2.0, 4.0])))
    model = from_torch(module, "categorical", (X, CLASSES), prior=2.0)
    assert list(model.layout) == ["weight", "bias", "unused"]
    assert model.full_gradient(model.initial())[-2:].tolist() == [0.5, 1.0]
