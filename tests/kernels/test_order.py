"""Order of convergence: the bias of a kernel on a target with known moments falls as h^K, K being what it declares.

A step's bias is read from thousands of independent copies of the target N(0, 1). SGLD, SGNHT, pSGLD and the splittings
show their order in averages of θ². Euler's SGHMC shows it in the momentum: its θ is the second-order BBK scheme with a
rescaled step (see its docstring), so θ alone would converge too fast. BAOAB's θ has no error at all on this target, and
the momentum in its state neither: it shows its order in the momentum at the end of a step.
"""

import numpy as np
import pytest

from stalegrad.kernels import PSGLD
from stalegrad.theory import stale_sghmc

from .samplers import EVERY_KERNEL, time_averages

pytestmark = pytest.mark.long

COORDINATES = 4000


def theta_squared(state):
    return state.position * state.position


def momentum_squared(state):
    return state.momentum * state.momentum


def momentum_at_the_end_squared(state):
    """Of BAOAB, after the kick that the state leaves for the next update; on N(0, 1) the gradient is θ."""
    return (state.momentum - state.last * state.position) ** 2


# φ, step sizes, time simulated at each step size
CASES = {
    "SGLD": (theta_squared, (0.03, 0.06, 0.1, 0.15), 1500),
    "SGHMC-euler": (momentum_squared, (0.02, 0.03, 0.05, 0.08), 400),
    "SGNHT-shared-euler": (theta_squared, (0.03, 0.05, 0.08, 0.12), 1500),
    "SGNHT-each-euler": (theta_squared, (0.03, 0.05, 0.08, 0.12), 1500),
    "SGHMC-splitting": (theta_squared, (0.2, 0.26, 0.34, 0.45), 5000),
    "SGNHT-shared-splitting": (theta_squared, (0.2, 0.26, 0.34, 0.45), 5000),
    "SGNHT-each-splitting": (theta_squared, (0.12, 0.16, 0.21, 0.27), 4000),
    "BAOAB": (momentum_at_the_end_squared, (0.2, 0.3, 0.45, 0.65), 800),
    "UBU": (theta_squared, (0.26, 0.36, 0.5, 0.7), 1200),
    "SGRLD": (theta_squared, (0.03, 0.06, 0.1, 0.15), 1200),
}


def slope_of_bias(kernel_at, phi, step_sizes, horizon, **options):
    """Weighted least squares of log |bias| on log h; and the biases with their standard errors."""
    biases, errors = [], []
    for h in step_sizes:
        averages = time_averages(
            kernel_at(h), np.copy, phi, coordinates=COORDINATES, steps=int(horizon / h), burn_in=int(20 / h), **options
        )
        biases.append(averages.mean() - 1)
        errors.append(averages.std() / np.sqrt(COORDINATES))
    biases, errors = np.array(biases), np.array(errors)
    slope = np.polyfit(np.log(step_sizes), np.log(np.abs(biases)), 1, w=np.abs(biases) / errors)[0]
    return slope, f"biases {biases} ± {errors} at h = {step_sizes}"


@pytest.mark.parametrize("name", CASES)
def test_order_is_what_the_kernel_declares(name):
    slope, details = slope_of_bias(EVERY_KERNEL[name], *CASES[name])
    order = EVERY_KERNEL[name](0.01).order
    assert slope == pytest.approx(order, abs=0.15 * order), details


def test_euler_sghmc_is_of_second_order_in_theta():
    """What the docstring says of it, from the closed form."""
    small, large = (stale_sghmc(1.0, h, 2.0).variance - 1 for h in (0.01, 0.02))
    assert np.log2(large / small) == pytest.approx(2, abs=0.1)


def test_order_of_psgld_with_a_metric_at_rest():
    """With a long memory V stays at E ḡ² = 1/N², and pSGLD is SGLD with the step h G, G = N."""
    n_data = 10
    slope, details = slope_of_bias(
        lambda h: PSGLD(step_size=h / n_data, decay=1 - 1e-6, floor=1e-12, n_data=n_data, batch_size=1),
        theta_squared, (0.03, 0.06, 0.1, 0.15), 1500,
        prepare=lambda state: state.squares.fill(n_data**-2),
    )  # fmt: skip
    assert slope == pytest.approx(1, abs=0.15), details


@pytest.mark.parametrize("step_size", [0.3, 1.2])
def test_baoab_has_the_exact_variance_of_a_gaussian_at_any_step(step_size):
    """Where the splitting of SGHMC is off by a fifth; the standard error of 4000 copies is the measure."""
    average = time_averages(
        EVERY_KERNEL["BAOAB"](step_size), np.copy, theta_squared, coordinates=COORDINATES, steps=4000, burn_in=200
    )
    error = average.std() / np.sqrt(COORDINATES)
    assert error < 0.0015
    assert average.mean() == pytest.approx(1, abs=4.9 * error)  # once in a million
    assert stale_sghmc(1.0, 1.2, 2.0, integrator="splitting").variance < 0.8
