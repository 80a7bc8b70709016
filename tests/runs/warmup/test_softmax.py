"""The short call on a softmax regression beyond dense coordinates, held against exact Hamiltonian draws."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import stalegrad as sg
from stalegrad.analysis.diagnostics.convergence import split_rhat

CLASSES, PRIOR = 10, 0.5


class Exact:
    """U of the softmax regression on all data in double precision, whitened by the Hessian at its mode."""

    def __init__(self, x, labels):
        self.x, self.hits = x.astype(np.float64), np.eye(CLASSES)[labels]
        self.columns, self.size = x.shape[1], x.shape[1] * CLASSES
        self.mode = minimize(self.energy, np.zeros(self.size), jac=True, method="L-BFGS-B").x
        p = softmax(self.x @ self.mode.reshape(-1, CLASSES), axis=1)
        weights = p[:, :, None] * np.eye(CLASSES) - p[:, :, None] * p[:, None]
        hessian = np.einsum("ni,nab,nj->iajb", self.x, weights, self.x, optimize=True).reshape(self.size, self.size)
        self.root = np.linalg.inv(np.linalg.cholesky(hessian + np.eye(self.size) / PRIOR**2)).T

    def energy(self, theta):
        logits = self.x @ theta.reshape(self.columns, CLASSES)
        logs = log_softmax(logits, axis=1)
        slope = self.x.T @ (np.exp(logs) - self.hits)
        return -(logs * self.hits).sum() + np.square(theta).sum() / (2 * PRIOR**2), slope.ravel() + theta / PRIOR**2

    def draws(self, count, steps=6, h=0.25, seed=0):
        """Hamiltonian Monte Carlo with acceptance by energy, hence without bias; h is jittered against resonances."""
        rng = np.random.default_rng(seed)

        def at(z):
            energy, slope = self.energy(self.mode + self.root @ z)
            return energy, slope @ self.root

        z = rng.normal(size=self.size)
        energy, slope = at(z)
        kept, accepted = [], 0
        for _ in range(count):
            p = p0 = rng.normal(size=self.size)
            q, u, g, step = z, energy, slope, h * rng.uniform(0.8, 1.2)
            for _ in range(steps):
                p = p - step / 2 * g
                q = q + step * p
                u, g = at(q)
                p = p - step / 2 * g
            if np.log(rng.uniform()) < energy - u + (p0 @ p0 - p @ p) / 2:
                z, energy, slope, accepted = q, u, g, accepted + 1
            kept.append(self.mode + self.root @ z)
        assert accepted > 0.5 * count
        return np.array(kept[count // 10 :])


def effective(chain):
    """Effective draws of every column: the variance of batch means against that of draws."""
    parts = np.stack([part.mean(axis=0) for part in np.array_split(chain, 20)])
    return len(chain) * chain.var(axis=0) / (len(chain) / 20 * parts.var(axis=0, ddof=1))


@pytest.mark.long
def test_the_short_call_is_right_on_a_softmax_regression_beyond_dense_coordinates():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    x = np.column_stack([np.ones(len(digits.data)), digits.data / 16]).astype(np.float32)
    model = sg.potentials.Softmax(
        x, digits.target.astype(np.int64), n_classes=CLASSES, batch_size=100, prior_scale=PRIOR
    )
    run = sg.sample(model, steps=6000, thin=4, engine="inline", progress=False)
    assert "rank" in run.warmup.coordinates
    assert not run.warmup.concerns
    assert [finding.name for finding in run.diagnose(model) if finding.severity == "serious"] == []

    truth = Exact(x, digits.target).draws(800)
    ours = np.asarray(run.draws[:], np.float64)[0].reshape(-1, CLASSES, x.shape[1])
    ours = ours.transpose(0, 2, 1).reshape(len(ours), -1)
    assert split_rhat(truth[None]).max() < 1.1
    worth, exact_worth = (float(np.median(effective(chain))) for chain in (ours, truth))
    assert min(worth, exact_worth) > 100
    error = np.sqrt(1 / worth + 1 / exact_worth)
    off = np.abs(ours.mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0)
    ratio = np.abs(np.log(ours.std(axis=0) / truth.std(axis=0)))
    # the largest of 650, one in a million, is 6 standard errors
    assert off.max() < 0.1 + 6 * error
    assert ratio.max() < np.log(1.1) + 6 * error / np.sqrt(2)
    assert np.sqrt(np.square(off).mean()) < 0.05 + 1.5 * error
    assert abs(np.log(ours.var(axis=0).sum() / truth.var(axis=0).sum())) < 0.05 + 6 * error / np.sqrt(model.size / 10)
