"""What is known of a run besides its trace: enough, with the model, to make it again or to go on with it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import Table, check_table
from stalegrad._internal.types import Array
from stalegrad._internal.validation import float_dtype, whole_number
from stalegrad.kernels import Kernel, kernel_table
from stalegrad.potentials.base import Potential
from stalegrad.protocol.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What tells one model from another, without the model.

    Args:
        type: the name of its class.
        size: n.
        dtype: of θ.
        n_data: N.
        batch_size: J.
        scheme: how minibatches are drawn.
        layout: the named pieces of θ with their shapes.
        gradient_norm: of the first minibatch gradient at the start, which tells data apart that have the same size;
            None where it was not computed.
        is_network: whether its runs are judged by what it predicts, and not by θ.
    """

    type: str
    size: int
    dtype: str
    n_data: int
    batch_size: int
    scheme: str
    layout: Mapping[str, tuple[int, ...]]
    gradient_norm: float | None = None
    is_network: bool = False

    @classmethod
    def of(cls, potential: Potential, start: Array | None = None) -> Self:
        """Those of a model; with a gradient at ``start`` if one is given."""
        norm = None
        if start is not None:
            gradient = potential.gradient(start, potential.minibatches.draw(0, 0, 0, 0))
            norm = float(np.linalg.norm(gradient.astype(np.float64)))
        return cls(
            type=type(potential).__name__, size=potential.size, dtype=potential.dtype.name, n_data=potential.n_data,
            batch_size=potential.batch_size, scheme=potential.minibatches.scheme, layout=dict(potential.layout),
            gradient_norm=norm, is_network=potential.is_network,
        )  # fmt: skip

    def table(self) -> Table:
        """The facts in types that JSON has; :meth:`from_table` reads them."""
        table = {**asdict(self), "layout": {name: list(shape) for name, shape in self.layout.items()}}
        return {name: value for name, value in table.items() if name != "is_network" or value}

    @classmethod
    def from_table(cls, table: Mapping[str, Any], path: str = "model") -> Self:
        """What :meth:`table` gave; whatever is missing or of another kind is an :class:`ArgumentError`."""
        facts = _whole(cls, table, path)
        for name in ("type", "dtype", "scheme"):
            if not isinstance(facts[name], str):
                raise ArgumentError(f"{path}.{name}", facts[name], "is not text", "Give a name.")
        for name in ("size", "n_data", "batch_size"):
            whole_number(f"{path}.{name}", facts[name], least=1)
        float_dtype(f"{path}.dtype", facts["dtype"])
        if (norm := facts["gradient_norm"]) is not None and not isinstance(norm, int | float):  # it may be infinite
            raise ArgumentError(f"{path}.gradient_norm", norm, "is not a number", "Give one, or None.")
        if not isinstance(facts["is_network"], bool):
            raise ArgumentError(f"{path}.is_network", facts["is_network"], "is not true or false", "Give one of them.")
        layout = _layout(facts["layout"], f"{path}.layout", facts["size"])
        return cls(**{**facts, "layout": layout})


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run as traces and stores remember it.

    Args:
        settings: how it was made.
        kernels: the tables of the samplers, one a chain, see :mod:`stalegrad.kernels.tables`.
        engine: the table of the engine that made it.
        model: what was sampled.
        warmup: what the warm-up has found and chosen, in plain types; None without one.
    """

    settings: Settings
    kernels: tuple[Table, ...]
    engine: Table
    model: ModelFacts
    warmup: Table | None = None

    @classmethod
    def of(
        cls,
        settings: Settings,
        kernels: Sequence[Kernel],
        engine: Table,
        potential: Potential,
        start: Array | None = None,
        warmup: Table | None = None,
    ) -> Self:
        """That of a run which is about to be made."""
        tables = tuple(kernel_table(kernel) for kernel in kernels)
        facts = ModelFacts.of(potential, start)
        return cls(settings=settings, kernels=tables, engine=engine, model=facts, warmup=warmup)

    def table(self) -> Table:
        """In plain types, for JSON."""
        return {
            "settings": self.settings.table(),
            "kernels": [dict(kernel) for kernel in self.kernels],
            "engine": dict(self.engine),
            "model": self.model.table(),
            **({} if self.warmup is None else {"warmup": dict(self.warmup)}),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any], path: str = "record") -> Self:
        """What :meth:`table` gave; whatever is missing or of another kind is an :class:`ArgumentError`."""
        found = _whole(cls, table, path)
        kernels = found["kernels"]
        if not isinstance(kernels, list | tuple) or not all(isinstance(kernel, Mapping) for kernel in kernels):
            raise ArgumentError(f"{path}.kernels", kernels, "is not a list of tables", "Give one a chain.")
        check_table(found["engine"], f"{path}.engine", "Give the table of an engine.")
        if found["warmup"] is not None:
            check_table(found["warmup"], f"{path}.warmup", "Give the table of a warm-up, or none.")
        settings = Settings.from_table(found["settings"], f"{path}.settings", remembered=True)
        if len(kernels) != settings.servers:
            problem = f"has {len(kernels)} tables for {settings.servers} chains"
            raise ArgumentError(f"{path}.kernels", kernels, problem, "Give one a chain.")
        return cls(
            settings=settings,
            kernels=tuple(dict(kernel) for kernel in kernels),
            engine=dict(found["engine"]),
            model=ModelFacts.from_table(found["model"], f"{path}.model"),
            warmup=None if found["warmup"] is None else dict(found["warmup"]),
        )


def _layout(value: Any, path: str, size: int) -> dict[str, tuple[int, ...]]:
    """Shapes by name that make up a vector of this size."""
    check_table(value, path, "Give shapes by name.")
    for name, shape in value.items():
        if not isinstance(shape, list | tuple):
            raise ArgumentError(f"{path}.{name}", shape, "is not a shape", "Give a list of whole numbers ≥ 0.")
        for length in shape:
            whole_number(f"{path}.{name}", length, most=size)
    layout = {name: tuple(shape) for name, shape in value.items()}
    if (entries := sum(math.prod(shape) for shape in layout.values())) != size:
        raise ArgumentError(path, value, f"has {entries} entries, and the model has {size}", "Give its own shapes.")
    return layout


def _whole(cls: type, table: Any, path: str) -> Table:
    """The fields of a table, all of which must be there."""
    names = [f.name for f in fields(cls)]
    check_table(table, path, f"It has: {', '.join(names)}.")
    # Runs without a warm-up do not mention it, nor models that are no networks that they are none.
    optional = {f.name: f.default for f in fields(cls) if f.name in ("warmup", "is_network")}
    for name in names:
        if name not in table and name not in optional:
            raise ArgumentError(path, table, f"has no {name}", f"It has: {', '.join(names)}.")
    return {name: table.get(name, optional[name]) if name in optional else table[name] for name in names}
