"""Bayesian logistic regression around its mode: coordinates in which a chain mixes, and variances in closed form."""

from dataclasses import dataclass

import numpy as np

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.types import Array
from stalegrad.datasets import Dataset
from stalegrad.experiments.logistic_loss import MeanLogisticLoss
from stalegrad.potentials import Logistic
from stalegrad.potentials.wrappers.whitened import Whitened
from stalegrad.theory import stale_sgld


@dataclass(frozen=True, eq=False)
class Posterior:
    """U, its minimum θ*, and φ to second order around it, in the coordinates z of :class:`Whitened`.

    Args:
        potential: U of z; its curvature at the mode z = 0 is the identity.
        loss: φ of θ, the mean loss over the test set.
        slope: b, the gradient of φ at the mode.
        bend: Q, the Hessian of φ there.
        noise: V, the covariance of a minibatch gradient there.
        curvature: the least and the largest eigenvalue of the Hessian of U at θ*, in the original coordinates.
        accuracy: share of the test set that θ* classifies rightly.
    """

    potential: Whitened
    loss: MeanLogisticLoss
    slope: Array
    bend: Array
    noise: Array
    curvature: tuple[float, float]
    accuracy: float

    def phi(self, z: Array) -> Array:
        """φ of every row of ``z``."""
        return self.loss(self.potential.original(z))

    def variance(self, step_size: float, staleness: int, steps: int) -> Array:
        """Var φ̂_l for l = 1, …, L = ``steps`` of stale SGLD from the mode, of the Gaussian approximation.

        Along any unit vector u the chain is the scalar one of :func:`stalegrad.theory.stale_sgld` with curvature 1 and
        minibatch noise v = uᵀVu. With φ = φ(θ*) + bᵀz + ½ zᵀQz the linear part gives |b|² Var(mean of z), and the
        quadratic part tr(Q²) Var(mean of ½z²) if the noise is the same all round: it is taken as tr(QVQ) / tr(Q²). The
        two are uncorrelated, since odd moments vanish. After the transient Var φ̂_L ≈ (2|b|²/h + bᵀVb) / L + …, with no
        τ in it.
        """
        b, q, v = self.slope, self.bend, self.noise
        squares, spread = b @ b, np.sum(q * q)
        along = stale_sgld(1.0, step_size, staleness, gradient_variance=float(b @ v @ b / squares))
        around = stale_sgld(1.0, step_size, staleness, gradient_variance=float(np.sum((q @ v) * q) / spread))
        linear = along.finite_run(along.start(0.0), steps).variance
        quadratic = around.finite_run(around.start(0.0), steps, linear=0.0, quadratic=0.5).variance
        return np.asarray(squares * linear + spread * quadratic)


def posterior(data: Dataset, batch_size: int) -> Posterior:
    """The posterior of logistic regression with a bias and the prior N(0, 1) on every weight."""
    X, X_test = (np.column_stack([part.toarray(), np.ones(part.shape[0])]) for part in (data.X, data.X_test))
    signs, signs_test = (np.asarray(labels, np.float64) for labels in (data.y, data.y_test))
    theta, hessian = _mode(X, signs)
    factor = np.linalg.cholesky(hessian)
    model = Logistic(data.X, data.y, batch_size=batch_size, intercept=True)
    gradients = np.linalg.solve(factor, (X * _pull(X, signs, theta)[:, None]).T)  # of each datum, in z
    count = len(signs)
    scale = count**2 / batch_size * (count - batch_size) / max(count - 1, 1)  # drawn without replacement
    slope, bend = _derivatives(X_test, signs_test, theta)
    eigenvalues = np.linalg.eigvalsh(hessian)
    return Posterior(
        potential=Whitened(model, theta, factor),
        loss=MeanLogisticLoss(data.X_test, data.y_test),
        slope=np.linalg.solve(factor, slope) / len(signs_test),
        bend=np.linalg.solve(factor, np.linalg.solve(factor, bend).T) / len(signs_test),
        noise=scale * np.cov(gradients, ddof=0),
        curvature=(float(eigenvalues[0]), float(eigenvalues[-1])),
        accuracy=float(np.mean(signs_test * (X_test @ theta) > 0)),
    )


def _mode(X: Array, signs: Array) -> tuple[Array, Array]:
    """The minimum of U by Newton's method, and the Hessian there."""
    theta = np.zeros(X.shape[1])
    for _ in range(50):
        slope, bend = _derivatives(X, signs, theta)
        hessian = bend + np.eye(theta.size)
        step = np.linalg.solve(hessian, slope + theta)
        theta -= step
        if np.abs(step).max() < 1e-9:
            return theta, hessian
    raise StalegradError("Newton's method has not found the posterior's mode in 50 steps")


def _derivatives(X: Array, signs: Array, theta: Array) -> tuple[Array, Array]:
    """Gradient and Hessian of Σ_i log(1 + exp(−s_i x_iᵀθ))."""
    pull = _pull(X, signs, theta)
    weight = np.abs(pull) * (1 - np.abs(pull))
    return X.T @ pull, (X * weight[:, None]).T @ X


def _pull(X: Array, signs: Array, theta: Array) -> Array:
    """−s_i / (1 + exp(s_i x_iᵀθ)): what each datum's gradient is a multiple of its row by."""
    return np.asarray(-signs * np.exp(-np.logaddexp(0, signs * (X @ theta))))
