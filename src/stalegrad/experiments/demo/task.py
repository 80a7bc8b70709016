"""What is sampled: a regression whose posterior is known exactly, so that every error can be seen.

y_i ~ N(x_iᵀθ, 1) with 2,000 data, 60 weights and the prior N(0, 3²) on each. The data are made up, from a seed; the
columns of X are orthogonal, as after a QR decomposition, so that the posterior is N(μ, I) with a μ in closed form.

The sampler is SGHMC with h = 0.1 and friction B = 4, on minibatches of 500. Its errors are known before it is run:
gradients that are τ updates old make variances too large by λτh/B, which is 2.5 % with two workers and 37 % with
sixteen, and the minibatches add hv/(2B) = 4 %, v = N/J − 1 being the variance of their noise.
"""

from dataclasses import dataclass

import numpy as np

from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.kernels import SGHMC
from stalegrad.potentials import Linear

_DATA, _WEIGHTS, _BATCH, _PRIOR = 2_000, 60, 500, 3.0
_DATA_SEED = 1  # apart from the seed of the sampling: every run has the same posterior


def model() -> Linear:
    """The posterior of a regression with made-up data, the same in every run."""
    random = np.random.Generator(np.random.Philox(key=_DATA_SEED))
    columns, _ = np.linalg.qr(random.normal(size=(_DATA, _WEIGHTS)))
    features = columns * np.sqrt(1 - _PRIOR**-2)  # so that data and prior together make a curvature of 1
    answers = features @ (_PRIOR * random.normal(size=_WEIGHTS)) + random.normal(size=_DATA)
    return Linear(features, answers, prior_scale=_PRIOR, batch_size=_BATCH)


@dataclass(frozen=True, eq=False)
class Exact:
    """The posterior in closed form.

    Args:
        mean: of each weight.
        deviation: of each weight.
    """

    mean: Array
    deviation: Array

    @classmethod
    def of(cls, potential: Linear) -> "Exact":
        """Mean and deviations of a model, by linear algebra."""
        mean, covariance = potential.posterior()
        return cls(mean, np.sqrt(np.diag(covariance)))

    def standardised(self, draws: Array) -> Array:
        """Draws in standard deviations from the exact mean: those of the posterior have mean 0 and variance 1."""
        return np.asarray((np.asarray(draws, np.float64) - self.mean) / self.deviation)


@dataclass(frozen=True)
class Settings:
    """The budget.

    Args:
        steps: L, updates of each run.
        workers: W of the run with old gradients.
        away: seconds that those workers are away, as if behind a network: they sleep as long with each gradient.
        step_size: h.
        friction: B.
        thin: every so manieth update is a draw.
        seed: of the noise and the minibatches.
    """

    steps: int = 100_000
    workers: int = 16
    away: float = 5e-4
    step_size: float = 0.1
    friction: float = 4.0
    thin: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, least=1000)
        whole_number("workers", self.workers, least=2)

    @property
    def burn_in(self) -> int:
        """Updates that are not kept: the start is forgotten in some 80."""
        return max(400, self.steps // 100)

    @property
    def kernel(self) -> SGHMC:
        """The sampler, with these step size and friction."""
        return SGHMC(step_size=self.step_size, friction=self.friction, integrator="splitting")
