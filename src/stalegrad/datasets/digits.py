"""Handwritten digits of 8 × 8 pixels, which scikit-learn brings along."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import MissingExtra
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials import Softmax

TEST_ROWS = 500
SPLIT_SEED = 0  # apart from the seed of the sampling: every run has the same posterior


class Digits(NamedTuple):
    """The data, split in two."""

    train: Array
    train_y: IntArray
    test: Array
    test_y: IntArray
    test_images: Array
    """As they were: (row, 8, 8) with values from 0 to 16."""

    def model(self, batch_size: int) -> Softmax:
        """The posterior of softmax regression on the training images."""
        return Softmax(self.train, self.train_y, n_classes=10, prior_scale=1.0, batch_size=batch_size, intercept=True)


def digits() -> Digits:
    """1,297 images for training and 500 for the test, chosen at random once and for all."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise MissingExtra("the data set of digits", "sklearn") from error
    bunch = load_digits()
    order = np.random.Generator(np.random.Philox(SPLIT_SEED)).permutation(len(bunch.target))
    train, test = order[:-TEST_ROWS], order[-TEST_ROWS:]
    pixels = bunch.data / 16
    centred = (pixels - pixels[train].mean(axis=0)).astype(np.float32)
    return Digits(centred[train], bunch.target[train], centred[test], bunch.target[test], bunch.images[test])
