"""The draws of one or several chains, brought into one form, with the weight of every draw."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array
from stalegrad.analysis.estimates.averages import combine_chains, shares

LEAST_DRAWS = 4
"""With fewer draws a chain there is nothing to say about its error."""

Draws = npt.ArrayLike | Sequence[npt.ArrayLike]
"""(draw,), (chain, draw, …), or a list of chains of different lengths, each (draw, …)."""

_FLOAT64 = np.dtype(np.float64)


class WeightedDraws(NamedTuple):
    """S chains and what their draws count."""

    chains: list[Array]
    """φ(x_l) of every chain, each (draw, …)."""
    weights: list[Array]
    """h_l/T_s of every chain, each (draw,), with sum 1."""
    shares: Array
    """T_s/T, with sum 1."""
    averages: Array
    """φ̂_s, (chain, …)."""
    average: Array
    """φ̂ = Σ_s (T_s/T) φ̂_s."""


def weighted_draws(values: Draws, step_sizes: npt.ArrayLike | Sequence[npt.ArrayLike] | None) -> WeightedDraws:
    """Check and weigh: ``step_sizes`` is one number, one per chain or one per draw; without it all draws are equal."""
    chains = _chains(values)
    steps = [np.ones(len(chain)) for chain in chains] if step_sizes is None else _steps(step_sizes, chains)
    weights = [h / h.sum() for h in steps]
    share = shares([h.sum() for h in steps], len(chains))
    averages = np.stack([np.tensordot(w, chain, axes=1) for w, chain in zip(weights, chains, strict=True)])
    return WeightedDraws(chains, weights, share, averages, combine_chains(averages, share))


def _chains(values: Draws) -> list[Array]:
    if isinstance(values, list | tuple) and len(values) and np.ndim(values[0]) > 0:
        chains = [finite_array(f"values[{s}]", chain, _FLOAT64) for s, chain in enumerate(values)]
    else:
        array = finite_array("values", values, _FLOAT64)
        chains = list(array) if array.ndim > 1 else [array]
    if not chains or any(chain.ndim == 0 or len(chain) < LEAST_DRAWS for chain in chains):
        problem = f"has chains of shape {[chain.shape for chain in chains]}"
        remedy = f"Give arrays (draw,) or (chain, draw, …) with {LEAST_DRAWS} draws a chain at the very least."
        raise ArgumentError("values", values, problem, remedy)
    if len({chain.shape[1:] for chain in chains}) > 1:
        problem = f"its chains give φ of different shapes, {[chain.shape[1:] for chain in chains]}"
        raise ArgumentError("values", values, problem, "Evaluate the same φ on every chain.")
    return chains


def _steps(step_sizes: npt.ArrayLike | Sequence[npt.ArrayLike], chains: list[Array]) -> list[Array]:
    if isinstance(step_sizes, list | tuple):
        given: list[npt.ArrayLike] = list(step_sizes)
    else:
        array = finite_array("step_sizes", step_sizes, _FLOAT64)
        given = list(array) if array.ndim else [array] * len(chains)
    if len(chains) == 1 and len(given) == len(chains[0]):
        given = [finite_array("step_sizes", given, _FLOAT64)]
    if len(given) != len(chains):
        problem = f"has {len(given)} entries for {len(chains)} chains"
        raise ArgumentError("step_sizes", step_sizes, problem, "Give one number, one per chain, or one per draw.")
    return [_broadcast(s, h, len(chain)) for s, (h, chain) in enumerate(zip(given, chains, strict=True))]


def _broadcast(chain: int, value: npt.ArrayLike, draws: int) -> Array:
    name = f"step_sizes[{chain}]"
    h = finite_array(name, value, _FLOAT64)
    if h.shape not in ((), (draws,)):
        raise ArgumentError(name, value, f"has shape {h.shape} for {draws} draws", f"Give one number, or {draws}.")
    if np.any(h <= 0):
        raise ArgumentError(name, value, "has entries ≤ 0", "Step sizes are positive; leave out other draws.")
    return np.broadcast_to(h, (draws,))
