"""The posterior of logistic regression on a9a around its mode: coordinates in which chains mix, and exact draws."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

import a9a_like
from stalegrad.datasets import Dataset
from stalegrad.experiments.fig2_posterior import Posterior, posterior

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """The posterior of z, where θ = θ* + S z and S Sᵀ is the inverse Hessian at the mode θ*.

    The logits of row x are x̃·z + x·θ* with x̃ = Sᵀx, and the prior's −log p is shift·z + ½ zᵀ inverse z.

    Args:
        X: the x̃, (N, d).
        offset: the x·θ*, (N,).
        y: labels in {0, 1}.
        shift: Sᵀθ*.
        inverse: SᵀS.
    """

    X: Floats
    offset: Floats
    y: Floats
    shift: Floats
    inverse: Floats

    @property
    def n_data(self) -> int:
        """N."""
        return len(self.y)

    def potential(self, z: Any) -> tuple[Any, Any]:
        """U and its gradient for every row of z, (C, d): all data, sums in float64."""
        logits = z.astype(np.float32) @ self.X.T + self.offset
        signed = np.where(self.y > 0, -logits, logits)
        likelihood = np.logaddexp(0, signed, dtype=np.float32).sum(1, dtype=np.float64)
        residual = 1 / (1 + np.exp(-logits)) - self.y
        prior = z @ self.inverse
        value = likelihood + z @ self.shift + 0.5 * np.einsum("ij,ij->i", prior, z)
        return value, residual @ self.X + prior + self.shift


@dataclass(frozen=True, eq=False)
class Problem:
    """Data of the shape of a9a with its test set, and their posterior as figure 2 of the experiments has it."""

    source: str
    data: Dataset
    batch_size: int

    @cached_property
    def posterior(self) -> Posterior:
        """Ours: its ``potential`` is the model in z, its ``phi`` the mean test loss of every row of z."""
        return posterior(self.data, self.batch_size)

    @cached_property
    def rows(self) -> WhitenedRows:
        """The same for others."""
        model, d = self.posterior.potential, self.posterior.potential.size
        eye = np.eye(d, dtype=np.float32)
        S = (model.original(eye) - model.centre).T.astype(np.float64)
        X = np.column_stack([self.data.X.toarray(), np.ones(self.data.X.shape[0])])
        centre = model.centre.astype(np.float64)
        parts = X @ S, X @ centre, self.data.y > 0, S.T @ centre, S.T @ S
        return WhitenedRows(*(np.ascontiguousarray(part, np.float32) for part in parts))


def exact(rows: WhitenedRows, chains: int, draws: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Draws of z by MALA on all data, which has no bias: (chains, draws, d), from the Laplace approximation on.

    A tenth of the draws is left out at the start. The step is a little below the one that is best for a Gaussian in d
    dimensions, 2.7 d^(−1/3).
    """
    rng, d = np.random.default_rng(seed), rows.X.shape[1]
    h = 2.0 * d ** (-1 / 3)
    z = rng.standard_normal((chains, d))
    value, slope = rows.potential(z)
    kept = np.empty((chains, draws, d))
    for draw in range(-(draws // 10), draws):
        proposal = z - h / 2 * slope + np.sqrt(h) * rng.standard_normal(z.shape)
        value_there, slope_there = rows.potential(proposal)
        back = np.square(z - proposal + h / 2 * slope_there).sum(1)
        forth = np.square(proposal - z + h / 2 * slope).sum(1)
        log_ratio = value - value_there - (back - forth) / (2 * h)
        taken = np.log(rng.random(chains)) < log_ratio
        z, slope = (np.where(taken[:, None], new, old) for new, old in ((proposal, z), (slope_there, slope)))
        value = np.where(taken, value_there, value)
        if draw >= 0:
            kept[:, draw] = z
    return kept


def problem(batch_size: int) -> Problem:
    """The real a9a from ``$STALEGRAD_DATA``, or data of the same shape."""
    data, test = a9a_like.load(), a9a_like.load(test=True)
    parts = [_dataset_part(part) for part in (data, test)]
    dataset = Dataset(data.source, *parts[0], *parts[1], classes=("0", "1"), page="")
    return Problem(data.source, dataset, batch_size)


def _dataset_part(data: a9a_like.LogisticData) -> tuple[Any, Any]:
    """Without the column of ones, which :func:`posterior` adds itself; labels −1 and +1."""
    return data.csr()[:, : data.n_columns - 1].tocsr(), np.where(data.y > 0, 1, -1)
