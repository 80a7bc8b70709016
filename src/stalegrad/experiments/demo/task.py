"""What is sampled: Bayesian softmax regression on scikit-learn's handwritten digits, by SGHMC with stale gradients.

Posterior: digits of 8 × 8 pixels, y_i ∈ {0, …, 9} with p(y_i = k) ∝ exp(x_iᵀθ_k), a constant regressor among the x, and
the prior N(0, 1) on every weight. Pixels are divided by 16 and centred at the mean of the training images: it takes the
largest curvature at the mode from 549 down to 73, and the smallest is 1.

Step: h = 0.04 with friction B = 20. Staleness τ makes a delayed force, which acts as a friction of −τhλ on a direction
of curvature λ. That is 6 of the 20 at τ = 2 in the stiffest direction. The flattest takes about B/h = 500 updates to
forget.

Errors at these settings, from inline runs with three seeds: with fresh gradients the mean square of a weight comes out
0.015 to 0.021 too low, and in a run on full batches 0.019, so that is the step size. Staleness 2 adds 0.007 to it, and
takes 0.001 off the log-likelihood of a test digit.
"""

from dataclasses import dataclass

from stalegrad._internal.validation import whole_number
from stalegrad.kernels import SGHMC

ENGINE = "threads"

REFERENCE = {
    "averaged": {
        "accuracy": 0.966,
        "mean_log_likelihood": -0.1700,
        "brier_score": 0.0672,
        "calibration_error": 0.083,
    },
    "mode": {"accuracy": 0.964, "mean_log_likelihood": -0.1557},
    "test_functions": {"log_likelihood": -0.2019, "entropy": 0.3206, "square_weight": 1.3124},
}
"""What 40,000 draws of Metropolis-adjusted HMC with exact gradients give for this posterior, and an optimiser for its
mode. tests/experiments/demo/test_reference.py checks them with a shorter run."""


@dataclass(frozen=True)
class Settings:
    """The budget of the demonstration.

    Args:
        steps: L, updates of each chain.
        servers: S, chains.
        workers: W, workers of each chain.
        max_staleness: a gradient that is staler is dropped.
        batch_size: J.
        step_size: h.
        friction: B.
        draws: draws kept of each chain, after a tenth of the updates has been left out.
        seed: of the noise and the minibatches.
    """

    steps: int = 80_000
    servers: int = 2
    workers: int = 3
    max_staleness: int = 16
    batch_size: int = 128
    step_size: float = 0.04
    friction: float = 20.0
    draws: int = 900
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, least=100)
        whole_number("draws", self.draws, least=8)

    @property
    def burn_in(self) -> int:
        """Updates of each chain that are not kept."""
        return self.steps // 10

    @property
    def thin(self) -> int:
        """Of those after burn-in, every thin-th is kept."""
        return max(1, (self.steps - self.burn_in) // self.draws)

    @property
    def kernel(self) -> SGHMC:
        """The sampler, with the step size of these settings."""
        return SGHMC(step_size=self.step_size, friction=self.friction, integrator="splitting")
