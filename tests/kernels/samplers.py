"""Every kernel there is, and a driver that runs one on an analytic gradient at a constant staleness."""

from collections.abc import Callable

import numpy as np

from stalegrad.chain import Chain
from stalegrad.kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, SGRLD, UBU
from stalegrad.metrics import Diagonal, ExpandedMean

# G between 1 and 2, in arithmetic that every library of arrays has
WAVY = Diagonal(
    inverse=lambda theta: 1 + theta * theta / (1 + theta * theta),
    divergence=lambda theta: 2 * theta / ((1 + theta * theta) * (1 + theta * theta)),
)

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
    "SGRLD": lambda h: SGRLD(step_size=h, metric=WAVY),
    "SGRLD-natural": lambda h: SGRLD(step_size=h, metric=ExpandedMean(), natural=True),
}


def time_averages(
    kernel,
    gradient: Callable,
    *phis: Callable,
    coordinates: int,
    steps: int,
    burn_in: int,
    staleness: int = 0,
    seed: int = 1,
    prepare: Callable = lambda state: None,
    initial: float = 0.0,
    rows: bool = False,
) -> np.ndarray:
    """The time average of φ(state) of every coordinate; coordinates are independent copies of a 1-d target.

    Of several φ there is a row each. With ``rows`` the copies are repetitions of a chain of one coordinate.
    """
    chain = Chain(kernel, np.full((coordinates, 1) if rows else (1, coordinates), initial), seed, 0)
    prepare(chain.state)
    history = np.repeat(chain.point[None], staleness + 1, axis=0)
    total = np.zeros((len(phis), coordinates))
    for update in range(steps):
        chain.advance(gradient(history[(update - staleness) % (staleness + 1)]))
        history[(update + 1) % (staleness + 1)] = chain.point
        if update >= burn_in:
            for row, phi in zip(total, phis, strict=True):
                row += phi(chain.state).ravel()
    return (total if len(phis) > 1 else total[0]) / (steps - burn_in)
