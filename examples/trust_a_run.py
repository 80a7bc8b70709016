"""Can I trust this run?
=====================

Four runs of the kinds that one meets: a healthy one, one with a step that is too long, one whose gradients are too old
for its step, and a posterior that no step suits. The last three look like runs, too: they end, and they have draws.
``run.diagnose`` says which is which, and what to do.
"""

# %%
# A logistic regression, with all numbers of the sampler found by the warm-up.

import os
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 4_000 if SMALL else 20_000

rng = np.random.default_rng(0)
X = rng.standard_normal((5_000, 4))
y = rng.random(5_000) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2, 0.0]))
model = sg.potentials.Logistic(X, y, prior_scale=1.0, batch_size=500)
settings: dict[str, Any] = {"steps": STEPS, "servers": 2, "engine": "inline", "progress": False}

healthy = sg.sample(model, workers=4, **settings)
print(healthy.diagnose(model))

# %%
# **A step that is too long.** Nothing blows up. The draws are simply too far from each other: the variance of this
# chain is larger than the posterior's, and the figures say by how much.

too_long = sg.sample(model, sg.SGLD(step_size=1.3e-3), burn_in=STEPS // 10, **settings)
print(too_long.diagnose(model))

# %%
# **Gradients that are too old for their step.** The same sampler with a step that is harmless when gradients are
# fresh, and sixteen workers.

too_stale = sg.sample(model, sg.SGLD(step_size=5e-5), workers=16, burn_in=STEPS // 4, **settings)
print(too_stale.diagnose(model))

# %%
# **A funnel**: the width of the second parameter depends on the first. A step that suits the mouth is too long for
# the neck, and no constant change of coordinates helps. The remedy is to write the model in other parameters.


def funnel(theta, indices):
    """−∇log p for v ~ N(0, 3²), x | v ~ N(0, e^v)."""
    v, x = theta
    return np.array([v / 9 + 0.5 - 0.5 * x * x * np.exp(-v), x * np.exp(-v)])


neal = sg.potentials.from_gradient(funnel, size=2, n_data=1, dtype=np.float64)
narrow = sg.sample(neal, sg.SGHMC(step_size=0.1, friction=1.0), burn_in=STEPS // 10, **settings)
print(narrow.diagnose(neal))

# %%
# The first parameter of all four. The healthy run in grey is what the second and third ought to be.

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), constrained_layout=True)
reference = healthy.draws[..., 0].ravel()
for axis, run, title in zip(
    axes, (healthy, too_long, too_stale), ("healthy", "step too long", "staleness too large"), strict=False
):
    draws = run.draws[..., 0].ravel()
    bins = np.linspace(reference.mean() - 6 * reference.std(), reference.mean() + 6 * reference.std(), 60)
    axis.hist(reference, bins, density=True, color="0.75", label="healthy")
    axis.hist(draws, bins, density=True, histtype="step", color="#c44e52" if run is not healthy else "#4c72b0", lw=1.6)
    axis.set(title=f"{title}\nvariance × {draws.var() / reference.var():.2f}", xlabel="θ₀", yticks=[])
v, x = narrow.draws.reshape(-1, 2).T
axes[3].plot(x[::10], v[::10], ".", ms=1.5, color="#c44e52")
axes[3].set(title="a funnel\nno step suits neck and mouth", xlabel="x", ylabel="v", xlim=(-30, 30), ylim=(-9, 9))
plt.show()
