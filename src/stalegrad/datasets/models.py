"""Models to try things on, by name: ``function = "stalegrad.datasets.models:digits"`` in a job file.

Each is a function from a few plain arguments to a potential. Simulated data are there at once; ``digits`` needs
scikit-learn, which brings the data along, and ``a9a`` is downloaded once.
"""

import numpy as np

from stalegrad._internal.validation import whole_number
from stalegrad.datasets import a9a as a9a_data
from stalegrad.datasets.digits import digits as digits_data
from stalegrad.kernels.noise import MAX_SEED
from stalegrad.potentials import GaussianMean, Logistic, Softmax


def gaussian(n_data: int = 1000, dimensions: int = 2, batch_size: int = 10, seed: int = 0) -> GaussianMean:
    """The mean of simulated normal data, d_i ~ N(0, I), whose posterior is known in closed form.

    Args:
        n_data: N.
        dimensions: n.
        batch_size: J.
        seed: of the data.

    >>> gaussian(n_data=100, dimensions=3).posterior()[1]
    array([0.00990099, 0.00990099, 0.00990099])
    """
    shape = whole_number("n_data", n_data, least=1), whole_number("dimensions", dimensions, least=1)
    return GaussianMean(_generator(seed).standard_normal(shape), batch_size=batch_size)


def logistic(n_data: int = 1000, dimensions: int = 10, batch_size: int = 50, seed: int = 0) -> Logistic:
    """Logistic regression on simulated data: x_ij ~ N(0, 1), weights that fall from 1 to −1, and labels to match.

    Args:
        n_data: N.
        dimensions: d.
        batch_size: J.
        seed: of the data.
    """
    shape = whole_number("n_data", n_data, least=1), whole_number("dimensions", dimensions, least=1)
    generator = _generator(seed)
    X = generator.standard_normal(shape)
    y = generator.random(n_data) < 1 / (1 + np.exp(-X @ np.linspace(1, -1, dimensions)))
    return Logistic(X, y, batch_size=batch_size)


def digits(batch_size: int = 128) -> Softmax:
    """Which digit is it? The demonstration's model: softmax regression, 650 weights, 1,297 images of 8 × 8 pixels.

    Args:
        batch_size: J.
    """
    return digits_data().model(batch_size)


def a9a(batch_size: int = 50, prior_scale: float = 1.0) -> Logistic:
    """Who earns more than 50,000 dollars a year? Logistic regression with 124 weights on 32,561 people.

    Args:
        batch_size: J.
        prior_scale: ς of the prior N(0, ς²) on every weight.
    """
    data = a9a_data()
    return Logistic(data.X, data.y, prior_scale=prior_scale, batch_size=batch_size, intercept=True)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=whole_number("seed", seed, most=MAX_SEED)))
