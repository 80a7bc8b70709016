"""A Bayesian neural network written in Equinox: two moons, two workers, predictions averaged over the posterior.

pip install 'stalegrad[examples]'
python examples/equinox_module.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp
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
