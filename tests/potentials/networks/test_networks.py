"""The networks of the paper: what Caffe's files say about them."""

import pickle
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import stalegrad as sg
from stalegrad.potentials import networks as models

LENET = {
    "conv1.weight": (20, 1, 5, 5), "conv1.bias": (20,), "conv2.weight": (50, 20, 5, 5), "conv2.bias": (50,),
    "ip1.weight": (500, 800), "ip1.bias": (500,), "ip2.weight": (10, 500), "ip2.bias": (10,),
}  # fmt: skip
CIFAR10_QUICK = {
    "conv1.weight": (32, 3, 5, 5), "conv1.bias": (32,), "conv2.weight": (32, 32, 5, 5), "conv2.bias": (32,),
    "conv3.weight": (64, 32, 5, 5), "conv3.bias": (64,), "ip1.weight": (64, 1024), "ip1.bias": (64,),
    "ip2.weight": (10, 64), "ip2.bias": (10,),
}  # fmt: skip


def parameters(network):
    return {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}


@pytest.mark.parametrize(("network", "shapes", "size"), [
    (models.lenet, LENET, 431_080), (models.cifar10_quick, CIFAR10_QUICK, 145_578),
])  # fmt: skip
def test_parameters(network, shapes, size):
    found = parameters(network())
    assert {name: values.shape for name, values in found.items()} == shapes
    assert sum(values.size for values in found.values()) == size
    assert all(not values.any() for name, values in found.items() if name.endswith("bias"))


def test_layers_of_lenet():
    kinds = [type(layer).__name__ for layer in models.lenet()]
    assert kinds == ["Conv2d", "MaxPool2d", "FourierConv2d", "MaxPool2d", "Flatten", "Linear", "ReLU", "Linear"]


def test_layers_of_cifar10_quick():
    kinds = [type(layer).__name__ for layer in models.cifar10_quick()]
    assert kinds == [
        "Conv2d", "MaxPool2d", "ReLU", "FourierConv2d", "ReLU", "AvgPool2d", "FourierConv2d", "ReLU", "AvgPool2d",
        "Flatten", "Linear", "Linear",
    ]  # fmt: skip


def test_the_papers_layers_have_the_same_parameters():
    for network, counts in ((models.lenet, {"ReLU": 2, "MaxPool2d": 2}), (models.cifar10_quick, {"MaxPool2d": 3})):
        caffe, paper = network(seed=3), network(seed=3, layers="paper")
        kinds = [type(layer).__name__ for layer in paper]
        assert {kind: kinds.count(kind) for kind in counts} == counts
        assert "AvgPool2d" not in kinds
        for name, values in parameters(caffe).items():
            assert np.array_equal(values, parameters(paper)[name])
    with pytest.raises(sg.ArgumentError, match=r"layers='mine'"):
        models.lenet(layers="mine")


def test_pooling_rounds_up_and_divides_by_the_pixels_there_are():
    """The last window of 32 pixels holds two of three: Caffe keeps it, and its mean is over those two."""
    network = models.cifar10_quick()
    row = torch.arange(32.0).expand(1, 1, 32, 32)
    assert network.pool1(row)[0, 0, 0].tolist() == [*range(2, 32, 2), 31]
    assert network.pool2(row)[0, 0, 0].tolist() == [*range(1, 31, 2), 30.5]
    assert models.lenet().pool1(torch.zeros(1, 1, 5, 5)).shape == (1, 1, 3, 3)


def test_xavier_of_caffe():
    """U(±√(3/fan_in)). The largest of n draws is further than 20/n below the bound with probability e⁻²⁰; mean and
    deviation are off by more than five of their standard errors with probability 6e-7."""
    for name, values in parameters(models.lenet(seed=3)).items():
        if name.endswith("weight"):
            bound = np.sqrt(3 / values[0].size)
            assert abs(values).max() <= bound
            assert abs(values).max() > bound * (1 - 20 / values.size)
            assert abs(values.mean()) < 5 * bound / np.sqrt(3 * values.size)
            assert_allclose(values.std(), bound / np.sqrt(3), rtol=5 * np.sqrt(0.2 / values.size))


def test_normal_scales_of_caffe():
    """A sample's deviation differs from s by more than 5 s/√2n with probability 6e-7."""
    found = parameters(models.cifar10_quick(seed=3))
    deviations = {"conv1": 1e-4, "conv2": 0.01, "conv3": 0.01, "ip1": 0.1, "ip2": 0.1}
    for layer, deviation in deviations.items():
        values = found[f"{layer}.weight"]
        assert_allclose(values.std(), deviation, rtol=5 / np.sqrt(2 * values.size))
        assert abs(values.mean()) < 5 * deviation / np.sqrt(values.size)


@pytest.mark.parametrize("network", [models.lenet, models.cifar10_quick])
def test_weights_are_a_function_of_the_seed_and_leave_the_global_generator_alone(network):
    before = torch.get_rng_state()
    one, same, other = (parameters(network(seed=seed))["conv1.weight"] for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert one.tobytes() == same.tobytes()
    assert (one != other).all()


def test_recipes_are_those_of_the_authors():
    lenet = models.LENET.kernel(n_data=60_000)
    assert lenet == sg.SGHMC.from_sgd(lr=0.001, momentum=0.9, n_data=60_000, gamma=1e-4, power=0.75)
    assert models.CIFAR10_QUICK.kernel(n_data=50_000) == sg.SGHMC.from_sgd(lr=0.001, momentum=0.9, n_data=50_000)
    caffe = models.LENET.kernel(n_data=60_000, lr=0.01, integrator="splitting")
    assert (caffe.schedule(0), caffe.order) == (pytest.approx(np.sqrt(0.01 / 60_000)), 2)
    assert (models.LENET.batch_size, models.CIFAR10_QUICK.batch_size) == (64, 100)


def test_pixels():
    digits = torch.randint(256, (3, 28, 28), dtype=torch.uint8)
    scaled = models.lenet_pixels(digits)
    assert (scaled.shape, scaled.dtype) == ((3, 1, 28, 28), torch.float32)
    assert torch.equal(scaled[:, 0], digits.float() / 256)
    colours = np.random.default_rng(1).integers(256, size=(7, 3, 4, 4), dtype=np.uint8)
    centred = pickle.loads(pickle.dumps(models.CentredPixels(colours)))(torch.from_numpy(colours))
    assert centred.dtype == torch.float32
    assert_allclose(centred.mean(0), 0, atol=1e-4)
    assert_allclose(centred - centred[:1], colours - colours[:1].astype(float), atol=1e-4)


def test_lenet_learns_digits_that_are_easy():
    """Ten images, one of each class: forty steps of a cold chain tell them apart."""
    images = np.random.default_rng(5).integers(256, size=(10, 28, 28), dtype=np.uint8)
    model = sg.potentials.from_torch(
        models.lenet(), "categorical", (images, np.arange(10)), transform=models.lenet_pixels
    )
    kernel = models.LENET.kernel(model.n_data, lr=0.01, temperature=0.0)
    run = sg.sample(model, kernel, steps=40, engine="inline", progress=False, thin=40)
    before, after = (
        -model.log_likelihood(theta, images, np.arange(10)).mean() for theta in (model.initial(), run.draws[0, -1])
    )
    assert before == pytest.approx(np.log(10), abs=1)
    assert after < 0.5


@pytest.mark.parametrize("network", [models.lenet, models.cifar10_quick])
def test_without_torch_the_extra_is_named(network, monkeypatch):
    monkeypatch.delitem(sys.modules, "stalegrad.potentials.networks.networks", raising=False)
    monkeypatch.delattr(models, "networks", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        sg.MissingExtra, match=rf"sg.networks.{network.__name__} needs .*pip install 'stalegrad\[torch\]'"
    ):
        network()


def test_seeds_are_whole_numbers():
    with pytest.raises(sg.ArgumentError, match=r"seed=1\.5: is not a whole number"):
        models.lenet(seed=1.5)
