"""Engines and the laws of a simulated cluster as plain tables, see :mod:`stalegrad.plain`.

``{"name": "processes", "threads": 2, "slow": {"3": 0.5}}``, or a simulated cluster: ``{"name": "inline", "compute":
{"name": "LogNormal", "mean": 0.025, "factors": {"0": 5.0}}, "network": {"latency": 1e-4, "bandwidth": 1e9}}``.
"""

from collections.abc import Mapping
from typing import Any

from stalegrad.engines.base import Engine
from stalegrad.engines.inline import Inline
from stalegrad.engines.mpi import MPI
from stalegrad.engines.processes import Processes
from stalegrad.engines.ray import Ray
from stalegrad.engines.threads import Threads
from stalegrad.errors import ArgumentError
from stalegrad.plain import OPAQUE, ByWorker, Family, NumberOr, Table, in_words
from stalegrad.simulation import Constant, Exponential, Law, LogNormal, Network

LAWS: Family[Law] = Family(
    "law", {member.__name__: member for member in (Constant, Exponential, LogNormal)}, {"factors": ByWorker()}
)


class _Network:
    """There is one kind of network, so its table has no name."""

    _family: Family[Network] = Family("network", {"Network": Network})

    def write(self, value: Network) -> Table:
        return self._family.settings(value)

    def read(self, table: Any, path: str) -> Network:
        return self._family.build(Network, table, path)


class _InScriptsOnly:
    """Something that lives in a process and that no table can rebuild, such as a communicator."""

    def write(self, value: Any) -> Table:
        return {OPAQUE: in_words(value)}

    def read(self, value: Any, path: str) -> Any:
        raise ArgumentError(path, value, "cannot be given in a table", "Leave it out, or write a script.")


ENGINES: Family[Any] = Family(
    "engine",
    {"threads": Threads, "processes": Processes, "mpi": MPI, "ray": Ray, "inline": Inline},
    {"compute": NumberOr(LAWS), "network": NumberOr(_Network()), "slow": ByWorker(), "comm": _InScriptsOnly()},
)


def engine_table(engine: Engine) -> Table:
    """The plain table of an engine; of one that is not stalegrad's own, ``{"opaque": "what it is, in words"}``.

    >>> engine_table(Processes(threads=2, patience=60.0))
    {'name': 'processes', 'patience': 60.0, 'restarts': 3, 'threads': 2, 'shards': 1}
    """
    return ENGINES.write(engine)


def engine_from_table(table: Mapping[str, Any], *, path: str = "engine") -> Engine:
    """The engine that a table describes; ``path`` says where the table stands, for messages.

    >>> engine_from_table({"name": "inline", "compute": {"name": "Exponential", "mean": 0.025}}).compute
    Exponential(factors=(), mean=0.025)
    """
    engine: Engine = ENGINES.read(table, path)
    return engine
