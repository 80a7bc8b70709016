"""What is known about stale chains before running one: bounds, best step sizes, and an exact Gaussian oracle.

- :mod:`~stalegrad.theory.bounds`: bias, MSE and variance of the estimate, up to constants, for one and several chains.
- :mod:`~stalegrad.theory.step_size`: the step sizes that minimise them.
- :mod:`~stalegrad.theory.rates`: how fast they then fall, and the linear speedup in the number of workers.
- :mod:`~stalegrad.theory.stability`: the largest step size at which a stale chain does not blow up.
- :mod:`~stalegrad.theory.free_staleness`: error, bounds and stability where the server knows part of what is stale.
- :mod:`~stalegrad.theory.gaussian`: on a Gaussian target the same quantities *exactly*, constants included.
- :mod:`~stalegrad.theory.thermostat`: the same for a sampler whose friction adapts, once it has settled.
"""

from stalegrad.theory.bounds import (
    bias_bound,
    chains_bias_bound,
    chains_mse_bound,
    chains_variance_bound,
    mse_bound,
    variance_bound,
)
from stalegrad.theory.directions import Direction
from stalegrad.theory.free_staleness import (
    effective_staleness,
    owned_stability_limit,
    staleness_error,
    taming_error,
    turned,
)
from stalegrad.theory.gaussian import Staleness, stale_baoab, stale_harmonic, stale_sghmc, stale_sgld, stale_ubu
from stalegrad.theory.rates import bias_rate, linear_speedup, mse_rate, variance_rate
from stalegrad.theory.recursion import FiniteRun, LinearRecursion, StateLaw, Trajectory, UnstableRecursion
from stalegrad.theory.stability import stability_limit
from stalegrad.theory.step_size import (
    bias_optimal_step,
    chains_bias_optimal_step,
    chains_mse_optimal_step,
    chains_variance_optimal_step,
    mse_optimal_step,
    stale_step_size,
    variance_optimal_step,
)
from stalegrad.theory.thermostat import stale_sgnht

__all__ = [
    "Direction",
    "FiniteRun",
    "LinearRecursion",
    "Staleness",
    "StateLaw",
    "Trajectory",
    "UnstableRecursion",
    "bias_bound",
    "bias_optimal_step",
    "bias_rate",
    "chains_bias_bound",
    "chains_bias_optimal_step",
    "chains_mse_bound",
    "chains_mse_optimal_step",
    "chains_variance_bound",
    "chains_variance_optimal_step",
    "effective_staleness",
    "linear_speedup",
    "mse_bound",
    "mse_optimal_step",
    "mse_rate",
    "owned_stability_limit",
    "stability_limit",
    "stale_baoab",
    "stale_harmonic",
    "stale_sghmc",
    "stale_sgld",
    "stale_sgnht",
    "stale_step_size",
    "stale_ubu",
    "staleness_error",
    "taming_error",
    "turned",
    "variance_bound",
    "variance_optimal_step",
    "variance_rate",
]
