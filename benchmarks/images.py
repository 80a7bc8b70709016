"""The images of the benchmarks: MNIST and CIFAR-10 where they are at hand, else images of the same shape.

Set ``STALEGRAD_DATA`` to a directory that holds ``mnist`` and ``cifar10`` to use the real ones. The others are bytes:
each of ten classes has a picture of its own, and an image is its class's picture under noise, so that there is
something to learn. What a step costs does not depend on it.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

SHAPES = {"mnist": (28, 28), "cifar10": (3, 32, 32)}
SIZES = {"mnist": (60_000, 10_000), "cifar10": (50_000, 10_000)}


@dataclass(frozen=True, eq=False)
class Images:
    """Bytes and classes, for training and for testing."""

    source: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def load(name: str) -> Images:
    """``"mnist"`` or ``"cifar10"``."""
    if "STALEGRAD_DATA" in os.environ:
        import stalegrad as sg

        data = getattr(sg.datasets, name)()
        return Images(name, data.X, data.y, data.X_test, data.y_test)
    rng = np.random.default_rng(0)
    pictures = rng.integers(256, size=(10, *SHAPES[name]), dtype=np.uint8)
    parts = []
    for count in SIZES[name]:
        y = rng.integers(10, size=count)
        noise = rng.integers(256, size=(count, *SHAPES[name]), dtype=np.uint8)
        parts += [pictures[y] // 4 + noise // 4 * 3, y]
    return Images(f"synthetic, as {name}", *parts)
