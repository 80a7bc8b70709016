"""Must old gradients cost anything?
=================================

Sixteen workers, a logistic regression, and the same step size throughout. Used as they come, gradients that are fifteen
updates old make posterior variances wrong. Most of the error is known at the server, which can take it away.
"""

# %%
# A logistic regression with its mode and its curvature known: in coordinates in which the posterior has about mean 0
# and unit variance, the server owns the part A = 1 of the curvature, and workers answer with what is left.

import os

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 4_000 if SMALL else 40_000

rng = np.random.default_rng(1)
X = rng.standard_normal((2_000, 5))
y = rng.random(2_000) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, 5)))
mode = sg.potentials.find_mode(sg.potentials.Logistic(X, y, prior_scale=1.0))
p = 1 / (1 + np.exp(-X @ mode))
root = np.linalg.inv(np.linalg.cholesky(X.T @ (X * (p * (1 - p))[:, None]) + np.eye(5))).T


def gradient(z, indices):
    """∇_z U at θ = mode + S z, from all data."""
    theta = mode + root @ z
    return root.T @ (theta - X.T @ (y - 1 / (1 + np.exp(-X @ theta))))


model = sg.potentials.from_gradient(gradient, size=5, n_data=1, dtype=np.float64)
kernel = sg.SGHMC(step_size=0.1, friction=1.0)

# %%
# Three ways to use the same gradients: as they come; the server owning A = 1; and workers, besides, sent ahead.

ways = {
    "as they come": sg.StaleGradients(),
    "server owns A = 1": sg.StaleGradients(linear=1.0),
    "and workers are sent ahead": sg.StaleGradients(linear=1.0, look_ahead="auto", course="turning"),
}
workers = [1, 2, 4, 8, 16]


def spread(architecture, count):
    """Posterior variance in z, of which 1 is about right: the mean over the five directions."""
    try:
        run = sg.sample(
            model, kernel, steps=STEPS, burn_in=STEPS // 10, workers=count, architecture=architecture,
            engine="inline", progress=False,
        )  # fmt: skip
    except sg.RunFailed:
        return np.inf  # it has diverged
    return float(run.draws[0].var(axis=0).mean())


found = {name: np.array([spread(way, count) for count in workers]) for name, way in ways.items()}
for name, values in found.items():
    print(f"{name:28} " + "  ".join(f"{count}: {value:8.3g}" for count, value in zip(workers, values, strict=True)))

# %%
# What the exact theory of such a chain says of gradients that are used as they come is the dotted line.

exact = []
for count in workers:
    try:
        exact.append(sg.theory.stale_sghmc(1.0, 0.1, 1.0, count - 1).variance)
    except sg.theory.UnstableRecursion:
        exact.append(np.inf)

figure, axis = plt.subplots(figsize=(7, 4), constrained_layout=True)
axis.plot(workers, exact, ":", color="0.3", label="exact theory, as they come")
for (name, values), marker in zip(found.items(), "o^s", strict=True):
    axis.plot(workers, values, marker=marker, label=name)
axis.axhline(found["as they come"][0], color="0.8", zorder=0)
axis.set(xlabel="workers", ylabel="variance over the posterior's", xscale="log", xticks=workers, ylim=(0.8, 3))
axis.set_xticklabels(map(str, workers))
axis.set_title("Posterior variance with gradients that are W − 1 updates old")
axis.legend(frameon=False)
plt.show()
