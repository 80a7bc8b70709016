"""How do I write a model of my own, as a class?
=============================================

Poisson regression: a class with a gradient, checked like every model of stalegrad's. ``sg.potentials.from_gradient``
wraps a function and is shorter; a class can name its parameters and say where to start.
``python examples/own_potential.py``
"""

# %%
# What a model must have is a size, minibatches and a gradient of U on one of them.

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

# %%
# Checked: that gradients of minibatches average to that of all data, that they are functions of θ and the indices
# alone, that the model can be sent to another process. Then sampled by processes, with numbers that the warm-up finds.

if __name__ == "__main__":
    X, y = made_up()
    model = PoissonRegression(X, y)
    sg.testing.check_potential(model)
    run = sg.sample(model, steps=8_000, workers=2, servers=2, engine="processes", progress=False)
    draws = model.variables(run.draws)["coefficients"].reshape(-1, 3)
    print(f"coefficients: {draws.mean(axis=0).round(3)} ± {draws.std(axis=0).round(3)}, made with {COEFFICIENTS}")

    import matplotlib.pyplot as plt

    # Counts that some twenty draws of the coefficients predict for the inputs that were seen.
    rng = np.random.default_rng(0)
    predicted = rng.poisson(np.exp(X @ draws[:: len(draws) // 20].T))
    most = 8
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    for place, truth in enumerate(COEFFICIENTS):
        left.hist(draws[:, place], bins=50, density=True, alpha=0.6, color=f"C{place}")
        left.axvline(truth, color=f"C{place}", linestyle="--")
    left.set(title="coefficients; dashed: what the data were made with", yticks=[])
    shares = np.stack([np.bincount(column, minlength=most + 1)[: most + 1] for column in predicted.T]) / len(y)
    right.bar(np.arange(most + 1), np.bincount(y, minlength=most + 1)[: most + 1] / len(y), color="0.8", label="seen")
    right.errorbar(
        np.arange(most + 1), shares.mean(axis=0), yerr=2 * shares.std(axis=0), fmt="o", ms=4, label="predicted, ± 2 sd"
    )
    right.set(title="counts", xlabel="y")
    right.legend(frameon=False)
    plt.show()
