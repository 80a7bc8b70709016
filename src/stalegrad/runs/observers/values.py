"""What the values of test functions at evenly spaced draws say, and values of parameters where there are none."""

from collections.abc import Callable, Mapping, Sequence
from math import nan

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.diagnostics.convergence import split_rhat
from stalegrad.analysis.estimates import effective_sample_size, estimate
from stalegrad.analysis.estimates.arrival import arrived
from stalegrad.potentials.names import component_name
from stalegrad.runs.observers.snapshot import FunctionFigures
from stalegrad.runs.spaced_values import MOST, SpacedValues

FEWEST = 16
"""Draws of every chain before an error is given."""


def figures(names: Sequence[str], chains: Sequence[SpacedValues], *, one_law: bool = True) -> list[FunctionFigures]:
    """What the values of all chains say of each function; nothing before every chain has a draw.

    Args:
        names: of the functions.
        chains: the values of each.
        one_law: whether all chains sample the same law, so that R-hat means something.
    """
    series = [chain.series() for chain in chains]
    picked = _alike([numbers for numbers, _, _ in series])
    if not len(picked[0]):
        return []
    values = np.stack([v[which] for (_, v, _), which in zip(series, picked, strict=True)])
    weights = np.stack([w[which] for (_, _, w), which in zip(series, picked, strict=True)])
    if not np.isfinite(values).all():
        return [FunctionFigures(name, nan, nan, nan, nan) for name in names]
    average = (values * weights[..., None]).sum((0, 1)) / weights.sum()
    error = rhat = ess = np.full(len(names), nan)
    if len(picked[0]) >= FEWEST:
        there = arrived(values)
        error = np.where(there, estimate(values, step_sizes=weights).standard_error, nan)
        ess = np.where(there, effective_sample_size(values), nan)
        if len(chains) > 1 and one_law:
            with np.errstate(invalid="ignore", divide="ignore"):
                rhat = split_rhat(values)
    return [
        FunctionFigures(name, *map(float, numbers))
        for name, *numbers in zip(names, average, error, rhat, ess, strict=True)
    ]


def parameters(layout: Mapping[str, tuple[int, ...]], most: int = 8) -> tuple[list[str], IntArray]:
    """Names and places in θ of some parameters, from all over it, to look at where no functions are given."""
    names: list[str] = []
    places: list[int] = []
    size = sum(int(np.prod(shape)) for shape in layout.values())
    wanted = set(np.linspace(0, size, min(most, size), endpoint=False).astype(int).tolist())
    first = 0
    for name, shape in layout.items():
        count = int(np.prod(shape))
        for place in sorted(wanted & set(range(first, first + count))):
            names.append(component_name(name, shape, place - first))
            places.append(place)
        first += count
    return names, np.array(places, np.int64)


Weight = Callable[[int], float]
"""Of a draw, given its number: the step size of its update."""


def look_at(chain: SpacedValues, since: int, first: int, draws: Array, places: IntArray, weight: Weight) -> int:
    """Take over some parameters of the draws that have come since number ``since``; the number up to which there are.

    Args:
        chain: what is known so far.
        since: the first draw that has not been looked at.
        first: the number of the first of the draws that are here.
        draws: these, (draw, n).
        places: of the parameters.
        weight: of a draw.
    """
    end = first + len(draws)
    numbers = chain.wanted(max(since, first), end)
    if len(numbers) > MOST:  # the spacing will grow: look at no more than what stays
        numbers = numbers[:: -(-len(numbers) // MOST)]
        while chain.spacing * 2 <= numbers[1] - numbers[0]:
            chain.spacing *= 2
        numbers = chain.wanted(max(since, first), end)
    for number in numbers.tolist():
        chain.add(number, np.asarray(draws[number - first], np.float64)[places], weight(number))
    return end


def summary(draws: Array, layout: Mapping[str, tuple[int, ...]]) -> list[FunctionFigures]:
    """What the draws (chain, draw, n) of a run say of some parameters: from at most 1,024 of each, evenly spaced."""
    names, places = parameters(layout)
    chains = [SpacedValues() for _ in range(draws.shape[0])]
    while len(chains[0].wanted(0, draws.shape[1])) > MOST:
        for chain in chains:
            chain.spacing *= 2
    for number in chains[0].wanted(0, draws.shape[1]).tolist():
        for chain, values in zip(chains, np.asarray(draws[:, number], np.float64), strict=True):
            chain.add(number, values[places])
    return figures(names, chains)


def _alike(numbers: Sequence[IntArray]) -> list[IntArray]:
    """Which values of each chain to take, equally many of all, by their numbers.

    Those of draws that all of them have, as a rule. Where chains are looked at from afar between two commits, they may
    have none, or few, in common: then as many of each as the shortest has, evenly over what it has.
    """
    shortest, common = min(map(len, numbers)), numbers[0]
    for others in numbers[1:]:
        common = np.intersect1d(common, others)
    if len(common) >= min(shortest, FEWEST):
        return [np.flatnonzero(np.isin(each, common)) for each in numbers]
    return [np.linspace(0, len(each) - 1, shortest).round().astype(np.int64) for each in numbers]
