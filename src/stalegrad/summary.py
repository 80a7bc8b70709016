"""A run in a few numbers: what its chains did, and what some of its parameters say. For tables and for JSON."""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stalegrad.diagnostics import LEAST_DRAWS, convergence
from stalegrad.estimates import effective_sample_size, estimate
from stalegrad.plain import Table
from stalegrad.result import Run
from stalegrad.trace import ChainTrace
from stalegrad.types import Array

_RHAT_DRAWS = 2000  # of each chain, evenly spaced, are enough to see whether chains agree, and ranks take their time


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
    """Monte Carlo error of the mean, see :func:`stalegrad.estimates.mcse`."""
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
        table: Table = _without_nan(asdict(self))
        return table


def summarise(run: Run, parameters: int = 32) -> Summary:
    """Sum up a run; R-hat and effective sample size are worked out for at most so many parameters, evenly spaced."""
    kept = [draws.shape[-2] for draws in run.chain_draws] or [run.draws.shape[-2]] * len(run.trace)
    timing = run.timing
    return Summary(
        chains=tuple(_chain(chain, draws) for chain, draws in zip(run.trace.chains, kept, strict=True)),
        parameters=_parameters(run, parameters),
        size=run.draws.shape[-1],
        events=dict(Counter(event.kind for event in run.events)),
        gradient_seconds=None if timing is None or not timing.count else timing.gradients / timing.count,
        wall_seconds=None if timing is None else timing.wall,
    )


def _chain(chain: ChainTrace, draws: int) -> ChainSummary:
    staleness = chain.updates().staleness
    return ChainSummary(
        updates=chain.steps,
        draws=draws,
        dropped=len(chain) - chain.steps,
        mean_staleness=float(staleness.mean()) if len(staleness) else math.nan,
        max_staleness=int(staleness.max(initial=0)),
    )


def _parameters(run: Run, most: int) -> tuple[ParameterSummary, ...]:
    if run.draws.ndim != 3 or run.draws.shape[1] < LEAST_DRAWS:
        return ()  # repetitions are for averages over them, not for a look at one
    chosen = _spread(run.variables(np.asarray(run.draws[0, :1])), most)
    places: list[tuple[str, Any]] = [(name, (..., *index)) for name, index in chosen]

    def columns(draws: Array) -> Array:
        variables = run.variables(draws)
        return np.stack([variables[name][at] for name, at in places], axis=-1).astype(np.float64)

    values = run.evaluate(columns, batched=True)
    if not np.isfinite(values).all():
        return ()
    averages = estimate(values, step_sizes=run.step_sizes)
    ess, rhat = effective_sample_size(values), convergence(values[:, :: -(-values.shape[1] // _RHAT_DRAWS)]).rhat
    deviation = values.reshape(-1, len(chosen)).std(0)
    names = [f"{name}[{', '.join(map(str, index))}]" if index else name for name, index in chosen]
    rows = zip(names, averages.value, averages.standard_error, deviation, rhat, ess, strict=True)
    return tuple(ParameterSummary(name, *map(float, numbers)) for name, *numbers in rows)


def _spread(variables: dict[str, Array], most: int) -> list[tuple[str, tuple[int, ...]]]:
    """The names and indices of entries from all over the variables (draw, …), evenly spaced from the first one on."""
    shapes = {name: values.shape[1:] for name, values in variables.items()}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    chosen = []
    for place in np.linspace(0, ends[-1], min(most, ends[-1]), endpoint=False).astype(int):
        which = int(np.searchsorted(ends, place, side="right"))
        name, shape = list(shapes.items())[which]
        within = place - ends[which] + math.prod(shape)
        chosen.append((name, tuple(int(k) for k in np.unravel_index(within, shape))))
    return chosen


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
