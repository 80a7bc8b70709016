"""Do cycles find more than an ensemble?
=====================================

A posterior with four modes of unequal weight. A chain with a small step stays in the mode where it began; an ensemble
finds the modes that its starts lead to; a cyclical sampler gets from mode to mode while it is hot, and samples while it
is cold. All spend the same number of gradients. Which of them finds the modes, and does any weigh them rightly?
"""

# %%
# Four Gaussians in the plane, with known weights. The gradient of U is that of −log of their sum.

import os

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 4_000 if SMALL else 40_000

CENTRES = np.array([[-2.0, -2.0], [2.0, -2.0], [-2.0, 2.0], [2.0, 2.0]])
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
WIDTH = 0.45


def responsibilities(theta: np.ndarray) -> np.ndarray:
    """To which mode a point belongs, in probabilities."""
    logs = np.log(WEIGHTS) - np.square(theta[..., None, :] - CENTRES).sum(-1) / (2 * WIDTH**2)
    odds = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def gradient(theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """∇U."""
    return (theta - responsibilities(theta) @ CENTRES) / WIDTH**2


model = sg.potentials.from_gradient(gradient, size=2, n_data=1, dtype=np.float64)
settings = {"engine": "inline", "progress": False, "seed": 1}


def shares(draws: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weight of each mode among the draws."""
    found = responsibilities(draws.reshape(-1, 2)).argmax(axis=1)
    return np.bincount(found, weights.ravel(), minlength=4) / weights.sum()


# %%
# One chain; an ensemble of eight networks, each of which is optimised (``temperature=0``) from a start of its own and
# then sampled where it is; and a chain in cycles, whose exploring stage starts every cycle hot with large steps.

plain = sg.SGLD(step_size=0.02)
chain = sg.sample(model, plain, steps=STEPS, initial=[2.0, 2.0], **settings)

starts = np.random.default_rng(0).uniform(-4, 4, size=(8, 2))
members = STEPS // 8
ensemble = sg.sample(
    model, plain.after_optimising(members // 4), steps=members, servers=8, initial=starts, **settings
)  # fmt: skip

PERIOD = 100  # a temperature may be any function of the update: here the first fifth of a cycle is hot


def temperature(update: int) -> float:
    """Hot, then cooling, then 1."""
    passed = (update % PERIOD) / PERIOD
    return 40.0 if passed < 0.2 else 1.0


cycles = sg.sample(
    model, sg.SGLD(step_size=sg.schedules.Cyclical(peak=0.06, period=PERIOD, floor=0.005), temperature=temperature),
    steps=STEPS, initial=[2.0, 2.0], **settings,
)  # fmt: skip
sampling = (np.arange(STEPS) % PERIOD) >= PERIOD // 2  # a function of one's own says nothing of stages: chosen by hand
kept, weights = cycles.draws[0, sampling], cycles.step_sizes[0, sampling]

results = {
    "exact": WEIGHTS,
    "one chain": shares(chain.draws, chain.step_sizes),
    "ensemble": shares(ensemble.draws, ensemble.step_sizes),
    "cycles": shares(kept, weights),
}
for name, share in results.items():
    print(f"{name:10} {' '.join(f'{value:.2f}' for value in share)}   modes found: {np.count_nonzero(share > 0.01)}")

# %%
# The chain knows one mode. The ensemble has those that its starts led to, and counts each as often as starts led there.
# Cycles get to all four, but do not weigh them either: which mode a cycle ends in is decided while it is hot, and at
# temperature 40 the four weigh nearly the same. More cycles make their shares more precise, not more right. The bars
# have the binomial error of so many starts and so many cycles.

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
drawn = {"one chain": chain.draws.reshape(-1, 2), "ensemble": ensemble.draws.reshape(-1, 2), "cycles": kept}
for axis, (name, draws) in zip(axes, drawn.items(), strict=False):
    axis.plot(*draws[:: max(1, len(draws) // 2_000)].T, ".", markersize=2, alpha=0.4)
    axis.plot(*CENTRES.T, "k+")
    axis.set(title=name, xlim=(-4.5, 4.5), ylim=(-4.5, 4.5), aspect="equal")
independent = {"ensemble": len(starts), "cycles": STEPS // PERIOD}
for k, (name, share) in enumerate(results.items()):
    error = np.sqrt(share * (1 - share) / independent[name]) if name in independent else None
    axes[3].bar(np.arange(4) + 0.2 * k, share, 0.2, yerr=error, label=name)
axes[3].set(title="weight of each mode", xticks=[])
axes[3].legend(frameon=False, fontsize=8)
plt.show()
