"""Potentials of PyTorch modules in use: modes, copies, bits, pickles, predictions."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn import functional as F

import stalegrad as sg
from stalegrad.analysis.estimates.prediction import PredictiveAverage
from stalegrad.potentials import from_torch
from stalegrad.potentials.frontends.torch.module import FlatModule
from stalegrad.potentials.priors import Laplace

from .torch_models import CLASSES, IMAGES, N, Pairs, X, classifier, convolutional, perceptron, seeded


def test_the_users_module_is_left_alone_and_does_not_matter_afterwards():
    module = perceptron()
    module(torch.zeros(1, 4)).sum().backward()
    before = [p.detach().clone() for p in module.parameters()]
    gradients = [p.grad.clone() for p in module.parameters()]
    model = from_torch(module, "categorical", (X, CLASSES))
    first = model.full_gradient(model.initial())
    for parameter, old, gradient in zip(module.parameters(), before, gradients, strict=True):
        assert torch.equal(parameter, old)
        assert torch.equal(parameter.grad, gradient)
    with torch.no_grad():
        module[0].weight.fill_(9.0)
    assert model.full_gradient(model.initial()).tobytes() == first.tobytes()
    model.initial()[:] = 0
    assert model.initial().any()


def test_module_at_is_a_module_of_ones_own():
    model = classifier()
    theta = np.arange(model.size, dtype=np.float32) / 100
    module = model.module_at(theta)
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    assert flat.tolist() == theta.tolist()
    gradient = model.full_gradient(theta)
    with torch.no_grad():
        module[0].weight.zero_()
    assert model.full_gradient(theta).tobytes() == gradient.tobytes()


def test_frozen_batch_norm_and_switched_off_dropout_are_used_as_they_are():
    module = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)))
    module(torch.randn(64, 4, generator=torch.Generator().manual_seed(1)))  # the statistics are no longer 0 and 1
    model = from_torch(module.eval(), "categorical", (X, CLASSES), batch_size=3)
    assert list(model.layout) == ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
    with torch.no_grad():
        expected = torch.softmax(module(torch.from_numpy(X).float()).double(), 1)
    assert_allclose(model.predict(model.initial(), X), expected, rtol=1e-6)
    model.gradient(model.initial(), np.arange(3))
    assert_allclose(model.predict(model.initial(), X), expected, rtol=1e-6)


def test_arrays_on_the_host_and_on_the_device_go_through_the_same_steps():
    """What a module on another device does, here on this one: θ and gradient pass through staging arrays."""
    model = classifier()
    theta, indices = model.initial(), model.minibatches.draw(0, 0, 0, 0)
    direct = model.gradient(theta, indices)
    staged = FlatModule(perceptron(), staged=True)
    assert staged.theta.data_ptr() != staged._host.data_ptr()
    model._idle[:] = [staged]
    assert model.gradient(theta + 1, indices).tobytes() != direct.tobytes()
    assert model.gradient(theta, indices).tobytes() == direct.tobytes()
    assert model._idle == [staged]


# ------------------------------------------------------------------------------------------------------------ bits


def test_rows_of_gradients_have_the_bits_of_single_gradients():
    model = classifier()
    theta = np.random.default_rng(2).normal(size=(4, model.size)).astype(np.float32)
    indices = model.minibatches.draw_many(1, 0, [0], [0], repeats=4)[0]
    out = np.empty_like(theta)
    model.gradients(theta, indices, out)
    assert out.tobytes() == np.stack([model.gradient(t, i) for t, i in zip(theta, indices, strict=True)]).tobytes()


@pytest.mark.parametrize("data", [(X, CLASSES), (IMAGES, CLASSES)], ids=["perceptron", "convolutional"])
def test_threads_that_ask_together_get_the_bits_of_one_after_the_other(data):
    module = (perceptron if data[0] is X else convolutional)()
    model = from_torch(module, "categorical", data, batch_size=8)
    points = np.random.default_rng(3).normal(size=(300, model.size)).astype(np.float32)
    indices = model.minibatches.draw_many(0, 0, np.zeros(300, int), np.arange(300), repeats=1)[:, 0]
    expected = [model.gradient(*pair).tobytes() for pair in zip(points, indices, strict=True)]
    assert len(model._idle) == 1
    with ThreadPoolExecutor(4) as pool:
        found = [g.tobytes() for g in pool.map(model.gradient, points, indices)]
    assert found == expected
    assert len(model._idle) <= 4


@pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_a_run_of_a_network_replays(engine):
    model = from_torch(
        convolutional(), "categorical", (IMAGES, CLASSES), prior={"0.*": Laplace(1.0), "*": 2.0}, batch_size=7
    )
    kernel = sg.SGHMC.from_sgd(lr=0.05, momentum=0.9, n_data=N, gamma=0.01)
    run = sg.sample(model, kernel, steps=80, workers=3, seed=4, engine=engine, progress=False)
    assert run.events == ()
    assert np.ptp(run.draws, axis=1).min() > 0
    assert sg.replay(run.trace, model, kernel).draws.tobytes() == run.draws.tobytes()
    repeated = sg.replay(run.trace, model, kernel, repeats=2)
    assert repeated.draws[0].tobytes() == run.draws.tobytes()


def test_the_number_of_threads_is_the_models_inside_and_the_users_outside():
    seen = []

    def loss(output, y):
        seen.append(torch.get_num_threads())
        return F.cross_entropy(output, y, reduction="none")

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        model = from_torch(perceptron(), loss, (X, CLASSES), threads=2)
        model.full_gradient(model.initial())
        assert set(seen) == {2}
        assert torch.get_num_threads() == 3
        with pytest.raises(IndexError):
            model.gradients(model.initial()[None], np.array([[N]]), np.empty((1, model.size), np.float32))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_only_a_process_without_threads_or_files_is_forked():
    assert classifier().fork_safe
    assert not classifier(threads=2).fork_safe
    assert not from_torch(perceptron(), "categorical", Pairs()).fork_safe


@pytest.mark.parametrize("no_gradients", [torch.no_grad, torch.inference_mode])
def test_the_callers_mode_of_differentiation_does_not_matter(no_gradients):
    model = classifier()
    expected = model.full_gradient(model.initial())
    with no_gradients():
        assert model.full_gradient(model.initial()).tobytes() == expected.tobytes()
        model._idle.clear()
        assert model.full_gradient(model.initial()).tobytes() == expected.tobytes()


# --------------------------------------------------------------------------------------------- pickles, predictions


def test_an_earlier_gradient_is_not_written_to_again():
    model = classifier()
    theta = model.initial()
    first = model.full_gradient(theta)
    kept = first.copy()
    model.full_gradient(theta + 1)
    model.predict(theta + 1, X)
    assert first.tobytes() == kept.tobytes()
    out = np.empty((2, model.size), np.float32)
    for row in (0, 1, 0):
        model.gradients(theta[None] + row, np.arange(N)[None], out[row : row + 1])
    assert out[0].tobytes() != out[1].tobytes() == model.full_gradient(theta + 1).tobytes()


def test_survives_pickling():
    model = classifier(prior={"0.*": Laplace(0.5), "*": 1.0}, scheme="replacement", threads=2)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.minibatches, copy.threads, copy.layout) == (model.minibatches, 2, model.layout)
    theta, indices = model.initial() + 1, model.minibatches.draw(1, 0, 0, 0)
    assert copy.initial().tobytes() == model.initial().tobytes()
    assert copy.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()


def test_closures_are_sent_with_cloudpickle_and_data_apart_from_them():
    offset = 0.5
    buffers = []
    model = from_torch(
        perceptron(),
        lambda output, y: F.cross_entropy(output, y, reduction="sum"),
        (np.tile(X, (40, 1)), np.tile(CLASSES, 40)),
        batch_size=5,
        transform=lambda x: x + offset,
    )
    body = cloudpickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    assert len(body) < 20_000 < sum(buffer.raw().nbytes for buffer in buffers)
    copy = pickle.loads(body, buffers=buffers)
    theta, indices = model.initial(), np.arange(5)
    assert copy.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()


@pytest.mark.parametrize("offset", [0, 1])
def test_no_view_of_the_data_travels_beside_them(offset):
    """Wherever they lie: rows at an address of the right alignment are views, which torch pickles with all data."""
    inputs, classes = aligned(np.tile(X, (40, 1)), offset), aligned(np.tile(CLASSES, 40), offset)
    model = from_torch(perceptron(), "categorical", (inputs, classes), batch_size=5)
    buffers = []
    assert len(cloudpickle.dumps(model, protocol=5, buffer_callback=buffers.append)) < 20_000
    assert sum(buffer.raw().nbytes for buffer in buffers) < inputs.nbytes


def aligned(values, offset):
    """A copy whose address is so many numbers beyond a multiple of 64."""
    memory = np.empty(values.nbytes + 128, np.uint8)
    first = -memory.ctypes.data % 64 + offset * values.itemsize
    copy = memory[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def test_predictions_of_many_rows_and_draws():
    model = classifier()
    rows = np.random.default_rng(4).normal(size=(2300, 4))
    draws = np.random.default_rng(5).normal(size=(3, model.size)).astype(np.float32)
    average = PredictiveAverage()
    for theta in draws:
        average.add(model.predict(theta, rows))
    with torch.no_grad():
        expected = [torch.softmax(model.module_at(t)(torch.from_numpy(rows).float()).double(), 1) for t in draws]
    assert_allclose(average.probabilities, np.mean(np.stack(expected), axis=0), rtol=1e-5)
    labels = rows[:, 0] > 0
    losses = model.log_likelihood(draws[0], rows, labels)
    assert losses.shape == (2300,)
    assert_allclose(losses, np.log(expected[0].numpy()[np.arange(2300), labels.astype(int)]), rtol=1e-5)
