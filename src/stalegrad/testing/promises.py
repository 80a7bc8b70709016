"""How a check of this package says that a promise is broken, and the small models that checks are made on."""

import numpy as np

from stalegrad.potentials import GaussianMean, Logistic


def promise(kept: bool, otherwise: str) -> None:
    """Raise AssertionError with the words ``otherwise`` unless a promise was kept."""
    if not kept:
        raise AssertionError(otherwise)


def small_model() -> GaussianMean:
    """Forty data in five dimensions, in minibatches of four.

    >>> mean, variance = small_model().posterior()
    >>> mean.shape
    (5,)
    """
    data = np.random.Generator(np.random.Philox(key=1)).standard_normal((40, 5))
    return GaussianMean(data, batch_size=4)


def small_logistic() -> Logistic:
    """A logistic regression of forty data on three features, in minibatches of four.

    >>> small_logistic().size
    3
    """
    rng = np.random.Generator(np.random.Philox(key=1))
    return Logistic(rng.standard_normal((40, 3)), rng.integers(0, 2, 40), batch_size=4)
