"""What pictures are drawn of: numbers that every draw gives, a few of them chosen to represent all."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.estimates import effective_sample_size
from stalegrad.analysis.estimates.draws import LEAST_DRAWS
from stalegrad.analysis.plots.components import Components, blocks, stride
from stalegrad.analysis.sampled import Sampled
from stalegrad.potentials.names import component_name

MOST_COMPONENTS = 8
"""Shown of a test function that gives an array."""

_CANDIDATES = 512  # parameters among which the slowest are looked for,
_SCAN_DRAWS = 1000  # on so many draws of each chain at most,
_SCAN_ENTRIES = 1 << 26  # and so many numbers


Functions = Mapping[str, Callable[[Array], Any] | Array]
"""Test functions of one draw θ by name, or their values (chain, draw, …) as ``run.evaluate`` gives them."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """One number of every draw: a test function φ or a parameter. Chains may differ in length.

    Args:
        name: what it is.
        chains: φ of the draws of each chain, (draw,).
        step_sizes: h of the update behind each draw, of each chain.
        updates: the number of that update, counted from 1, of each chain.
    """

    name: str
    chains: tuple[Array, ...]
    step_sizes: tuple[Array, ...]
    updates: tuple[IntArray, ...]

    @property
    def length(self) -> int:
        """How many draws all chains have."""
        return min(len(chain) for chain in self.chains)

    @property
    def common(self) -> Array:
        """φ of the draws that all chains have, (chain, draw): what ``run.estimate`` averages."""
        return np.stack([chain[: self.length] for chain in self.chains])

    @property
    def weights(self) -> Array:
        """The step sizes of the same draws, (chain, draw)."""
        return np.stack([h[: self.length] for h in self.step_sizes])

    @property
    def problem(self) -> str:
        """Why there is nothing to say about its average and errors; empty if there is."""
        if self.length < LEAST_DRAWS:
            return f"{self.length} draw{'s' * (self.length != 1)} a chain: too few"
        return "" if np.isfinite(self.common).all() else "some draws are NaN or infinite"


class Chosen(NamedTuple):
    """Quantities, and how they were chosen."""

    quantities: tuple[Quantity, ...]
    how: str
    """A sentence; empty where all that were asked for, or all that there are, are here."""


def choose(
    run: Sampled, functions: Functions | None = None, parameters: Sequence[str] | None = None, *, most: int = 4
) -> Chosen:
    """The quantities to draw.

    Args:
        run: the run.
        functions: test functions; they come first.
        parameters: names such as ``"weights"`` or ``"weights[0, 3]"``. None for those of all parameters that mix worst
            if there are no functions, and for no parameters if there are.
        most: how many of a variable's components to take; those that mix worst.
    """
    refuse_repetitions(run)
    if functions is not None and not isinstance(functions, Mapping):
        raise ArgumentError("functions", functions, "is not a mapping", 'Give names as well, such as {"loss": loss}.')
    chains = chain_draws(run)
    chosen = [quantity for name, phi in (functions or {}).items() for quantity in _of_function(run, name, phi)]
    if not any(map(len, chains)) or (parameters is None and functions):
        return Chosen(tuple(chosen), "")
    components = Components(run.variables, next(chain[0] for chain in chains if len(chain)))
    names = [parameters] if isinstance(parameters, str) else parameters
    ranges = [range(components.count)] if names is None else [components.range(name) for name in names]
    every, sentences = stride(chains), []
    for each in ranges:
        indices, how = _few(chains, components, each, most)
        values = [components.read(chain, indices, every) for chain in chains]
        chosen += _quantities(run, [components.name(index) for index in indices], values, every)
        sentences += [f"Shown are {len(indices)} of {len(each):,} parameters, {how}."] if how else []
    if every > 1:
        sentences.append(f"One draw in every {every:,} was read.")
    return Chosen(tuple(chosen), " ".join(sentences))


def noted(run: Sampled) -> tuple[Quantity, ...]:
    """What was noted beside the draws, as far as it is there: the gradient's norm and the kinetic temperature."""
    refuse_repetitions(run)
    names = ("norm of the gradient", "kinetic temperature")
    columns = [(name, np.asarray(column)) for name, column in zip(names, run.stats, strict=True)]
    return tuple(
        quantity
        for name, column in columns
        if np.isfinite(column).any()
        for quantity in _quantities(run, [name], [chain[:, None] for chain in column])
    )


@dataclass(frozen=True, eq=False)
class ChainDraws:
    """The draws of one chain, (draw, n), which may be on disk: they are read when they are sliced.

    Args:
        draws: (draw, n), or (chain, draw, n).
        chain: which chain of the latter.
    """

    draws: Any
    chain: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(draw, n), as an array would have it."""
        draws, size = self.draws.shape[-2:]
        return int(draws), int(size)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice) -> Array:
        return np.asarray(self.draws[rows] if self.chain is None else self.draws[self.chain, rows])


def chain_draws(run: Sampled) -> list[ChainDraws]:
    """The draws of each chain, also those that others do not have."""
    if run.chain_draws:
        return [ChainDraws(chain) for chain in run.chain_draws]
    return [ChainDraws(run.draws, s) for s in range(run.draws.shape[0])]


def virtual_time(run: Sampled) -> bool:
    """Whether the trace's times are those of a simulated cluster. A replay keeps the times of the run it repeats."""
    record = run.trace.record
    return run.timing is None and (record is None or record.engine.get("name") == "inline")


def refuse_repetitions(run: Sampled) -> None:
    """Pictures compare the chains of one run."""
    if len(run.draws.shape) != 3:
        raise ArgumentError(
            "run", run, f"has {run.draws.shape[0]} repetitions, and pictures are of one run",
            "Take one out: sg.replay(run.trace, potential, kernel, first_repeat=r) gives repetition r alone.",
        )  # fmt: skip


def _of_function(run: Sampled, name: str, phi: Callable[[Array], Any] | Array) -> list[Quantity]:
    """φ of every draw; a quantity a component where it gives an array."""
    if callable(phi):
        chains = [np.array([phi(draw) for block in blocks(chain) for draw in block]) for chain in chain_draws(run)]
    else:
        chains = list(np.asarray(phi))
        if np.shape(phi)[:2] != run.draws.shape[:2]:
            problem = f"has shape {np.shape(phi)} for {run.draws.shape[0]} chains of {run.draws.shape[1]} draws"
            raise ArgumentError(f"functions[{name!r}]", phi, problem, "Give a function, or run.evaluate(function).")
    shape = max((chain.shape[1:] for chain in chains if len(chain)), default=())
    indices = _evenly(range(math.prod(shape)), MOST_COMPONENTS)
    values = [chain.reshape(len(chain), math.prod(shape))[:, indices].astype(float) for chain in chains]
    return _quantities(run, [component_name(name, shape, index) for index in indices], values)


def _quantities(run: Sampled, names: Sequence[str], values: Sequence[Array], every: int = 1) -> list[Quantity]:
    """A quantity a name, from the values (draw, name) of every k-th draw of each chain."""
    thinning = run.trace.thinning
    updates, steps = [], []
    for chain, columns in zip(run.trace.chains, values, strict=True):
        at = thinning.updates(chain.steps)[::every][: len(columns)]
        used = chain.of_updates(at).step_size
        updates.append(at + 1)
        steps.append(np.ones(len(at)) if used is None else used)
    return [
        Quantity(name, tuple(columns[:, k] for columns in values), tuple(steps), tuple(updates))
        for k, name in enumerate(names)
    ]


def _few(chains: Sequence[ChainDraws], components: Components, among: range, most: int) -> tuple[list[int], str]:
    """The components with the fewest effective draws, of at most ``_CANDIDATES`` evenly spread, and that in words."""
    if len(among) <= most:
        return list(among), ""
    length = min(map(len, chains))
    every = max(stride(chains, _SCAN_ENTRIES), math.ceil(length / _SCAN_DRAWS))
    if length < LEAST_DRAWS * every:
        return _evenly(among, most), "evenly spread"
    candidates = _evenly(among, _CANDIDATES)
    read = [components.read(chain, candidates, every) for chain in chains]
    values = np.stack([each[: min(map(len, read))] for each in read])
    finite = np.isfinite(values).all(axis=(0, 1))
    effective = np.where(finite, effective_sample_size(np.where(finite, values, 0.0)), 0.0)
    slowest = [candidates[k] for k in np.argsort(effective, kind="stable")[:most]]
    return slowest, "those that mix worst" + f" among {_CANDIDATES} that were looked at" * (len(among) > _CANDIDATES)


def _evenly(among: range, most: int) -> list[int]:
    """At most so many of a range, evenly spread from its first to its last."""
    if len(among) <= most:
        return list(among)
    return [among[k] for k in np.linspace(0, len(among) - 1, most).astype(int)]
