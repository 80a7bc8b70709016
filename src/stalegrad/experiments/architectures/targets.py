"""What is sampled: a posterior that is nearly normal, a9a's, and one that is skewed, both with a known truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.datasets import Dataset
from stalegrad.experiments.fig2_posterior import posterior
from stalegrad.kernels import SGHMC
from stalegrad.potentials import Minibatches, Potential
from stalegrad.runs.sample import sample


@dataclass(frozen=True, eq=False)
class Target:
    """A posterior and the number that is wanted of it.

    Args:
        title: for pictures.
        potential: U; chains start at its own start.
        phi: φ of every row of an array of draws.
        truth: E φ under the posterior.
        truth_error: the standard error of that, 0 if it is exact.
        deviation: the standard deviation of φ under the posterior, the unit of all errors.
        step_size: h of SGLD with fresh gradients.
    """

    title: str
    potential: Potential
    phi: Callable[[Array], Array]
    truth: float
    truth_error: float
    deviation: float
    step_size: float


def logistic_regression(data: Dataset, batch_size: int, step_size: float, steps: int, seed: int) -> Target:
    """Logistic regression with the prior N(0, 1), in coordinates with unit curvature at the mode; φ is the test loss.

    The truth comes from second-order SGHMC on all data, whose error at this step is far below its standard error.

    Args:
        data: sparse binary features, labels −1 and +1.
        batch_size: J.
        step_size: h.
        steps: of the chain behind the truth.
        seed: of that chain.
    """
    near, whole = posterior(data, batch_size), posterior(data, len(data.y))
    run = sample(
        whole.potential, SGHMC(step_size=0.2, friction=1.5, integrator="splitting"), steps=steps, burn_in=steps // 20,
        thin=2, seed=seed + 1, engine="inline", progress=False,
    )  # fmt: skip
    reference = run.estimate(near.phi, batched=True)
    spread = run.evaluate(near.phi, batched=True).std()
    return Target(
        f"{data.name}: test loss of logistic regression", near.potential, near.phi, float(reference.value),
        float(reference.standard_error), float(spread), step_size,
    )  # fmt: skip


class RareEvents(Potential):
    """Counts d_i ~ Poisson(e^θ) with the prior θ ~ N(0, ς²): U = N e^θ − θ Σ_i d_i + θ²/2ς².

    With few events the posterior of the log rate is skewed to the left, and with few in each shard those of shards are
    more so.

    Args:
        counts: d_i.
        batch_size: J.
        prior_scale: ς.
    """

    def __init__(self, counts: Array, batch_size: int, prior_scale: float = 2.0) -> None:
        super().__init__(1, Minibatches(len(counts), batch_size), np.dtype(np.float64))
        self.counts, self.precision = np.asarray(counts, np.float64), prior_scale**-2

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃: the prior's gradient, and that of the minibatch scaled up."""
        result: Array = theta * self.precision + self.n_data * (np.exp(theta) - self.counts[indices].mean())
        return result

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ of all repetitions at once."""
        means = self.counts[indices].mean(axis=1, keepdims=True)
        out[...] = theta * self.precision + self.n_data * (np.exp(theta) - means)

    def initial(self) -> Array:
        """The logarithm of the mean count."""
        return np.asarray(np.log(self.counts.mean(keepdims=True)))

    def density(self, theta: Array) -> Array:
        """p(θ | D) at many points, which are close to each other and cover it."""
        log = theta * self.counts.sum() - self.n_data * np.exp(theta) - theta**2 * self.precision / 2
        weight = np.exp(log - log.max())
        return np.asarray(weight / (weight.sum() * (theta[1] - theta[0])))


def rare_events(step_size: float) -> Target:
    """Nine events in 36 counts, one in every four; φ = e^θ is the rate. The truth is an integral over one dimension."""
    potential = RareEvents(np.tile([1.0, 0.0, 0.0, 0.0], 9), batch_size=4)
    theta = np.linspace(-8.0, 3.0, 20_001)
    weight = potential.density(theta) * (theta[1] - theta[0])
    mean = float(weight @ np.exp(theta))
    deviation = float(np.sqrt(weight @ np.exp(theta) ** 2 - mean**2))
    return Target("nine rare events: their rate", potential, _rate, mean, 0.0, deviation, step_size)


def _rate(draws: Array) -> Array:
    return np.exp(np.asarray(draws, np.float64)[:, 0])
