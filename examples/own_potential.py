"""A model of your own, as a class: Poisson regression, checked like every model of stalegrad's.

python examples/own_potential.py

``sg.potentials.from_gradient`` wraps a function and is shorter; a class can name its parameters and say where to start.
"""

import numpy as np

import stalegrad as sg
from stalegrad.potentials import Minibatches, Potential


class PoissonRegression(Potential):
    """y_i ~ Poisson(exp(x_iᵀβ)), with the prior N(0, 1) on every coefficient.

    Args:
        X: features, (N, d).
        y: counts, (N,).
        batch_size: J.
    """

    def __init__(self, X, y, batch_size=50):
        self.X, self.y = np.asarray(X, np.float32), np.asarray(y, np.float32)
        super().__init__(self.X.shape[1], Minibatches(len(self.y), batch_size), np.dtype(np.float32))

    def gradient(self, theta, indices):
        """g̃(β) = β + (N/J) Σ_{i ∈ batch} (exp(x_iᵀβ) − y_i) x_i."""
        X, y = self.X[indices], self.y[indices]
        scale = np.float32(self.n_data / len(indices))
        return theta + scale * ((np.exp(X @ theta) - y) @ X)

    @property
    def layout(self):
        """Names and shapes of what θ holds."""
        return {"coefficients": (self.size,)}


def made_up(n_data=2000, seed=1):
    """Counts from known coefficients."""
    rng = np.random.Generator(np.random.Philox(seed))
    X = rng.standard_normal((n_data, 3))
    return X, rng.poisson(np.exp(X @ COEFFICIENTS))


COEFFICIENTS = np.array([0.5, -0.3, 0.1])

if __name__ == "__main__":
    model = PoissonRegression(*made_up())
    sg.testing.check_potential(model)
    run = sg.sample(model, sg.SGLD(step_size=1e-5), steps=20_000, burn_in=4_000, workers=2, engine="processes")
    for name, value in model.variables(run.draws).items():
        print(
            f"{name}: {value.mean(axis=(0, 1)).round(3)} ± {value.std(axis=(0, 1)).round(3)}, made with {COEFFICIENTS}"
        )
