"""A run in a few numbers: what its chains did, and what some of its parameters say. For tables and for JSON."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from stalegrad._internal.numbers_file import without_nan
from stalegrad._internal.tables import Table
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics import LEAST_DRAWS, convergence
from stalegrad.analysis.estimates import effective_sample_size, estimate
from stalegrad.analysis.estimates.arrival import arrived
from stalegrad.analysis.estimates.draw_blocks import draw_blocks
from stalegrad.analysis.sampled import Sampled
from stalegrad.potentials.names import component_name
from stalegrad.protocol.chain_trace import ChainTrace

_MOST_BATCHES = 10_000  # of each chain: what is worked out of more draws is worked out of averages of some in a row
_RHAT_DRAWS = 2000  # of each chain, evenly spaced, are enough to see whether chains agree, and ranks take their time


class Summarised(Sampled, Protocol):
    """A run, as far as it is summed up here: :class:`stalegrad.runs.result.Run`, which imports this module."""

    @property
    def step_sizes(self) -> Array:
        """h of the update behind each draw, (chain, draw)."""
        ...


@dataclass(frozen=True)
class ChainSummary:
    """What one chain did. Staleness is that of the gradients that were accepted."""

    updates: int
    draws: int
    dropped: int
    mean_staleness: float
    max_staleness: int


@dataclass(frozen=True)
class ParameterSummary:
    """What the draws say of one parameter."""

    name: str
    mean: float
    standard_error: float
    """Monte Carlo error of the mean, see :func:`stalegrad.analysis.estimates.mcse`; NaN before chains have arrived."""
    deviation: float
    """Standard deviation of the draws: the posterior's, as far as the chains have seen it."""
    rhat: float
    ess: float


@dataclass(frozen=True)
class Summary:
    """A run in a few numbers.

    Args:
        chains: what each did.
        parameters: some of them, from all over θ; none while a chain has fewer than 4 draws.
        size: how many parameters there are.
        events: how many workers ``raised``, ``died``, ``hung``, or sent what was ``refused``.
        gradient_seconds: of one gradient, on average; None in virtual time.
        wall_seconds: of the run; None in virtual time.
    """

    chains: tuple[ChainSummary, ...]
    parameters: tuple[ParameterSummary, ...]
    size: int
    events: dict[str, int]
    gradient_seconds: float | None
    wall_seconds: float | None

    def table(self) -> Table:
        """As plain types; NaN, which JSON does not know, is None."""
        table: Table = without_nan(asdict(self))
        return table


def summarise(run: Summarised, parameters: int = 32) -> Summary:
    """Sum up a run; R-hat and effective sample size are worked out for at most so many parameters, evenly spaced."""
    kept = [draws.shape[-2] for draws in run.chain_draws] or [run.draws.shape[-2]] * len(run.trace)
    timing = run.timing
    return Summary(
        chains=tuple(_chain(chain, draws) for chain, draws in zip(run.trace.chains, kept, strict=True)),
        parameters=_some_parameters(run, parameters),
        size=run.draws.shape[-1],
        events=dict(Counter(event.kind for event in run.events)),
        gradient_seconds=None if timing is None or not timing.count else timing.gradients / timing.count,
        wall_seconds=None if timing is None else timing.wall,
    )


def _chain(chain: ChainTrace, draws: int) -> ChainSummary:
    counts = chain.staleness_counts
    return ChainSummary(chain.steps, draws, len(chain) - chain.steps, counts.mean, counts.largest)


def _some_parameters(run: Summarised, most: int) -> tuple[ParameterSummary, ...]:
    if run.draws.ndim != 3 or run.draws.shape[1] < LEAST_DRAWS:
        return ()  # repetitions are for averages over them, not for a look at one
    return parameter_summaries(run, spread(run.variables(np.asarray(run.draws[0, :1])), most))


def parameter_summaries(
    run: Summarised, chosen: Sequence[tuple[str, tuple[int, ...], int]]
) -> tuple[ParameterSummary, ...]:
    """What the draws say of some parameters, each given by its variable, that variable's shape, and its number in it.

    None of any, if a chain among them has diverged.
    """
    places: list[tuple[str, Any]] = [(name, (..., *np.unravel_index(within, shape))) for name, shape, within in chosen]

    def columns(draws: Array) -> Array:
        variables = run.variables(draws)
        return np.stack([variables[name][at] for name, at in places], axis=-1).astype(np.float64)

    means, weights, spaced, variance = _batch_means(run, columns, len(chosen))
    if not np.isfinite(means).all():
        return ()
    averages, rhat, deviation = estimate(means, step_sizes=weights), convergence(spaced).rhat, np.sqrt(variance)
    # The error of the mean is that of the batches' mean: variance / ESS, of draws as of batches.
    spread = means.reshape(-1, len(chosen)).var(0)
    ess = effective_sample_size(means) * np.divide(variance, spread, out=np.ones_like(spread), where=spread > 0)
    names = [component_name(*component) for component in chosen]
    there = arrived(spaced)
    errors, ess = np.where(there, averages.standard_error, np.nan), np.where(there, ess, np.nan)
    rows = zip(names, averages.value, errors, deviation, rhat, ess, strict=True)
    return tuple(ParameterSummary(name, *map(float, numbers)) for name, *numbers in rows)


def _batch_means(run: Summarised, columns: Callable[[Array], Array], count: int) -> tuple[Array, Array, Array, Array]:
    """The draws of a long run as averages of so many in a row that memory stays bounded; of a short run as they are.

    Args:
        run: the run.
        columns: what to average, (…, column), of draws (…, n).
        count: of columns.

    Returns:
        The averages, (chain, batch, column), weighed by step sizes, and the weight of each, (chain, batch). Some single
        values, (chain, draw, column), evenly spaced. And the variance of all single values, of each column.
    """
    chains, draws, _ = run.draws.shape
    size, every = -(-draws // _MOST_BATCHES), -(-draws // _RHAT_DRAWS)
    sums, weights = np.zeros((chains, -(-draws // size), count)), np.zeros((chains, -(-draws // size)))
    spaced: list[Array] = []
    first: Array | None = None
    total, squares, steps = np.zeros(count), np.zeros(count), run.step_sizes
    for where, block in draw_blocks(run.draws):
        values, numbers = columns(block), np.arange(where.start, where.start + block.shape[1])
        if not np.isfinite(values).all():  # of a chain that has diverged
            return np.full((chains, 1, count), np.nan), np.ones((chains, 1)), values[:, :1], np.full(count, np.nan)
        first = values[:1, :1] if first is None else first  # sums are of what differs from it, which is small
        off, h = values - first, steps[:, where, None]
        total, squares = total + off.sum((0, 1)), squares + np.square(off).sum((0, 1))
        for s in range(chains):
            np.add.at(sums[s], numbers // size, h[s] * off[s])
            np.add.at(weights[s], numbers // size, h[s, :, 0])
        spaced.append(values[:, numbers % every == 0])
    assert first is not None, "there are draws"
    entries = chains * draws
    variance = np.maximum(squares / entries - np.square(total / entries), 0.0)
    return sums / weights[..., None] + first, weights, np.concatenate(spaced, axis=1), variance


def spread(variables: dict[str, Array], most: int) -> list[tuple[str, tuple[int, ...], int]]:
    """Entries from all over the variables (draw, …), evenly spaced from the first one on: name, shape, number in it."""
    shapes = {name: values.shape[1:] for name, values in variables.items()}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    chosen = []
    for place in np.linspace(0, ends[-1], min(most, ends[-1]), endpoint=False).astype(int):
        which = int(np.searchsorted(ends, place, side="right"))
        name, shape = list(shapes.items())[which]
        chosen.append((name, shape, int(place - ends[which] + math.prod(shape))))
    return chosen
