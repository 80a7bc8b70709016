"""Small modules and data for the tests of potentials of PyTorch modules."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from stalegrad.potentials import from_torch

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
