"""Every kernel there is, and a driver that runs one on an analytic gradient at a constant staleness."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import numpy as np

from stalegrad.kernels import Kernel
from stalegrad.protocol.chain import Chain
from stalegrad.testing import example_kernels


def _made(kernel: Kernel, step_size: float) -> Kernel:
    """With settings for targets of variance 1."""
    names = {f.name for f in fields(kernel)}
    scales = {name: value for name, value in (("friction", 2.0), ("noise", 1.0)) if name in names}
    return replace(kernel, step_size=step_size, **scales).for_model(10, 2)


EVERY_KERNEL = {name: partial(_made, kernel) for name, kernel in example_kernels().items()}
"""From a step size to a kernel."""


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
