"""From the bytes of images to what the networks were trained on: transforms of minibatches, for ``from_torch``."""

from typing import Any

import numpy as np


def lenet_pixels(x: Any) -> Any:
    """Bytes (J, 28, 28) as MNIST has them, times 1/256 as Caffe's LeNet wants them, (J, 1, 28, 28).

    >>> import torch
    >>> float(lenet_pixels(torch.full((1, 1, 28, 28), 128, dtype=torch.uint8)).max())
    0.5
    """
    return x.unsqueeze(-3).float() / 256


class CentredPixels:
    """Bytes minus the mean image of the training set, as Caffe's Cifar10-Quick wants them.

    Args:
        X: the images of the training set, (N, …).

    >>> import numpy as np
    >>> import torch
    >>> train = np.array([[[10, 20]], [[30, 40]]], dtype=np.uint8)
    >>> CentredPixels(train)(torch.from_numpy(train)).tolist()
    [[[-10.0, -10.0]], [[10.0, 10.0]]]
    """

    def __init__(self, X: Any) -> None:
        self.mean = np.mean(X, axis=0, dtype=np.float64).astype(np.float32)
        """The mean image."""

    def __call__(self, x: Any) -> Any:
        """A minibatch, centred."""
        pixels = x.float()
        return pixels - pixels.new_tensor(self.mean)
