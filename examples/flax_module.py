"""How sure is a network where there are no data?
==============================================

A Bayesian neural network written in Flax: a curve, seen on two stretches, and how sure the posterior is elsewhere.
``python examples/flax_module.py``, with the extra ``examples``.
"""

# %%
# A module, and its parameters as a pytree.

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from flax import nnx

import stalegrad as sg

NOISE = 0.3


class Network(nnx.Module):
    """One hidden layer of 32 units."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(1, 32, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """The curve at x."""
        return self.out(jnp.tanh(self.hidden(x[..., None])))[..., 0]


# 1. A module is split into a pytree of parameters and the rest, which nnx.merge puts together again.
structure, params = nnx.split(Network(nnx.Rngs(0)))


def log_prior(params: nnx.State) -> jax.Array:
    """N(0, 2²) on every weight."""
    return sum(-0.5 * jnp.sum((leaf / 2) ** 2) for leaf in jax.tree.leaves(params))


def log_likelihood(params: nnx.State, datum: dict[str, jax.Array]) -> jax.Array:
    """Of one point (x, y)."""
    return -0.5 * ((datum["y"] - nnx.merge(structure, params)(datum["x"])) / NOISE) ** 2


rng = np.random.default_rng(1)
x = np.concatenate([rng.uniform(-3, -1, size=30), rng.uniform(1, 3, size=30)])
data = {"x": x, "y": np.sin(2 * x) + NOISE * rng.normal(size=x.size)}

# 2. Likelihood, its map over the data and the differentiation are one compiled call.
potential = sg.potentials.from_jax(log_prior, log_likelihood, data, params)

# 3. Four chains. The data are few, so that gradients take all of them and are fresh: little friction will do.
kernel = sg.SGHMC(step_size=0.005, friction=2.0, integrator="splitting")
run = sg.sample(potential, kernel, steps=6_000, servers=4, burn_in=1_000, thin=10, progress=False)

# %%
# 4. The curve of every draw, and how far they spread.
grid = jnp.array([-2.0, 0.0, 2.0, 4.0])
draws = run.draws.reshape(-1, potential.size)
curves = jax.vmap(lambda theta: nnx.merge(structure, potential.unravel(theta))(grid))(draws)
print(f"{potential.size} parameters: {', '.join(potential.layout)}")
for point, mean, spread in zip(grid, curves.mean(0), curves.std(0), strict=True):
    print(f"x = {point:4.1f}: {mean:5.2f} ± {spread:.2f}, {'seen' if 1 < abs(point) < 3 else 'not seen'}")

# %%
# Between the two stretches and beyond them the curves part: the posterior knows where it has seen nothing.

fine = jnp.linspace(-4.5, 4.5, 181)
curves = jax.vmap(lambda theta: nnx.merge(structure, potential.unravel(theta))(fine))(draws[::4])
figure, axis = plt.subplots(figsize=(8.5, 4), constrained_layout=True)
axis.plot(fine, np.asarray(curves[::40]).T, color="#4c72b0", alpha=0.15, lw=0.8)
for share, alpha in ((0.5, 0.35), (0.9, 0.18)):
    low, high = np.quantile(curves, [(1 - share) / 2, (1 + share) / 2], axis=0)
    axis.fill_between(fine, low, high, color="#4c72b0", alpha=alpha, lw=0, label=f"{share:.0%} of the draws")
axis.plot(fine, np.sin(2 * fine), "k--", lw=1, label="truth")
axis.plot(data["x"], data["y"], "o", ms=3.5, color="#c44e52", label="data")
axis.set(ylim=(-4, 4), xlabel="x", title="Sure where it has seen data, unsure elsewhere")
axis.legend(frameon=False, ncols=2)
plt.show()
