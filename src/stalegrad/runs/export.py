"""A run in the form that ArviZ reads: draws as named variables, and beside each draw how it came about.

arviz_base and xarray are imported here only, when they are needed.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad._internal.errors import ArgumentError, MissingExtra
from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.estimates.draw_blocks import draw_blocks, kept_draws
from stalegrad.potentials import Potential
from stalegrad.protocol.architectures import architecture_table
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import DrawStats, Thinning
from stalegrad.protocol.run_record import RunRecord
from stalegrad.protocol.trace import Trace

if TYPE_CHECKING:
    from xarray import DataTree as DataTree

LogLikelihood = Potential | Callable[[Array], Any]
"""A model that says how likely each of its data is, or a function from one draw to that, (N,)."""


def inference_data(
    draws: Array,
    trace: Trace,
    stats: DrawStats,
    named: Callable[[Array], Mapping[str, Array]],
    *,
    variables: str | Iterable[str] | None = None,
    thin: int = 1,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
    log_likelihood: LogLikelihood | None = None,
) -> "DataTree":
    """The groups ``posterior``, ``sample_stats`` and ``log_likelihood``; :meth:`stalegrad.Run.to_arviz` has more.

    Args:
        draws: (chain, draw, parameter).
        trace: of the run.
        stats: what was noted beside each draw.
        named: turns draws (…, n) into named variables.
        variables: names of those to convert; None for all.
        thin: convert every thin-th draw.
        dims: names of a variable's axes after chain and draw.
        coords: labels along named axes.
        log_likelihood: a model, or a function from one draw to log p(d_i | θ) of every datum.
    """
    try:
        from arviz_base import from_dict
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("arviz_base", "xarray"):
            raise
        raise MissingExtra("to_arviz", "arviz") from error
    posterior = _posterior(draws, named, None if variables is None else _chosen(variables), thin)
    kept = kept_draws(draws, thin)
    noted = DrawStats(*(column[:, kept.start :: kept.step] for column in stats))
    thinning = replace(trace.thinning, thin=trace.thin * thin)
    about = _about(trace, thinning)
    groups = {"posterior": posterior, "sample_stats": _sample_stats(trace, noted, thinning)}
    if log_likelihood is not None:
        groups["log_likelihood"] = {"y": _likelihoods(draws, log_likelihood, thin)}
    tree: DataTree = from_dict(
        groups,
        sample_dims=["chain", "draw"],
        dims=None if dims is None else {name: list(axes) for name, axes in dims.items()},
        coords=None if coords is None else dict(coords),
        attrs=dict.fromkeys(("/", *groups), about),
        check_conventions=False,  # it takes more chains than draws for a mix-up of the two
    )
    return tree


def _posterior(
    draws: Array, named: Callable[[Array], Mapping[str, Array]], chosen: Sequence[str] | None, thin: int
) -> dict[str, Array]:
    """The variables, (chain, draw, …). Of those that are not chosen no more than a block is in memory at a time."""
    result: dict[str, Array] = {}
    for where, block in draw_blocks(draws, thin):
        for name, piece in _pick(_renamed(named(block)), chosen).items():
            if name not in result:
                shape = (piece.shape[0], len(kept_draws(draws, thin)), *piece.shape[2:])
                result[name] = np.empty(shape, piece.dtype)
            result[name][:, where] = piece
    return result


def _likelihoods(draws: Array, of: LogLikelihood, thin: int) -> Array:
    """log p(d_i | θ_l), (chain, draw, datum), in float64."""
    function = of.log_likelihood if isinstance(of, Potential) else of
    if not callable(function):
        remedy = "Give the potential, or a function of a draw that returns log p(d_i | θ) of every datum, (N,)."
        raise ArgumentError("log_likelihood", of, f"is a {type(of).__name__}", remedy)
    kept = len(kept_draws(draws, thin))
    result: Array | None = None
    for where, block in draw_blocks(draws, thin):
        for chain, rows in enumerate(block):
            for place, theta in enumerate(rows, where.start):
                values = np.asarray(function(theta), np.float64)
                if result is None:
                    result = np.empty((draws.shape[0], kept, values.size))
                if values.ndim != 1 or values.shape != result.shape[2:]:
                    remedy = "Return log p(d_i | θ) of every datum, (N,), always of the same data."
                    raise ArgumentError("log_likelihood", of, f"gave shape {values.shape} for a draw", remedy)
                result[chain, place] = values
    assert result is not None  # kept_draws leaves one at least
    return result


def _renamed(pieces: Mapping[str, Array]) -> dict[str, Array]:
    result = {_name(name): piece for name, piece in pieces.items()}
    if len(result) < len(pieces):
        raise ArgumentError("variables", list(pieces), "has names that differ by a slash or underscore", "Rename them.")
    return result


def _name(name: str) -> str:
    """A name that xarray takes: a slash would be the path to another group, and axes have names of their own."""
    path = name.replace("/", ".")
    return f"{path}_" if path in ("chain", "draw") else path


def _chosen(variables: str | Iterable[str]) -> list[str]:
    return [_name(name) for name in ([variables] if isinstance(variables, str) else variables)]


def _pick(pieces: dict[str, Array], chosen: Sequence[str] | None) -> dict[str, Array]:
    if chosen is None:
        return pieces
    unknown = [name for name in chosen if name not in pieces]
    if unknown or not chosen:
        known = ", ".join(map(repr, pieces))
        raise ArgumentError("variables", unknown or chosen, "names no variable of this model", f"There are: {known}.")
    return {name: pieces[name] for name in chosen}


def _sample_stats(trace: Trace, noted: DrawStats, thinning: Thinning) -> dict[str, Array]:
    kept = thinning.updates(min(chain.steps for chain in trace.chains))
    updates = [chain.of_updates(kept) for chain in trace.chains]
    columns = {name: [getattr(each, name) for each in updates] for name in ("step_size", "staleness", "worker", "time")}
    known = {name: column for name, column in columns.items() if not any(part is None for part in column)}
    result = {name: np.stack(column) for name, column in known.items()}
    result["accepted"] = np.stack([_accepted(chain, kept, thinning) for chain in trace.chains])
    result["gradient_norm"] = np.asarray(noted.gradient_norm)
    temperature = np.asarray(noted.kinetic_temperature)
    if not np.isnan(temperature).all():
        result["kinetic_temperature"] = temperature
    return result


def _accepted(chain: ChainTrace, last: IntArray, thinning: Thinning) -> Array:
    """The share of gradients that were accepted, of those that arrived for the updates up to each draw.

    Those are the updates since the draw before; of the first draw ``thin``, those of a burn-in left out.
    """
    before = np.concatenate([last[:1] - thinning.thin, last[:-1]])  # none for the first draw without burn-in
    start = np.full(int(np.count_nonzero(before < 0)), -1)
    arrived = chain.arrivals(last) - np.concatenate([start, chain.arrivals(before[before >= 0])])
    share: Array = (last - np.maximum(before, -1)) / arrived
    return share


def _about(trace: Trace, thinning: Thinning) -> dict[str, Any]:
    """How the run was made, in numbers and text, which every file format takes. What is None is left out."""
    selection = {"seed": trace.seed, "burn_in": thinning.burn_in, "thin": thinning.thin}
    facts = {} if trace.record is None else _facts(trace.record)
    facts = {**facts, **selection, "inference_library": "stalegrad"}
    with suppress(PackageNotFoundError):  # the source may be on the path without being installed
        facts["inference_library_version"] = version("stalegrad")
    return {name: fact if _plain(fact) else json.dumps(fact) for name, fact in facts.items() if fact is not None}


def _facts(record: RunRecord) -> dict[str, Any]:
    model, settings = record.model, record.settings
    return {
        "model": model.type, "n_data": model.n_data, "batch_size": model.batch_size, "kernels": list(record.kernels),
        "engine": record.engine.get("name"), "workers": settings.workers, "max_staleness": settings.max_staleness,
        "policy": settings.policy, "architecture": architecture_table(settings.architecture),
    }  # fmt: skip


def _plain(fact: Any) -> bool:
    return isinstance(fact, str | int | float) and not isinstance(fact, bool)
