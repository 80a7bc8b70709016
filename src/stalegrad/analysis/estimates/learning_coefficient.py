"""The local learning coefficient, as a test function: how many directions the data pin down around a point."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number


def learning_coefficient(
    loss: Callable[[Array], float], at: npt.ArrayLike, *, temperature: float
) -> Callable[[Array], float]:
    r"""φ with φ̂ = λ̂ = (E nL(θ) − nL(θ*))/T, the local learning coefficient at θ* (Lau et al., 2023; Watanabe, 2013).

    nL(θ) = −Σ_i log p(d_i | θ), and the average is over the posterior at the temperature T = log N, held near θ* by a
    prior that is centred there. Where the model is regular, λ = d/2, half its number of parameters; where directions
    do not matter, or matter only together, it is less.

    Give it to ``averages=`` of a run of a kernel with the same temperature: its average then has a Monte Carlo error.

    Args:
        loss: nL(θ) on all data, or N times the mean over a fixed part of them.
        at: θ*, a minimum of the loss, such as the end of a run at temperature 0.
        temperature: T of the run, log N.

    >>> phi = learning_coefficient(lambda theta: 50.0 * float(theta @ theta), [0.0, 0.0], temperature=2.0)
    >>> phi(np.array([0.1, 0.1]))
    0.5
    """
    heat = real_number("temperature", temperature, above=0)
    base = float(loss(np.asarray(at)))
    if not np.isfinite(base):
        raise ArgumentError("at", at, f"has the loss {base}", "Give a point at which the loss is finite.")

    def excess(theta: Array) -> float:
        return (float(loss(theta)) - base) / heat

    return excess
