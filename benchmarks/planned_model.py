"""A regression whose posterior is known exactly, for jobs that are planned and then run."""

import numpy as np

import stalegrad as sg


def model(n_data: int = 2000, size: int = 20, batch_size: int = 400, narrow: float = 9.0) -> sg.potentials.Linear:
    """Weights whose posterior deviations differ by a factor √narrow, all data of noise 1.

    Args:
        n_data: N.
        size: d.
        batch_size: J.
        narrow: the largest curvature over the smallest.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_data, size)) * np.geomspace(1.0, narrow**0.5, size)
    y = X @ rng.normal(size=size) + rng.normal(size=n_data)
    return sg.potentials.Linear(X, y, prior_scale=10.0, batch_size=batch_size, dtype=np.float64)
