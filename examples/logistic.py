"""The model of logistic.toml. Yours would read its data; this one makes them, so that there is nothing to download."""

import numpy as np

import stalegrad as sg

WEIGHTS = np.linspace(-1.0, 1.0, 20)


def model(n_data: int, batch_size: int) -> sg.potentials.Logistic:
    """Logistic regression on simulated data, with the prior N(0, 1) on every weight.

    Args:
        n_data: N.
        batch_size: J.
    """
    generator = np.random.default_rng(7)
    X = generator.standard_normal((n_data, len(WEIGHTS)))
    y = generator.random(n_data) < 1 / (1 + np.exp(-X @ WEIGHTS))
    return sg.potentials.Logistic(X, y, prior_scale=1.0, batch_size=batch_size)
