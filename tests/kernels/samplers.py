"""Every kernel there is, and a driver that runs one on an analytic gradient at a constant staleness."""

from collections.abc import Callable

import numpy as np

from stalegrad.chain import Chain
from stalegrad.kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, UBU

EVERY_KERNEL = {
    "SGLD": lambda h: SGLD(step_size=h),
    "SGHMC-euler": lambda h: SGHMC(step_size=h, friction=2.0),
    "SGHMC-splitting": lambda h: SGHMC(step_size=h, friction=2.0, integrator="splitting"),
    "SGNHT-shared-euler": lambda h: SGNHT(step_size=h, noise=1.0),
    "SGNHT-each-euler": lambda h: SGNHT(step_size=h, noise=1.0, thermostats="each"),
    "SGNHT-shared-splitting": lambda h: SGNHT(step_size=h, noise=1.0, integrator="splitting"),
    "SGNHT-each-splitting": lambda h: SGNHT(step_size=h, noise=1.0, thermostats="each", integrator="splitting"),
    "PSGLD": lambda h: PSGLD(step_size=h, n_data=10, batch_size=2),
    "PSGLD-divergence": lambda h: PSGLD(step_size=h, n_data=10, batch_size=2, divergence=True),
    "BAOAB": lambda h: BAOAB(step_size=h, friction=2.0),
    "UBU": lambda h: UBU(step_size=h, friction=2.0),
}


def time_averages(
    kernel,
    gradient: Callable,
    phi: Callable,
    *,
    coordinates: int,
    steps: int,
    burn_in: int,
    staleness: int = 0,
    seed: int = 1,
    prepare: Callable = lambda state: None,
) -> np.ndarray:
    """The time average of phi(state) of every coordinate; coordinates are independent copies of a 1-d target."""
    chain = Chain(kernel, np.zeros((1, coordinates)), seed, 0)
    prepare(chain.state)
    history = np.repeat(chain.point[None], staleness + 1, axis=0)
    total = np.zeros(coordinates)
    for update in range(steps):
        chain.advance(gradient(history[(update - staleness) % (staleness + 1)]))
        history[(update + 1) % (staleness + 1)] = chain.point
        if update >= burn_in:
            total += phi(chain.state)[0]
    return total / (steps - burn_in)
