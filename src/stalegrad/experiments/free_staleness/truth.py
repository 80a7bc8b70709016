"""Posterior averages of logistic regression without any error of a step size: Metropolis–Hastings with exact U."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.datasets import Dataset
from stalegrad.experiments.fig2_posterior import Posterior
from stalegrad.experiments.logistic_loss import MeanLogisticLoss


class Truth(NamedTuple):
    """Posterior means of some functions, and the standard errors of these from independent chains."""

    mean: Array
    error: Array
    accepted: float
    """Share of the proposals."""


def posterior_means(
    data: Dataset, model: Posterior, functions: Callable[[Array], Array], *, steps: int, chains: int = 64, seed: int = 0
) -> Truth:
    """By pre-conditioned Crank–Nicolson proposals z' = ρz + √(1 − ρ²)ξ with ρ = ½, in whitened coordinates.

    They keep N(0, I), which the posterior is close to, so what decides is the rest U(z) − |z|²/2 alone. The first
    tenth of each chain is left out.

    Args:
        data: what the model was made of.
        model: its posterior.
        functions: of z, (K, n) → (K, m).
        steps: of each chain.
        chains: how many.
        seed: of the proposals.
    """
    train, count, size = MeanLogisticLoss(data.X, data.y), data.X.shape[0], model.potential.size

    def rest(z: Array) -> Array:
        theta = model.potential.original(z).astype(np.float64)
        return np.asarray(count * train(theta) + (theta**2).sum(1) / 2 - (z**2).sum(1) / 2)

    random = np.random.Generator(np.random.Philox(key=seed))
    z = random.standard_normal((chains, size))
    energy, accepted, first = rest(z), 0, steps // 10
    sums = np.zeros_like(functions(z))
    for step in range(steps):
        proposal = 0.5 * z + np.sqrt(0.75) * random.standard_normal(z.shape)
        proposed = rest(proposal)
        taken = np.log(random.random(chains)) < energy - proposed
        z, energy = np.where(taken[:, None], proposal, z), np.where(taken, proposed, energy)
        accepted += int(np.count_nonzero(taken))
        if step >= first:
            sums += functions(z)
    means = sums / (steps - first)
    return Truth(means.mean(0), means.std(0, ddof=1) / np.sqrt(chains), accepted / (chains * steps))
