"""Where does a classifier hesitate?
=================================

A Bayesian neural network written in Equinox: two moons that reach into each other, two workers, and predictions that
are averaged over the posterior. ``python examples/equinox_module.py``, with the extra ``examples``.
"""

# %%
# A module, and its parameters as a pytree.

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg
from stalegrad.analysis.estimates import PredictiveAverage


def two_moons(n: int, seed: int) -> dict[str, np.ndarray]:
    """Points on two half circles that reach into each other, with noise."""
    rng = np.random.default_rng(seed)
    moon, angle = rng.integers(2, size=n), rng.uniform(0, np.pi, size=n)
    x = np.stack([np.cos(angle) + moon - 0.5, np.sin(angle) * (1 - 2 * moon) + moon / 2 - 0.25], axis=1)
    return {"x": x + rng.normal(scale=0.2, size=x.shape), "moon": moon}


# 1. A module is a pytree: the arrays in it are the parameters, and all else is put back by eqx.combine.
network = eqx.nn.MLP(in_size=2, out_size=2, width_size=16, depth=2, activation=jnp.tanh, key=jax.random.key(0))
params, rest = eqx.partition(network, eqx.is_inexact_array)


def log_prior(params: eqx.Module) -> jax.Array:
    """N(0, 1) on every weight."""
    return sum(-0.5 * jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def log_likelihood(params: eqx.Module, datum: dict[str, jax.Array]) -> jax.Array:
    """Of one point: the network is called with a single x."""
    return jax.nn.log_softmax(eqx.combine(params, rest)(datum["x"]))[datum["moon"]]


# 2. Gather, map over the minibatch and differentiation are one compiled call.
potential = sg.potentials.from_jax(log_prior, log_likelihood, two_moons(1000, seed=1), params, batch_size=100)

# 3. Two workers whose gradients the server takes as they come.
kernel = sg.SGHMC(step_size=0.004, friction=10.0, integrator="splitting")
run = sg.sample(potential, kernel, steps=6_000, workers=2, burn_in=2_000, thin=20, seed=0, progress=False)


# 4. The prediction, averaged over the posterior.
@jax.jit
def predict(theta: jax.Array, x: jax.Array) -> jax.Array:
    """Probabilities of the two moons for every row of x."""
    return jax.nn.softmax(jax.vmap(eqx.combine(potential.unravel(theta), rest))(x))


test, average = two_moons(1000, seed=2), PredictiveAverage()
for theta in run.draws.reshape(-1, potential.size):
    average.add(np.asarray(predict(theta, test["x"]), np.float64))
last, scores = np.asarray(predict(run.draws[0, -1], test["x"])), average.scores(test["moon"])
print(f"{potential.size} parameters: {', '.join(potential.layout)}")
print(f"the last draw: accuracy {np.mean(last.argmax(1) == test['moon']):.3f}")
print(f"their average: accuracy {scores.accuracy:.3f}, log-likelihood {scores.mean_log_likelihood:.3f}")

# %%
# The probability of the second moon, averaged over the posterior, and where each of some thirty draws has its boundary.
# They agree where there are data and part beyond them.

side = np.linspace(-2.6, 2.6, 120)
grid = np.stack(np.meshgrid(side, side * 0.75), axis=-1)
surfaces = np.stack([predict(theta, grid.reshape(-1, 2))[:, 1] for theta in run.draws[0, :: len(run.draws[0]) // 30]])
surfaces = surfaces.reshape(-1, *grid.shape[:2])
figure, axis = plt.subplots(figsize=(7.5, 5), constrained_layout=True)
shown = axis.contourf(*np.moveaxis(grid, -1, 0), surfaces.mean(axis=0), np.linspace(0, 1, 21), cmap="RdBu_r", alpha=0.8)
for surface in surfaces:
    axis.contour(*np.moveaxis(grid, -1, 0), surface, [0.5], colors="k", linewidths=0.5, alpha=0.3)
axis.scatter(*test["x"][:300].T, c=test["moon"][:300], cmap="RdBu_r", s=9, edgecolor="k", linewidth=0.3)
axis.set(title="probability of the red moon; a line for each draw's boundary", aspect="equal")
figure.colorbar(shown, ax=axis, ticks=[0, 0.5, 1], shrink=0.8)
plt.show()
