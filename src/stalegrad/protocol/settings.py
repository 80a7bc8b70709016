"""The settings of a run: one record, checked once, wherever a run is described.

Calls of :func:`stalegrad.sample`, job files, stores, traces and the tasks of other processes all hold this record. A
new setting is a field here, an argument of :func:`stalegrad.sample`, and whatever uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import Table, check_keys, check_table
from stalegrad._internal.validation import one_of, real_number, whole_number
from stalegrad.kernels.noise import MAX_CHAINS, MAX_SEED, MAX_UPDATES, MAX_WORKERS
from stalegrad.potentials.wire.formats import Messages, WireFormat, wire_format
from stalegrad.protocol.admission import POLICIES, Policy
from stalegrad.protocol.architectures import Architecture, StaleGradients, as_architecture
from stalegrad.protocol.architectures.tables import (
    architecture_from_table,
    architecture_table,
    remembered_architecture,
)
from stalegrad.protocol.draws import Thinning

Keep = Literal["all", "last", "none"]
KEEP = ("all", "last", "none")
OnStoreError = Literal["stop", "continue"]
ON_STORE_ERROR = ("stop", "continue")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a run is made: all of it that is neither the model, nor a sampler, nor an engine.

    Args:
        steps: L, accepted updates of each chain.
        workers: W, workers of each chain.
        servers: S, chains.
        max_staleness: τ, the bound on staleness; None for no bound.
        policy: what happens at the bound, see :mod:`stalegrad.protocol.admission`.
        seed: of everything random.
        burn_in: updates of each chain that are not kept.
        thin: of those after burn-in, every thin-th is kept.
        cycle: updates of a cycle, of which the first ``explore`` do not sample and are not kept; 0 without cycles. It
            follows from the sampler, see :meth:`stalegrad.kernels.Kernel.in_cycles`.
        explore: as above.
        keep: which draws stay: ``"all"``, the ``"last"`` of each chain, or ``"none"``.
        averages: the names of the functions that are averaged while draws come.
        architecture: who samples and who sends what; None for the default.
        messages: how points and gradients travel, ``"float32"``, ``"bfloat16"`` or ``"int8"``, see
            :mod:`stalegrad.potentials.wire`.
        checkpoint_every: seconds between checkpoints of a stored run, at most: the first ones come sooner.
        on_store_error: what to do when the store cannot be written, ``"stop"`` or ``"continue"`` and try again.

    >>> Settings(steps=100, workers=4).table()
    {'steps': 100, 'workers': 4}
    """

    steps: int
    workers: int = 1
    servers: int = 1
    max_staleness: int | None = None
    policy: Policy = "drop"
    seed: int = 0
    burn_in: int = 0
    thin: int = 1
    cycle: int = 0
    explore: int = 0
    keep: Keep = "all"
    averages: tuple[str, ...] = ()
    architecture: Architecture = field(default_factory=StaleGradients)
    messages: Messages = "float32"
    checkpoint_every: float = 60.0
    on_store_error: OnStoreError = "stop"

    def __post_init__(self) -> None:
        checked = {
            "steps": whole_number("steps", self.steps, least=1, most=MAX_UPDATES),
            "workers": whole_number("workers", self.workers, least=1, most=MAX_WORKERS),
            "servers": whole_number("servers", self.servers, least=1, most=MAX_CHAINS),
            "seed": whole_number("seed", self.seed, most=MAX_SEED),
            "burn_in": whole_number("burn_in", self.burn_in),
            "thin": whole_number("thin", self.thin, least=1),
            "cycle": whole_number("cycle", self.cycle),
            "explore": whole_number("explore", self.explore),
            "keep": one_of("keep", self.keep, KEEP),
            "averages": tuple(map(str, self.averages)),
            "policy": one_of("policy", self.policy, POLICIES),
            "architecture": as_architecture(self.architecture),
            "messages": wire_format(self.messages).name,
            "checkpoint_every": real_number("checkpoint_every", self.checkpoint_every, least=0),
            "on_store_error": one_of("on_store_error", self.on_store_error, ON_STORE_ERROR),
        }
        if self.max_staleness is not None:
            checked["max_staleness"] = whole_number("max_staleness", self.max_staleness)
        elif self.policy == "wait":
            problem = "leaves policy='wait' nothing to hold"
            raise ArgumentError("max_staleness", None, problem, "Give a bound, or policy='drop'.")
        for name, value in checked.items():  # plain numbers, also of NumPy's: they go into JSON
            object.__setattr__(self, name, value)
        self.thinning.refuse_unless_some(self.steps)

    @property
    def thinning(self) -> Thinning:
        """``burn_in``, ``thin`` and cycles as the rule that says which updates become draws."""
        return Thinning(self.burn_in, self.thin, self.cycle, self.explore)

    @property
    def wire(self) -> WireFormat:
        """``messages`` as what rounds and packs them."""
        return wire_format(self.messages)

    def kept(self, draws: int) -> slice:
        """Which of so many draws of a chain are kept."""
        return {"all": slice(0, draws), "last": slice(max(0, draws - 1), draws), "none": slice(0, 0)}[self.keep]

    def changed(self, **changes: Any) -> Self:
        """The same settings with others in their place; those that are None stay as they are."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def table(self) -> Table:
        """The settings that differ from their defaults, in plain types; :meth:`from_table` reads them."""
        plain = {name: getattr(self, name) for name in SETTINGS}
        plain |= {"architecture": architecture_table(self.architecture), "averages": list(self.averages)}
        defaults = {f.name: f.default for f in fields(self)} | {"architecture": None, "averages": []}
        return {name: value for name, value in plain.items() if value != defaults[name]}

    @classmethod
    def from_table(cls, table: Mapping[str, Any], path: str = "", *, remembered: bool = False) -> Self:
        """The settings that a table holds.

        Args:
            table: what :meth:`table` gave, or a job file.
            path: where it stands, for messages.
            remembered: whether it is of a run that was made: then nothing that it names is imported.
        """
        check_table(table, path or "settings", f"Give a table with: {', '.join(SETTINGS)}.")
        check_keys(table, SETTINGS, path, f"Settings are: {', '.join(SETTINGS)}.")
        if "steps" not in table:
            raise ArgumentError(f"{path}.steps" if path else "steps", None, "is missing", "Give L, such as 10_000.")
        given = dict(table)
        if "architecture" in given:
            where = f"{path}.architecture" if path else "architecture"
            read = remembered_architecture if remembered else architecture_from_table
            given["architecture"] = read(given["architecture"], path=where)
        try:
            return cls(**given)
        except ArgumentError as error:
            raise error.inside(path) from None


SETTINGS = tuple(f.name for f in fields(Settings))
"""Their names, in order."""

CHOSEN = tuple(name for name in SETTINGS if name not in ("cycle", "explore", "averages"))
"""Those that a user chooses; the others follow from the sampler and from functions."""
