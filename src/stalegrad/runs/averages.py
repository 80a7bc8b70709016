"""Averages over draws as they come, so that no draw has to be kept: predictions, and test functions with their errors.

A function of one draw gives, for ever the same inputs,

* probabilities (rows, classes), which become a :class:`~stalegrad.analysis.estimates.PredictiveAverage`,
* a pair (mean, variance) of arrays, which becomes a :class:`~stalegrad.analysis.estimates.PredictiveNormal`,
* one number or a short list of them, which become an :class:`~stalegrad.analysis.estimates.Estimate`: their values at
  all draws are kept, a few bytes each, so that its Monte Carlo error is that of ``run.estimate``.

Every draw that burn-in, thinning and cycles leave is evaluated, weighted by its step size, once and in order, by the
thread that takes draws over from servers (:mod:`stalegrad.runs.store.writer`). Servers wait for it only where several
blocks of draws wait already. What it has so far is saved with every checkpoint of the chain, and goes on from there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError, StoreError
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import Estimate, PredictiveAverage, PredictiveNormal, estimate, rmse, score
from stalegrad.analysis.estimates.arrival import arrived
from stalegrad.analysis.estimates.draws import LEAST_DRAWS
from stalegrad.analysis.estimates.uncertainty import entropies
from stalegrad.kernels import Kernel
from stalegrad.protocol.draws import Thinning
from stalegrad.runs.spaced_values import SpacedValues

MOST_NUMBERS = 64
"""So many may a function give whose values are kept."""

Averaged = PredictiveAverage | PredictiveNormal | Estimate
PREFIX = "average:"
"""Of the names under which a checkpoint has the arrays of averages, beside those of the chain."""
_SCORED = 1.0  # seconds until the scores of averaged predictions are worked out again


class EvaluationFailed(StoreError):
    """A function of ``averages=`` has raised an exception, or has given what cannot be averaged."""


class Values:
    """The values of a test function at all draws of a chain."""

    def __init__(self) -> None:
        self._values: list[Array] = []
        self._weights: list[float] = []

    @property
    def count(self) -> int:
        """How many draws have been taken in so far."""
        return len(self._values)

    def add(self, value: Array, weight: float) -> None:
        """Take in the value at one draw."""
        if self._values and self._values[0].shape != value.shape:
            raise ValueError(f"it gave shape {value.shape}, and {self._values[0].shape} at the draws before")
        self._values.append(value)
        self._weights.append(weight)

    def arrays(self) -> dict[str, Array]:
        """The values at all draws and their weights, as plain arrays."""
        return {"values": np.array(self._values, np.float64), "weights": np.array(self._weights, np.float64)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self._values, self._weights = list(arrays["values"]), arrays["weights"].tolist()


_KINDS: dict[str, Callable[[], Any]] = {"classes": PredictiveAverage, "normals": PredictiveNormal, "values": Values}


class Averages:
    """The averages of a run: one accumulator a function and chain.

    Args:
        functions: of one draw θ, (n,), by name; or pairs (function, y) with what was observed, so that displays have
            scores, too.
        kernels: of the chains, whose schedules give the weights h_l.
        thinning: which updates become draws.
    """

    def __init__(self, functions: Mapping[str, Any], kernels: Sequence[Kernel], thinning: Thinning) -> None:
        parts = {name: each if isinstance(each, tuple) else (each, None) for name, each in functions.items()}
        self._functions = {name: function for name, (function, _) in parts.items()}
        self._observed = {name: y for name, (_, y) in parts.items() if y is not None}
        self._kernels, self.thinning = kernels, thinning
        self._found: list[dict[str, Any]] = [{} for _ in kernels]
        self.names: list[str] = []
        """Of the numbers in :attr:`spaced`: test functions, and what each draw alone says of its predictions."""
        self.spaced = [SpacedValues() for _ in kernels]
        """Those numbers at some evenly spaced draws of each chain, for observers."""
        self.evaluated = 0
        """Draws of all chains."""
        self.problem: str | None = None
        self._shown: tuple[float, int, dict[str, float]] = (0.0, 0, {})

    def add(self, chain: int, first: int, draws: Array) -> None:
        """Evaluate the draws (draw, n) of a chain, of which the first has this number."""
        for number, theta in enumerate(draws, first):
            weight = float(self._kernels[chain].schedule(self.thinning.update(number)))
            numbers: dict[str, float] = {}
            for name, function in self._functions.items():
                try:
                    numbers |= self._take(chain, name, function(theta), weight)
                except Exception as error:
                    self.problem = f"averages[{name!r}] failed at draw {number} of chain {chain}"
                    raise EvaluationFailed(f"{self.problem}: {type(error).__name__}: {error}") from error
            self.names = list(numbers)
            self.spaced[chain].add(number, np.array([*numbers.values()]), weight)
            self.evaluated += 1

    def _take(self, chain: int, name: str, made: Any, weight: float) -> dict[str, float]:
        """Count what a function gave; what it says in numbers."""
        kind = "normals" if isinstance(made, tuple) else "classes" if np.ndim(made) == 2 else "values"
        known = self._found[chain].setdefault(name, _KINDS[kind]())
        if not isinstance(known, _KINDS[kind]):  # type: ignore[arg-type]
            raise ValueError(f"it gave {kind}, and something else at the draws before")
        observed = self._observed.get(name)
        if kind == "normals":
            mean, variance = made
            known.add(mean, variance, weight)
            return (
                {f"{name} mean": float(np.mean(mean))} if observed is None else {f"{name} RMSE": rmse(mean, observed)}
            )
        if kind == "classes":
            known.add(made, weight)
            if observed is not None:
                return {f"{name} NLL of a draw": score(made, observed).nll}
            return {f"{name} entropy of a draw": float(entropies(np.asarray(made, np.float64)).mean())}
        value = np.asarray(made, np.float64)
        if value.ndim > 1 or value.size > MOST_NUMBERS or not np.isfinite(value).all():
            remedy = "give probabilities (rows, classes), a pair (mean, variance), or up to 64 finite numbers"
            raise ValueError(f"it gave shape {value.shape}, or numbers that are not finite: {remedy}")
        known.add(value, weight)
        flat = np.ravel(value).tolist()
        return {name: flat[0]} if value.ndim == 0 else {f"{name}[{k}]": entry for k, entry in enumerate(flat)}

    def arrays(self, chain: int) -> dict[str, Array]:
        """What a checkpoint of the chain is to have."""
        return {
            f"{PREFIX}{kind}:{part}:{name}": array
            for name, each in self._found[chain].items()
            for kind in _KINDS
            if isinstance(each, _KINDS[kind])  # type: ignore[arg-type]
            for part, array in each.arrays().items()
        }

    def restore(self, chain: int, arrays: Mapping[str, Array]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self._found[chain] = _read(arrays)
        self.evaluated += max((each.count for each in self._found[chain].values()), default=0)

    @property
    def values(self) -> dict[str, float]:
        """What to show: averages of numbers, and what averaged predictions say; of a moment ago."""
        made, count, shown = self._shown
        if self.evaluated != count and time.monotonic() - made >= _SCORED:
            shown = {}
            for name, result in results(self._found).items():
                shown |= _in_numbers(name, result, self._observed.get(name))
            self._shown = time.monotonic(), self.evaluated, shown
        return shown

    def results(self) -> dict[str, Averaged]:
        """The averages over all chains, by name."""
        return results(self._found)


def stored_averages(states: Sequence[Mapping[str, Array]]) -> dict[str, Averaged]:
    """The averages that the checkpoints of all chains have."""
    return results([_read(arrays) for arrays in states])


def results(chains: Sequence[Mapping[str, Any]]) -> dict[str, Averaged]:
    """Accumulators of all chains as averages over them; those that all have."""
    names = [name for name in chains[0] if all(name in chain and chain[name].count for chain in chains)]
    return {name: _together([chain[name] for chain in chains]) for name in names}


def _together(parts: list[Any]) -> Averaged:
    if not isinstance(parts[0], Values):
        return sum(parts[1:], start=parts[0])  # type: ignore[no-any-return]
    read = [part.arrays() for part in parts]
    values, weights = [each["values"] for each in read], [each["weights"] for each in read]
    if min(map(len, values)) < LEAST_DRAWS:
        shares = np.array([w.sum() for w in weights])
        own = np.stack([np.average(v, axis=0, weights=w) for v, w in zip(values, weights, strict=True)])
        mean = np.average(own, axis=0, weights=shares)
        return Estimate(mean, np.full(np.shape(mean), np.nan)[()], own, shares / shares.sum())
    average = estimate(values, step_sizes=weights)
    length = min(map(len, values))
    there = arrived(np.stack([v[:length] for v in values]))
    error = np.where(there, average.standard_error, np.nan)[()]
    return Estimate(average.value, error, average.chains, average.weights)


def _in_numbers(name: str, result: Averaged, observed: Any) -> dict[str, float]:
    """What there is to show of an average."""
    if isinstance(result, Estimate):
        return {name: float(result)} if np.ndim(result.value) == 0 else {}
    if isinstance(result, PredictiveAverage):
        if observed is None:
            return {f"{name} entropy": float(result.entropy.mean())}
        scores = result.scores(observed)
        return {f"{name} NLL": scores.nll, f"{name} accuracy": scores.accuracy}
    if observed is None:
        return {f"{name} s.d.": float(np.sqrt(result.variance).mean())}
    normal = result.scores(observed)
    return {f"{name} RMSE": normal.rmse, f"{name} CRPS": normal.crps}


def _read(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The accumulators in a checkpoint."""
    parts: dict[tuple[str, str], dict[str, Array]] = {}
    for key, array in arrays.items():
        if key.startswith(PREFIX):
            kind, part, name = key.removeprefix(PREFIX).split(":", 2)
            parts.setdefault((kind, name), {})[part] = array
    found = {}
    for (kind, name), own in parts.items():
        found[name] = _KINDS[kind]()
        found[name].restore(own)
    return found


def check_functions(averages: Any) -> dict[str, Any]:
    """The functions of ``averages=``, by name, or a complaint."""
    if averages is None:
        return {}
    remedy = 'Give a mapping such as {"test": model.predictive(X_test)}, or pairs (function, y) in it.'
    if not isinstance(averages, Mapping):
        raise ArgumentError("averages", averages, "is not a mapping of functions", remedy)
    for name, each in averages.items():
        function = each[0] if isinstance(each, tuple) and len(each) == 2 else each
        if not isinstance(name, str) or not callable(function):
            raise ArgumentError(f"averages[{name!r}]", each, "is neither a function nor a pair (function, y)", remedy)
    return dict(averages)
