"""Potentials of PyTorch modules: gradients against closed forms and differences, bits, copies, predictions."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset

import stalegrad as sg
from stalegrad.estimates.prediction import PredictiveAverage
from stalegrad.potentials import Linear, Softmax, from_torch
from stalegrad.potentials.torch.data import TensorData
from stalegrad.potentials.torch.module import FlatModule
from stalegrad.priors import Laplace, Normal, StudentT

_rng = np.random.default_rng(8)
N = 30
X, CLASSES, Y = _rng.normal(size=(N, 4)), _rng.integers(3, size=N), _rng.normal(size=N)
IMAGES = _rng.normal(size=(N, 2, 6, 6))


def seeded(make, seed=0):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return make()


def perceptron(dtype=torch.float32):
    return seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))).to(dtype)


def convolutional(dtype=torch.float32):
    def make():
        return nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.Softplus(), nn.Flatten(), nn.Linear(12, 3))

    return seeded(make).to(dtype)


def classifier(**options):
    return from_torch(perceptron(), "categorical", (X, CLASSES), **{"batch_size": 6, **options})


class Pairs(Dataset):
    """A map-style data set of NumPy vectors and Python numbers. What it may hold besides is no matter."""

    X, y = 0 * X, 0 * CLASSES

    def __len__(self):
        return N

    def __getitem__(self, i):
        return X[i], CLASSES[i].item()


# ------------------------------------------------------------------------------------------------------ gradients


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
    data, elsewhere = TensorData(x, y), TensorData(odd, y)
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


# ------------------------------------------------------------------------------------------------ modes and copies


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


@pytest.mark.parametrize("engine", ["threads", "processes"])
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


# --------------------------------------------------------------------------------------------------------- refusals


class Noisy(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, training=True)


class Counting(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach()


class Augmented(Pairs):
    def __getitem__(self, i):
        return X[i] + np.random.default_rng().normal(size=4), CLASSES[i].item()


class Words(Pairs):
    def __getitem__(self, i):
        return "word"


def batch_normalised(**options):
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, **options), nn.Linear(8, 3))


class Two(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


@pytest.mark.parametrize(("changes", "message"), [
    ({"module": len}, r"module=.*is a builtin_function_or_method\. Give a torch\.nn\.Module"),
    ({"module": nn.LazyLinear(3)}, r"module=.*has parameters without values or even.*Apply the module"),
    ({"module": nn.ReLU()}, "module=.*has no parameters to sample. Give a module with parameters that require"),
    ({"module": perceptron().requires_grad_(False)}, "module=.*has no parameters to sample"),
    ({"module": perceptron().half()}, r"module=.*has parameters of torch\.float16 on cpu\. Bring all to one device"),
    ({"module": nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3).double())}, r"torch\.float32 on cpu, torch\.float64 on"),
    ({"module": nn.Linear(4, 3, device="meta")}, "module=.*has parameters without values or even a shape"),
    ({"module": batch_normalised()}, r"module\.1=BatchNorm1d.*normalises by its minibatch.*\.eval\(\).*GroupNorm"),
    ({"module": batch_normalised(track_running_stats=False).eval()}, r"module\.1=.*track_running_stats=True"),
    ({"module": nn.Sequential(nn.Dropout(0.1), perceptron())}, r"module\.0=Dropout.*random numbers.*module\.eval\(\)"),
    ({"module": Noisy(4, 3)}, "module=.*draws random numbers, so that a run could not be replayed"),
    ({"module": Counting()}, "module=.*changes its buffer 'calls' when it is applied. Freeze it"),
    ({"module": Detached(4, 3)}, "module=.*it has no gradient. Compute output and loss with torch"),
    ({"module": nn.Linear(5, 3)}, r"module=.*cannot be applied to data of shape \(2, 4\) and type torch\.float32"),
    ({"module": Two(4, 3)}, r"module=.*gives a tuple for data of shape \(2, 4\)\. Return one tensor"),
    ({"loss": "hinge"}, "loss='hinge': is not known. Give one of: 'categorical', 'gaussian'"),
    ({"loss": F.cross_entropy}, "loss=.*for the same two data twice. Return the sum over the data, not the mean"),
    ({"loss": lambda o, y: o}, r"loss=.*returns shape \(2, 3\) for two data\. Return −log p of each datum"),
    ({"loss": lambda o, y: 1.0}, "loss=.*returns a float for two data"),
    ({"loss": "gaussian"}, r"loss='gaussian': does not go with outputs of shape \(2, 3\) for two data, and y \(30,\)"),
    ({"loss": "gaussian", "noise_scale": 0}, "noise_scale=0: is out of range"),
    ({"module": nn.Linear(4, 1)}, r"loss='categorical': does not go with outputs of shape \(2, 1\)"),
    ({"module": nn.Linear(4, 1), "loss": "gaussian", "data": (X, np.where(Y > 1, np.nan, Y))}, "y=.*holds NaN"),
    ({"data": (X, CLASSES + 1)}, "y=.*holds classes from 1 to 3, but the module has 3 outputs. Give whole .* 0 to 2"),
    ({"data": (X, CLASSES - 1)}, "y=.*holds classes from -1 to 1"),
    ({"data": (X, CLASSES + 0.5)}, "y=.*holds values that are not classes. Give whole numbers"),
    ({"data": (X, CLASSES[:5])}, r"data='\(X, y\)': has shapes \(30, 4\) and \(5,\)\. Give arrays whose first axes"),
    ({"data": (X[:0], CLASSES[:0])}, r"has shapes \(0, 4\) and \(0,\)"),
    ({"data": (np.where(X > 1, np.nan, X), CLASSES)}, "X=.*holds NaN or infinite values. Clean the data, or"),
    ({"data": (X.astype(complex), CLASSES)}, "X=.*is not a numeric array"),
    ({"data": (X, CLASSES, X)}, r"data=.*is a tuple\. Give a pair \(X, y\)"),
    ({"data": 3}, r"data=3: is a int\. Give a pair \(X, y\)"),
    ({"data": Augmented()}, "data=.*gives another datum 0 each time it is asked. Take random augmentation out"),
    ({"data": Words()}, r"data=.*does not give pairs \(x, y\) of numbers"),
    ({"prior": {"conv*": 1.0, "*": 2.0}}, r"prior=.*entry 'conv\*' that no parameter gets.*0\.weight, 0\.bias"),
    ({"prior": 0}, "prior=0: is out of range"),
    ({"batch_size": 31}, "batch_size=31: is more than the 30 data there are"),
    ({"scheme": "x"}, "scheme='x': is not known"),
    ({"transform": 2}, "transform=2: cannot be called. Give a function of a minibatch"),
    ({"threads": 0}, "threads=0: is out of range"),
])  # fmt: skip
def test_refusals(changes, message):
    arguments = {"module": perceptron(), "loss": "categorical", "data": (X, CLASSES)} | changes
    with pytest.raises(sg.ArgumentError, match=f"(?s){message}"):
        from_torch(**arguments)


@pytest.mark.parametrize(("theta", "indices", "message"), [
    (np.zeros(3), np.array([0]), r"theta=.*has shape \(3,\)\. Give a vector of 67 entries"),
    (np.zeros(67), np.array([N]), "indices=.*outside the data. Give a vector of indices from 0 to 29"),
    (np.zeros(67), np.array([-1]), "indices=.*outside the data"),
    (np.zeros(67), np.array([], int), "indices=.*is empty or reaches outside"),
])  # fmt: skip
def test_gradient_refuses(theta, indices, message):
    with pytest.raises(sg.ArgumentError, match=f"(?s){message}"):
        classifier().gradient(theta, indices)


def test_other_methods_refuse():
    model = classifier()
    with pytest.raises(sg.ArgumentError, match=r"theta=.*has shape \(1, 3\) and out \(1, 3\)\. Give both as \(R, 67\)"):
        model.gradients(np.zeros((1, 3)), np.zeros((1, 6), int), np.zeros((1, 3)))
    with pytest.raises(sg.ArgumentError, match=r"theta=.*has shape \(3,\)\. Give a vector of 67 entries"):
        model.predict(np.zeros(3), X)
    with pytest.raises(sg.ArgumentError, match=r"y=.*has 5 entries, but X has 30 rows\. Give one entry for each row"):
        model.log_likelihood(model.initial(), X, CLASSES[:5])


def test_without_torch_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("stalegrad.potentials.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(sg.MissingExtra, match=r"from_torch needs an optional dependency: .*'stalegrad\[torch\]'"):
        from_torch(None, "categorical", (X, CLASSES))
