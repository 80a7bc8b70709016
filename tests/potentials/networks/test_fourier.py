"""Convolutions by Fourier transforms: the function of torch's own, in value and gradients, with fewer roundings."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stalegrad.potentials import from_torch, networks  # noqa: E402
from stalegrad.potentials.networks.fourier import FourierConv2d  # noqa: E402

# batch, channels in and out, weights, padding, height, width: grids of even and odd length, and one place of y.
SHAPES = [(3, 4, 5, 5, 0, 12, 12), (2, 3, 6, 5, 2, 16, 9), (2, 3, 4, 3, 1, 7, 8), (1, 1, 1, 5, 0, 5, 5)]


def both(shape, dtype):
    """The outcome and all gradients of the layer, and of torch's own with the same parameters."""
    count, inputs, outputs, size, padding, height, width = shape
    random = torch.Generator().manual_seed(1)
    layer = FourierConv2d(inputs, outputs, size, padding=padding)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=random)
    direct = torch.nn.Conv2d(inputs, outputs, size, padding=padding)
    direct.load_state_dict(layer.state_dict())
    x = torch.randn(count, inputs, height, width, generator=random)
    found = []
    for module, kind in ((layer.to(dtype), dtype), (direct.double(), torch.float64)):
        mine = x.to(kind, copy=True).requires_grad_()
        y = module(mine)
        y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).to(kind))
        found.append([y.detach(), mine.grad, module.weight.grad, module.bias.grad])
    return zip(*found, strict=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_value_and_gradients_are_those_of_the_direct_convolution(shape, dtype, bound):
    for mine, theirs in both(shape, dtype):
        assert mine.shape == theirs.shape
        assert (mine - theirs).abs().max() <= bound * theirs.abs().max()


def test_images_that_need_no_gradient_get_none():
    layer = FourierConv2d(2, 3, 5)
    layer(torch.ones(1, 2, 8, 8)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.abs().min() > 0


def test_without_gradients_and_in_other_types_it_is_the_direct_one():
    layer = FourierConv2d(2, 3, 5, padding=2)
    x = torch.randn(4, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    direct = torch.nn.functional.conv2d(x, layer.weight, layer.bias, padding=2)
    with torch.no_grad():
        assert torch.equal(layer(x), direct)
    assert layer(x[0]).shape == direct[0].shape  # one picture without a batch


def test_autocast_does_not_round_transforms():
    layer = FourierConv2d(2, 3, 5, padding=2)
    x = torch.randn(4, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    layer(x).pow(2).sum().backward()
    exact, layer.weight.grad = layer.weight.grad, None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).pow(2).sum().backward()
        assert layer(x.bfloat16()).dtype == torch.bfloat16  # the direct one: what autocast makes of layers before
    assert torch.equal(layer.weight.grad, exact)


def test_gradients_of_single_pictures_by_torchs_transformations():
    """One gradient for each picture of a batch, by vmap over grad, against a loop of backward passes."""
    layer = FourierConv2d(2, 3, 5, padding=2)
    parameters = {name: value.detach() for name, value in layer.named_parameters()}
    x = torch.randn(4, 2, 8, 8, generator=torch.Generator().manual_seed(0))

    def loss(some, picture):
        return torch.func.functional_call(layer, some, (picture[None],)).pow(2).sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)["weight"]
    for mine, picture in zip(each, x, strict=True):
        (theirs,) = torch.autograd.grad(layer(picture[None]).pow(2).sum(), layer.weight)
        assert (mine - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_second_derivatives_are_refused():
    layer = FourierConv2d(1, 1, 3)
    x = torch.ones(1, 1, 5, 5, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(x).pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("name", ["lenet", "cifar10_quick"])
def test_a_network_has_the_gradient_of_its_direct_layers(name):
    network = getattr(networks, name)(seed=3)
    assert sum(isinstance(layer, FourierConv2d) for layer in network) >= 1
    plain = copy.deepcopy(network)
    for key, layer in list(plain.named_children()):
        if isinstance(layer, FourierConv2d):
            direct = torch.nn.Conv2d(layer.in_channels, layer.out_channels, 5, padding=layer.padding)
            direct.load_state_dict(layer.state_dict())
            setattr(plain, key, direct)
    rng = np.random.default_rng(0)
    pixels = (1, 28, 28) if name == "lenet" else (3, 32, 32)
    X = rng.standard_normal((8, *pixels)).astype(np.float32)
    data = X, rng.integers(0, 10, 8)
    mine, theirs = (from_torch(each, "categorical", data, batch_size=8) for each in (network, plain))
    assert list(mine.layout) == list(theirs.layout)
    theta, rows = mine.initial(), np.arange(8)
    ours, other = mine.gradient(theta, rows), theirs.gradient(theta, rows)
    assert np.abs(ours - other).max() <= 1e-4 * np.abs(other).max()
    assert np.array_equal(ours, mine.gradient(theta, rows))  # the same bits every time
