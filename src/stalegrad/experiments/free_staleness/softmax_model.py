"""Softmax regression around its mode, in coordinates in which its curvatures are about 1, at a cost that allows it.

The Hessian of K classes and d regressors is Σ_i (diag π_i − π_i π_iᵀ) ⊗ x_i x_iᵀ + I/ς², n = K d numbers square. It is
nearly block-diagonal in the eigenvectors c_1, …, c_K of the mean of diag π_i − π_i π_iᵀ over the data: block m is
B_m = Σ_i (c_mᵀ (diag π_i − π_i π_iᵀ) c_m) x_i x_iᵀ + I/ς². So θ = θ* + Σ_m c_m ⊗ L_m^{−ᵀ} z_m with L_m L_mᵀ = B_m,
which costs K d² multiplications in place of (K d)².
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.scheme import Minibatches

_ROWS = 10_000  # at a time, where all data are gone through


class WhitenedSoftmax(Potential):
    """V(z) = U(θ* + S z) with control variates at θ*: softmax regression with the prior N(0, ς²) on every weight.

    g = Sᵀ(∇U(θ*) + (θ − θ*)/ς² + (N/J) Σ_i (π_i(θ) − π_i(θ*)) ⊗ x_i): the probabilities at θ* are kept, so that control
    variates cost nothing. The last bits of a row depend on how many repetitions are computed at once.

    Args:
        X: (N, d) in float32; a constant regressor, if wanted, among them.
        y: classes 0, 1, ….
        batch_size: J.
        prior_scale: ς.
        passes: the most gradients on all data that finding the mode may take.
    """

    def __init__(self, X: Array, y: IntArray, batch_size: int, prior_scale: float = 1.0, passes: int = 300) -> None:
        self.X, self.y, self._precision = X, np.asarray(y), prior_scale**-2
        self.classes = int(self.y.max()) + 1
        self._shape = self.classes, X.shape[1]
        super().__init__(X.shape[1] * self.classes, Minibatches.of(len(X), batch_size, "subset"), np.dtype(np.float32))
        mode = self._find_mode(passes)
        self.mode = mode.astype(np.float32)
        self._at_mode = np.concatenate([_softmax(part @ self.mode.T) for part in self._parts()])
        self._mode_gradient = self._all_data(self.mode[None])[0]
        self._turn, self._factors = self._coordinates()

    def with_batch_size(self, batch_size: int) -> "WhitenedSoftmax":
        """The same with other minibatches."""
        other = object.__new__(WhitenedSoftmax)
        other.__dict__.update(self.__dict__)
        other.minibatches = Minibatches.of(self.n_data, batch_size, "subset")
        return other

    def original(self, z: Array) -> Array:
        """θ of every row of z, (R, K, d)."""
        blocks = np.asarray(z, np.float32).reshape(-1, *self._shape)
        turned = np.stack([blocks[:, m] @ factor for m, factor in enumerate(self._factors)], axis=1)
        return np.asarray(self.mode + np.einsum("km,rmd->rkd", self._turn, turned))

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """The control-variate estimate at one z."""
        out = np.empty((1, self.size), np.float32)
        self.gradients(np.asarray(theta, np.float32)[None], np.asarray(indices)[None], out)
        return np.asarray(out[0])

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """The same for R repetitions, whose turns into θ and back are products of matrices."""
        weights = self.original(theta)
        if indices.shape[1] == self.n_data:
            self._pull(self._all_data(weights), out)
            return
        pulled = np.empty_like(weights)
        scale = np.float32(self.n_data / indices.shape[1])
        for r, rows in enumerate(indices):
            x = self.X[rows]
            change = _softmax(x @ weights[r].T) - self._at_mode[rows]
            pulled[r] = scale * (change.T @ x) + np.float32(self._precision) * (weights[r] - self.mode)
        pulled += self._mode_gradient
        self._pull(pulled, out)

    def full_gradient(self, theta: Array) -> Array:
        """∇V(z) on all data."""
        out = np.empty((1, self.size), np.float32)
        self._pull(self._all_data(self.original(theta)), out)
        return np.asarray(out[0])

    def _pull(self, gradients: Array, out: Array) -> None:
        """Sᵀ times gradients of θ, (R, K, d)."""
        turned = np.einsum("km,rkd->rmd", self._turn, gradients)
        rows = out.reshape(-1, *self._shape)
        for m, factor in enumerate(self._factors):
            rows[:, m] = turned[:, m] @ factor.T

    def _parts(self) -> list[Array]:
        return [self.X[first : first + _ROWS] for first in range(0, len(self.X), _ROWS)]

    def _all_data(self, weights: Array) -> Array:
        """∇U(θ) on all data of several θ, (R, K, d), all of them in the same products of matrices."""
        repeats = len(weights)
        flat = np.ascontiguousarray(weights.reshape(-1, self._shape[1]))
        total = self._precision * np.asarray(flat, np.float64)
        for number, part in enumerate(self._parts()):
            change = (part @ flat.T).reshape(-1, self.classes)
            change = _softmax(change).reshape(len(part), repeats, self.classes)
            labels = self.y[number * _ROWS : number * _ROWS + len(part)]
            change[np.arange(len(part)), :, labels] -= 1
            total += change.reshape(len(part), -1).T @ part
        return np.asarray(total, np.float32).reshape(weights.shape)

    def _find_mode(self, passes: int) -> Array:
        """θ*, by L-BFGS on θ scaled by the spread of its regressor."""
        scale = 1 / np.sqrt(0.05 * (self.X**2).sum(0, dtype=np.float64) + self._precision)

        def energy(scaled: Array) -> tuple[float, Array]:
            theta = scaled.reshape(self._shape) * scale
            total, slope = self._precision * float((theta**2).sum()) / 2, self._precision * theta
            for number, part in enumerate(self._parts()):
                labels = self.y[number * _ROWS : number * _ROWS + len(part)]
                logits = part @ theta.T.astype(np.float32)
                chance = _softmax(logits)
                rows = np.arange(len(part))
                total -= float(np.log(np.maximum(chance[rows, labels], 1e-30)).sum(dtype=np.float64))
                chance[rows, labels] -= 1
                slope = slope + chance.T @ part
            return total, (slope * scale).ravel()

        found = minimize(
            energy, np.zeros(self.size), jac=True, method="L-BFGS-B", options={"maxfun": passes, "maxcor": 20}
        )
        return np.asarray(found.x.reshape(self._shape) * scale)

    def _coordinates(self) -> tuple[Array, Array]:
        """The c_m as columns, (K, K), and the L_m^{−1}, (K, d, d), which rows are multiplied by from the right."""
        chances = self._at_mode.astype(np.float64)
        mean = np.diag(chances.mean(0)) - chances.T @ chances / len(chances)
        turn = np.linalg.eigh(mean)[1]
        factors = np.empty((self.classes, self._shape[1], self._shape[1]), np.float32)
        for m in range(self.classes):
            weight = (chances @ turn[:, m] ** 2 - (chances @ turn[:, m]) ** 2).clip(min=0).astype(np.float32)
            block = self._precision * np.eye(self._shape[1])
            for number, part in enumerate(self._parts()):
                block += (part * weight[number * _ROWS : number * _ROWS + len(part), None]).T @ part
            lower = np.linalg.cholesky(block)
            factors[m] = solve_triangular(lower, np.eye(len(lower)), lower=True)
        return turn.astype(np.float32), factors


def _softmax(logits: Any) -> Array:
    """Probabilities of every row."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
