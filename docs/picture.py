"""The picture of the README and of the first page: what nine workers make of one posterior, in two ways.

python docs/picture.py docs/_static/stalegrad.png
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

WORKERS, STEPS = 9, 40_000

rng = np.random.default_rng(4)
X = rng.standard_normal((60, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
y = rng.random(60) < 1 / (1 + np.exp(-X @ [1.5, -1.0]))


def potential(theta):
    """U(θ) of a logistic regression with the prior N(0, 2²), for a grid (…, 2) of θ."""
    logits = theta @ X.T
    return (np.logaddexp(0, logits) - y * logits).sum(-1) + (theta**2).sum(-1) / 8


def gradient_at(theta):
    """∇U(θ)."""
    return X.T @ (1 / (1 + np.exp(-X @ theta)) - y) + theta / 4


mode = sg.potentials.find_mode(
    sg.potentials.from_gradient(lambda theta, _: gradient_at(theta), size=2, n_data=1, dtype=np.float64)
)
p = 1 / (1 + np.exp(-X @ mode))
root = np.linalg.inv(np.linalg.cholesky(X.T @ (X * (p * (1 - p))[:, None]) + np.eye(2) / 4)).T
model = sg.potentials.from_gradient(
    lambda z, _: root.T @ gradient_at(mode + root @ z), size=2, n_data=1, dtype=np.float64
)


def draws(architecture):
    """Draws of θ with gradients that are eight updates old."""
    kernel = sg.SGHMC(step_size=0.1, friction=1.0)
    run = sg.sample(
        model, kernel, steps=STEPS, burn_in=2_000, thin=20, workers=WORKERS, architecture=architecture,
        engine="inline", progress=False,
    )  # fmt: skip
    return mode + run.draws[0] @ root.T


def main() -> None:
    """Draw both, above the exact posterior."""
    ways = {
        "old gradients, used as they come": (draws(sg.StaleGradients()), "#c44e52"),
        "old gradients, as stalegrad uses them": (
            draws(sg.StaleGradients(linear=1.0, look_ahead="auto", course="turning")),
            "#2b7a78",
        ),
    }
    low, high = mode - 5 * np.abs(root).sum(1), mode + 5 * np.abs(root).sum(1)
    first, second = np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)))
    exact = np.exp(-(potential(np.stack([first, second], -1)) - potential(mode)))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, sharey=True, constrained_layout=True)
    figure.set_facecolor("white")
    for axis, (title, (found, colour)) in zip(axes, ways.items(), strict=True):
        axis.plot(*found.T, ".", ms=2, color=colour, alpha=0.5)
        axis.contour(first, second, exact, levels=np.exp([-4.6, -2.3, -0.5]), colors="k", linewidths=1.1)
        axis.set_title(title, fontsize=11, color=colour)
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
        for side in axis.spines.values():
            side.set_visible(False)
    figure.suptitle("Nine asynchronous workers, one posterior (black: exact)", fontsize=12)
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
