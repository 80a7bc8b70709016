"""Engines and the laws of a simulated cluster as plain tables, see :mod:`stalegrad._internal.tables`.

``{"name": "processes", "threads": 2, "slow": {"3": 0.5}}``, or a simulated cluster: ``{"name": "inline", "compute":
{"name": "LogNormal", "mean": 0.025, "factors": {"0": 5.0}}, "network": {"latency": 1e-4, "bandwidth": 1e9}}``.
"""

from collections.abc import Mapping
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import OPAQUE, ByWorker, NumberOr, Registry, Table, in_words
from stalegrad._internal.validation import one_of
from stalegrad.engines.base import Engine
from stalegrad.engines.inline import Inline
from stalegrad.engines.mpi import MPI
from stalegrad.engines.processes import Processes
from stalegrad.engines.ray import Ray
from stalegrad.engines.simulation import Constant, Exponential, Law, LogNormal, Network
from stalegrad.engines.threads import Threads

LAWS: Registry[Law] = Registry(
    "law", {member.__name__: member for member in (Constant, Exponential, LogNormal)}, {"factors": ByWorker()}
)


class _Network:
    """There is one kind of network, so its table has no name."""

    _registry: Registry[Network] = Registry("network", {"Network": Network})

    def write(self, value: Network) -> Table:
        return self._registry.settings(value)

    def read(self, table: Any, path: str) -> Network:
        return self._registry.build(Network, table, path)


class _InScriptsOnly:
    """Something that lives in a process and that no table can rebuild, such as a communicator."""

    def write(self, value: Any) -> Table:
        return {OPAQUE: in_words(value)}

    def read(self, value: Any, path: str) -> Any:
        raise ArgumentError(path, value, "cannot be given in a table", "Leave it out, or write a script.")


ENGINES: Registry[Engine] = Registry(
    "engine",
    {"threads": Threads, "processes": Processes, "mpi": MPI, "ray": Ray, "inline": Inline},
    {
        "compute": NumberOr(LAWS),
        "network": NumberOr(_Network()),
        "slow": ByWorker(),
        "comm": _InScriptsOnly(),
        "hostile": _InScriptsOnly(),
    },
    base=Engine,
)


def engine_table(engine: Engine) -> Table:
    """The plain table of an engine; one of your own, a dataclass in a module, is named ``"package.module:ClassName"``.

    >>> engine_table(Processes(threads=2, patience=60.0))
    {'name': 'processes', 'patience': 60.0, 'restarts': 3, 'threads': 2, 'update_threads': 1}
    """
    return ENGINES.write(engine)


def engine_from_table(table: Mapping[str, Any], *, path: str = "engine") -> Engine:
    """The engine that a table describes; ``path`` says where the table stands, for messages.

    >>> engine_from_table({"name": "inline", "compute": {"name": "Exponential", "mean": 0.025}}).compute
    Exponential(factors=(), mean=0.025)
    """
    return ENGINES.read(table, path)


def named_engine(name: str, settings: Mapping[str, Any]) -> Engine:
    """An engine of stalegrad's, or a user's own by ``"package.module:ClassName"``, with some settings."""
    if ":" in name:
        return ENGINES.read({"name": name, **settings}, "engine")
    member = ENGINES.members[one_of("engine", name, tuple(ENGINES.members))]
    return ENGINES.build(member, settings, f"engines.{name}")
