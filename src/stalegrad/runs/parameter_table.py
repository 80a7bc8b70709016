"""``run.summary()``: what the draws say of every parameter, in a table by name."""

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from stalegrad._internal.text import printable
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.runs.summary import ParameterSummary, Summarised, parameter_summaries, spread

COLUMNS = ("mean", "sd", "mcse", "ess", "rhat")
_AT_ONCE = 64  # parameters whose draws are in memory together
_FIGURES = {"mean": ".4g", "sd": ".4g", "mcse": ".2g", "ess": ",.0f", "rhat": ".3f"}
_SHOWN = 60  # rows that are printed; of more, some from the beginning and some from the end


class ParameterTable:
    """Numbers by name of parameter and of column, for Python without pandas.

    Args:
        names: of the parameters.
        values: (parameter, column), of :data:`COLUMNS`.
        size: how many parameters the model has.

    >>> table = ParameterTable(["a", "b[0]"], np.array([[1.5, 0.25, 0.011, 512.0, 1.001], [-2, 1, 0.05, 400, np.nan]]))
    >>> print(table)
           mean    sd   mcse  ess   rhat
    a       1.5  0.25  0.011  512  1.001
    b[0]     -2     1   0.05  400      –
    >>> table["mean"]["b[0]"], len(table), len(table.head(1))
    (-2.0, 2, 1)
    """

    columns = COLUMNS

    def __init__(self, names: Sequence[str], values: Array, size: int | None = None) -> None:
        self.index, self.values = list(names), values
        self.size = len(names) if size is None else size

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, column: str) -> dict[str, float]:
        """A column, by name of parameter."""
        return dict(zip(self.index, self.values[:, COLUMNS.index(column)].tolist(), strict=True))

    def head(self, rows: int = 5) -> "ParameterTable":
        """The first rows, as pandas has them."""
        return ParameterTable(self.index[:rows], self.values[:rows], self.size)

    def __str__(self) -> str:
        rows = [["", *COLUMNS]] + [
            [printable(name), *(_figure(value, column) for value, column in zip(values, COLUMNS, strict=True))]
            for name, values in zip(self.index, self.values, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        if len(self) > _SHOWN:
            lines[1 + _SHOWN // 2 : len(lines) - _SHOWN // 2] = [f"… {len(self) - _SHOWN:,} more"]
        if len(self) < self.size:
            lines.append(f"{len(self):,} of {self.size:,} parameters")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def parameter_table(run: Summarised, parameters: Sequence[str] | None, most: int) -> Any:
    """See :meth:`stalegrad.runs.result.Run.summary`."""
    most = whole_number("most", most, least=1)
    chosen = spread(run.variables(np.asarray(run.draws[0, :1])), most)
    size = run.draws.shape[-1]
    if parameters is not None:
        chosen = _named(run, [parameters] if isinstance(parameters, str) else parameters)
    elif len(chosen) < size:
        text = f"the model has {size:,} parameters, of which run.summary() shows {len(chosen):,}, evenly spaced. Name "
        warnings.warn(f"{text}those to see, parameters=[…], or give most={size}", stacklevel=3)
    rows: list[ParameterSummary] = []
    for first in range(0, len(chosen), _AT_ONCE):
        rows += parameter_summaries(run, chosen[first : first + _AT_ONCE])
    values = np.array([[p.mean, p.deviation, p.standard_error, p.ess, p.rhat] for p in rows]).reshape(-1, len(COLUMNS))
    names = [p.name for p in rows]
    if find_spec("pandas") is None:
        return ParameterTable(names, values, size)
    return import_module("pandas").DataFrame(values, index=names, columns=list(COLUMNS))


def _named(run: Summarised, names: Sequence[str]) -> list[tuple[str, tuple[int, ...], int]]:
    """The entries of variables, or single ones, by name: the variable, its shape, and the number in it."""
    from stalegrad.analysis.plots.components import Components

    components = Components(run.variables, np.asarray(run.draws[0, 0]))
    starts = {name: components.range(name).start for name in components.shapes}
    numbers = [index for name in names for index in components.range(name)]
    found = []
    for index in numbers:
        variable = next(name for name in reversed(starts) if starts[name] <= index)
        found.append((variable, components.shapes[variable], index - starts[variable]))
    return found


def _figure(value: float, column: str) -> str:
    return "–" if np.isnan(value) else format(value, _FIGURES[column])
