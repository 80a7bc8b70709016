"""How Caffe trains a network, in the terms of a sampler."""

from dataclasses import dataclass
from typing import Any

from stalegrad.kernels import SGHMC


@dataclass(frozen=True)
class Recipe:
    """Minibatches and learning rate of SGD with momentum, which :meth:`kernel` turns into SGHMC.

    Caffe's files double the learning rate of biases and decay the weights; a sampler has one step size for all
    coordinates, and its prior in place of the decay.

    Args:
        batch_size: J.
        lr: learning rate for the mean loss, at the start.
        momentum: m.
        gamma: γ of the policy "inv", lr (1 + γl)^(−p); 0 keeps the rate fixed.
        power: p of the policy "inv".

    >>> kernel = LENET.kernel(n_data=60_000)
    >>> f"{kernel.schedule(0):.3g} {kernel.schedule(10_000):.3g} {kernel.friction:.3g}"
    '0.000129 9.96e-05 775'
    """

    batch_size: int
    lr: float
    momentum: float = 0.9
    gamma: float = 0.0
    power: float = 0.75

    def kernel(self, n_data: int, **options: Any) -> SGHMC:
        """:meth:`SGHMC.from_sgd` with these numbers; ``options`` take the place of some or are its others."""
        numbers = {"lr": self.lr, "momentum": self.momentum, "gamma": self.gamma, "power": self.power}
        return SGHMC.from_sgd(n_data=n_data, **(numbers | options))


LENET = Recipe(batch_size=64, lr=0.001, gamma=1e-4)
"""Of the paper's authors. Caffe's own file has lr = 0.01, which is stable with fresh gradients only."""

CIFAR10_QUICK = Recipe(batch_size=100, lr=0.001)
"""Caffe's own, and the authors'."""
