"""A gradient as JAX can follow it: what lets thousands of updates of a model be one compiled program.

Models written in JAX have one (:mod:`stalegrad.potentials.frontends.jax`), and wrappers around them make theirs of it.
Nothing here imports JAX: the functions of wrappers are arithmetic on whatever arrays they are given.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

TracedGradient = Callable[[Any, Any, Any], Any]
"""From θ (n,), the indices (J,) of a minibatch, or None for all data in order, and the data, to g̃ (n,)."""


class Traced(NamedTuple):
    """What a compiled program of many updates needs of a model.

    Args:
        gradient: g̃ as JAX can follow it. It is compared and hashed: where it is the same, so is the program.
        data: a pytree of arrays that the program takes as an argument, lest they become constants of it.
        programs: those that have been compiled for the innermost model, by what they are made for; they live as long
            as the model does.
    """

    gradient: TracedGradient
    data: Any
    programs: dict[Any, Any]
