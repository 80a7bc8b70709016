"""How many parameters does a model use?
=====================================

The local learning coefficient λ counts the directions that data pin down around a point: d/2 for a regular model of d
parameters, and less where parameters matter only together. It is an average over the posterior at temperature log N,
held near the point, so it is a test function of a run, and has a Monte Carlo error.
"""

# %%
# Two models of the same data, y = 0·x + noise. The first, y ≈ (a + b z) x with a second input z, is regular: λ = 1. The
# second, y ≈ a·b·x, has as many parameters, but near a = b = 0 only their product matters: λ is ½, which averages
# near slowly, by terms of log N.

import os

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg
from stalegrad.analysis.estimates import learning_coefficient

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 20_000 if SMALL else 200_000

N = 2_000
rng = np.random.default_rng(0)
x, z = rng.standard_normal((2, N))
y = rng.standard_normal(N)
features = np.stack([x, x * z], axis=1)
y -= features @ np.linalg.lstsq(features, y, rcond=None)[0]  # so that the best fit is exactly at the origin
WIDTH = 1.0  # of the prior that holds the chain near the point
TEMPERATURE = float(np.log(N))


def regular_loss(theta: np.ndarray) -> float:
    """−Σ log p, up to a constant."""
    return 0.5 * float(np.square(y - features @ theta).sum())


def regular_gradient(theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """∇U, of all data; the prior is centred at the point."""
    return TEMPERATURE * theta / WIDTH**2 - features.T @ (y - features @ theta)


def singular_loss(theta: np.ndarray) -> float:
    """The same of a·b·x."""
    return 0.5 * float(np.square(y - theta[0] * theta[1] * x).sum())


def singular_gradient(theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """∇U of it."""
    slope = -float(x @ (y - theta[0] * theta[1] * x))
    return TEMPERATURE * theta / WIDTH**2 + slope * theta[::-1]


# %%
# One run each, with the coefficient averaged while draws come. The prior is given T times its weight in U, so that at
# temperature T it is what it says.

found, draws = {}, {}
for name, loss, gradient in (
    ("regular", regular_loss, regular_gradient),
    ("singular", singular_loss, singular_gradient),
):
    model = sg.potentials.from_gradient(gradient, size=2, n_data=N, dtype=np.float64)
    phi = learning_coefficient(loss, np.zeros(2), temperature=TEMPERATURE)
    kernel = sg.SGHMC(step_size=0.01, friction=10.0, integrator="splitting", temperature=TEMPERATURE)
    run = sg.sample(
        model, kernel, steps=STEPS, burn_in=STEPS // 20, thin=10, engine="inline", progress=False,
        averages={"coefficient": phi},
    )  # fmt: skip
    found[name], draws[name] = run.averages["coefficient"], run.draws[0]
    print(f"{name}: {found[name]}")

# %%
# At a finite N the prior and logarithms of N still count: the exact averages are the normal's, and by quadrature.

grid = np.linspace(-5, 5, 2_001) * WIDTH
a, b = np.meshgrid(grid, grid)
energy = 0.5 * float(x @ x) * np.square(a * b)
weight = np.exp(-energy / TEMPERATURE - (a**2 + b**2) / (2 * WIDTH**2))
hessian = features.T @ features
covariance = np.linalg.inv(hessian / TEMPERATURE + np.eye(2) / WIDTH**2)
exact = {
    "regular": 0.5 * float(np.trace(hessian @ covariance)) / TEMPERATURE,
    "singular": float((weight * energy).sum() / weight.sum() / TEMPERATURE),
}
for name in found:
    print(f"{name}, exactly: {exact[name]:.3f}")

# %%
# Draws of the two posteriors, both about the origin. The regular one is pinned down in all directions, the singular one
# runs out along both axes: there a or b may be anything while the other is near 0.

figure, (left, middle, axis) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for panel, name in ((left, "regular"), (middle, "singular")):
    panel.plot(
        *draws[name][:: max(1, len(draws[name]) // 3_000)].T,
        ".",
        ms=2,
        alpha=0.4,
        color="C0" if panel is left else "C1",
    )
    panel.set(title=f"{name}: draws", xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xlabel="a", ylabel="b")
for k, name in enumerate(found):
    estimate = found[name]
    axis.errorbar(k, float(estimate), yerr=2 * float(estimate.standard_error), fmt="o", capsize=4)
    axis.plot([k - 0.2, k + 0.2], [exact[name]] * 2, "k--", linewidth=1)
axis.axhline(1.0, color="0.8", linewidth=0.8)
axis.axhline(0.5, color="0.8", linewidth=0.8)
axis.set(xticks=range(len(found)), xticklabels=list(found), xlim=(-0.5, 1.5), title="λ ± 2 errors (dashed: exact)")
plt.show()
