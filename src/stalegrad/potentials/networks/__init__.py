"""The two networks of the paper's experiments, as Caffe's files define them, and how Caffe trained them.

>>> import stalegrad as sg
>>> data = sg.datasets.mnist()  # doctest: +SKIP
>>> model = sg.potentials.from_torch(
...     sg.networks.lenet(), "categorical", data, batch_size=64, transform=sg.networks.lenet_pixels
... )  # doctest: +SKIP
>>> run = sg.sample(model, sg.networks.LENET.kernel(model.n_data), steps=20_000, workers=4)  # doctest: +SKIP
"""

from typing import Any, Literal

from stalegrad._internal.errors import MissingExtra
from stalegrad.potentials.networks.pixels import CentredPixels, lenet_pixels
from stalegrad.potentials.networks.recipe import CIFAR10_QUICK, LENET, Recipe

__all__ = ["CIFAR10_QUICK", "LENET", "CentredPixels", "Layers", "Recipe", "cifar10_quick", "lenet", "lenet_pixels"]

Layers = Literal["caffe", "paper"]
"""Whose list of layers: that of Caffe's files, or what the S²G-MCMC paper says that it used. The parameters are the
same ones, of the same shapes and starting values."""


def lenet(seed: int = 0, layers: Layers = "caffe") -> Any:
    """Caffe's LeNet for images (J, 1, 28, 28): a ``torch.nn.Sequential`` of 431,080 parameters that gives ten logits.

    conv1 20@5×5, maximum over 2×2, conv2 50@5×5, maximum over 2×2, ip1 of 500, ReLU, ip2 of 10, with Caffe's names.
    Weights start as Caffe's "xavier" filler draws them, U(±√(3/fan_in)), and biases at zero.

    Args:
        seed: of the initial weights.
        layers: ``"caffe"``, or ``"paper"``: the paper counts two ReLUs where Caffe's file has one. It does not say
            where the second is; here it follows pool2, between two layers that have no other nonlinearity.

    >>> sum(parameter.numel() for parameter in lenet().parameters())
    431080
    """
    return _networks("sg.networks.lenet").lenet(seed, layers)


def cifar10_quick(seed: int = 0, layers: Layers = "caffe") -> Any:
    """Caffe's Cifar10-Quick for images (J, 3, 32, 32): a ``torch.nn.Sequential`` of 145,578 parameters, ten logits.

    Three convolutions of 5×5 that keep the size, 32, 32 and 64 wide, each followed by a ReLU and by pooling over 3×3
    with stride 2 that rounds up, the first by the maximum and before its ReLU, the others by the mean; ip1 of 64 and
    ip2 of 10. Weights start at N(0, s²) with s = 1e-4, 0.01, 0.01, 0.1, 0.1 layer by layer, and biases at zero.

    Args:
        seed: of the initial weights.
        layers: ``"caffe"``, or ``"paper"``: the paper counts three max-pools, so the two means become maxima.

    >>> sum(parameter.numel() for parameter in cifar10_quick().parameters())
    145578
    """
    return _networks("sg.networks.cifar10_quick").cifar10_quick(seed, layers)


def _networks(feature: str) -> Any:
    try:
        from stalegrad.potentials.networks import networks
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise MissingExtra(feature, "torch") from error
    return networks
