"""The networks themselves. Layers have the names of Caffe's files, so that ``conv1.weight`` is a named piece of θ."""

from collections import OrderedDict
from math import sqrt

import torch
from torch import nn

from stalegrad._internal.validation import one_of, whole_number
from stalegrad.potentials.networks.fourier import FourierConv2d

_LAYERS = ("caffe", "paper")


@torch.random.fork_rng(devices=())  # torch's own initialisation must not move the user's generator
def lenet(seed: int, layers: str) -> nn.Sequential:
    """See :func:`stalegrad.potentials.networks.lenet`."""
    second_relu = {"relu2": nn.ReLU()} if one_of("layers", layers, _LAYERS) == "paper" else {}
    network = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 20, 5),
            pool1=nn.MaxPool2d(2, ceil_mode=True),
            conv2=FourierConv2d(20, 50, 5),
            pool2=nn.MaxPool2d(2, ceil_mode=True),
            **second_relu,
            flatten=nn.Flatten(),
            ip1=nn.Linear(50 * 4 * 4, 500),
            relu1=nn.ReLU(),
            ip2=nn.Linear(500, 10),
        )
    )
    generator = _generator(seed)
    for weight in _weights_with_biases_at_zero(network):
        bound = sqrt(3 / weight[0].numel())  # Caffe's xavier looks at the inputs of a unit alone
        weight.data.uniform_(-bound, bound, generator=generator)
    return network


@torch.random.fork_rng(devices=())
def cifar10_quick(seed: int, layers: str) -> nn.Sequential:
    """See :func:`stalegrad.potentials.networks.cifar10_quick`."""
    pool = nn.MaxPool2d if one_of("layers", layers, _LAYERS) == "paper" else nn.AvgPool2d
    network = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 32, 5, padding=2),
            pool1=nn.MaxPool2d(3, stride=2, ceil_mode=True),
            relu1=nn.ReLU(),
            conv2=FourierConv2d(32, 32, 5, padding=2),
            relu2=nn.ReLU(),
            pool2=pool(3, stride=2, ceil_mode=True),
            conv3=FourierConv2d(32, 64, 5, padding=2),
            relu3=nn.ReLU(),
            pool3=pool(3, stride=2, ceil_mode=True),
            flatten=nn.Flatten(),
            ip1=nn.Linear(64 * 4 * 4, 64),
            ip2=nn.Linear(64, 10),
        )
    )
    generator = _generator(seed)
    for weight, deviation in zip(_weights_with_biases_at_zero(network), (1e-4, 0.01, 0.01, 0.1, 0.1), strict=True):
        weight.data.normal_(std=deviation, generator=generator)
    return network


def _generator(seed: int) -> torch.Generator:
    """A generator of its own: torch's global one stays as it is."""
    return torch.Generator().manual_seed(whole_number("seed", seed, most=(1 << 63) - 1))


def _weights_with_biases_at_zero(network: nn.Module) -> list[nn.Parameter]:
    weights = []
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            weights.append(parameter)
    return weights
