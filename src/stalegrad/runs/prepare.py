"""A run before it starts: model, samplers, engine and start checked against each other, and everything put in place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import Table
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array
from stalegrad.engines import Engine, Job, engine_table
from stalegrad.engines.base import Checkpoint, Recording
from stalegrad.engines.tables import ENGINES, named_engine
from stalegrad.engines.team import Team
from stalegrad.engines.update_threads import split_over
from stalegrad.kernels import Kernel
from stalegrad.kernels.schedules import AUTO
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.natural import NaturalPotential
from stalegrad.potentials.wrappers.rounded import Rounded
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.architectures.tables import known_architecture
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.past import Past
from stalegrad.protocol.run_record import RunRecord
from stalegrad.protocol.server import ChainStatus
from stalegrad.protocol.settings import Settings
from stalegrad.protocol.trace import Trace

Kernels = Kernel | Sequence[Kernel]


@dataclass(frozen=True)
class Prepared:
    """A run that can be made.

    Args:
        potential: the model, as the user has it.
        kernels: the sampler of each chain.
        engine: that makes the run.
        settings: with as many workers as the engine has places for.
        start: θ_0 of every chain, (S, n).
        initial: the same if the user gave it, else None.
        team: the processes that make the run.
        coordinates: in which the chains run, and ``start`` is; None for those of θ.
        warmup: what the warm-up has found and chosen, in plain types; None without one.
    """

    potential: Potential
    kernels: tuple[Kernel, ...]
    engine: Engine
    settings: Settings
    start: Array
    initial: Array | None
    team: Team
    coordinates: Coordinates | None = None
    warmup: Table | None = None

    @property
    def target(self) -> Potential:
        """The model in the coordinates of the run."""
        return self.potential if self.coordinates is None else InCoordinates(self.potential, self.coordinates)

    @property
    def work(self) -> Potential:
        """The model as workers see it."""
        work = self.settings.architecture.work(self.target, self.kernels, self.settings.workers)
        return Rounded(work, self.settings.wire) if self.settings.wire.rounds else work

    def chain(self, server: int, rows: int = 1, first_repeat: int = 0) -> Chain:
        """A chain before its first update, in so many repetitions."""
        start = np.repeat(self.start[server : server + 1], rows, axis=0)
        split = split_over(self.engine.update_threads)
        place = Place(start, self.settings.seed, server, first_repeat, split)
        chain = self.settings.architecture.chain(self.kernels[server], place, self.settings.workers)
        chain.wire = self.settings.wire
        return chain

    def record(self, *, with_gradient: bool = False) -> RunRecord:
        """What is to be remembered of the run; with a gradient of its model, if another is to be told from it."""
        start = self.start[0] if with_gradient else None
        if start is not None and self.coordinates is not None:
            start = self.coordinates.original(start)
        engine = engine_table(self.engine)
        return RunRecord.of(self.settings, self.kernels, engine, self.potential, start, self.warmup)

    def trace(self, chains: Sequence[ChainTrace]) -> Trace:
        """What such a run has left."""
        return Trace.of_run(tuple(chains), self.record(), self.initial, self.coordinates)

    def job(
        self,
        record: Callable[[int], Record],
        recording: Recording,
        *,
        chain: Callable[[int], Chain] | None = None,
        past: tuple[Past, ...] = (),
        checkpoint: Callable[[int], Checkpoint] | None = None,
    ) -> Job:
        """What the engine is to do.

        Args:
            record: gives what is called with a server's updates.
            recording: where the draws are.
            chain: makes the chain of a server where it is now; None for its start.
            past: what has happened to each chain until now, where a run goes on.
            checkpoint: gives what saves the chain of a server.
        """
        status = [ChainStatus.after(each) for each in past] or [ChainStatus() for _ in range(self.settings.servers)]
        return Job(
            potential=self.work, settings=self.settings, chain=chain or self.chain, record=record,
            status=tuple(status), past=past, checkpoint=checkpoint, recording=recording, team=self.team,
        )  # fmt: skip


def prepare(
    potential: Any,
    kernel: Any,
    settings: Settings,
    *,
    engine: Any,
    initial: Any = None,
    coordinates: Coordinates | None = None,
    warmup: Table | None = None,
) -> Prepared:
    """Check that the parts of a run go together; arguments are those of :func:`stalegrad.sample`, and of the result."""
    check_potential(potential)
    kernels = kernels_for(kernel, settings.servers, potential)
    chosen = chosen_engine(engine)
    start, given = starts(initial, settings.servers, potential)
    team = chosen.team(settings.servers, settings.workers)
    settings = with_stages(replace(settings, workers=team.workers), kernels)
    if potential.epoch > 1 and settings.max_staleness is not None and settings.policy == "drop":
        problem = f"does not go with {type(potential).__name__}: what others depend on could be dropped"
        raise ArgumentError("policy", settings.policy, problem, "Give policy='wait', or no max_staleness.")
    settings = with_architecture(settings, potential, kernels, even=team.even)
    prepared = Prepared(potential, kernels, chosen, settings, start, given, team, coordinates, warmup)
    team.synchronize(prepared.work, settings.seed)
    return prepared


def with_stages(settings: Settings, kernels: Sequence[Kernel]) -> Settings:
    """The settings of a run that keeps no update that only optimises, as the samplers' temperatures say."""
    every = {kernel.stages for kernel in kernels}
    if len({(each.cycle, each.explore) for each in every}) > 1:
        problem = "have cycles that differ, and draws of all chains are kept at the same updates"
        raise ArgumentError("kernel", kernels, problem, "Give all the same period and exploration.")
    begin, (_, cycle, explore) = max(each.begin for each in every), max(every)
    return replace(settings, burn_in=max(settings.burn_in, begin), cycle=cycle, explore=explore)


def with_architecture(
    settings: Settings, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True
) -> Settings:
    """The settings with an architecture that is fitted to the model and can make the run."""
    architecture = known_architecture(settings.architecture)
    if potential.epoch > 1 and not isinstance(architecture, StaleGradients):
        problem = f"does not go with {type(potential).__name__}, whose answers depend on earlier ones"
        raise ArgumentError("architecture", architecture, problem, "Give architecture=None, or another model.")
    if settings.wire.rounds:
        _refuse_rounding(settings, architecture, potential)
    fitted = architecture.fitted(potential, settings.workers)
    fitted.refuse(settings, potential, kernels, even=even)
    return replace(settings, architecture=fitted)


def _refuse_rounding(settings: Settings, architecture: Architecture, potential: Potential) -> None:
    """Rounded messages where they would do harm, or cannot be had."""
    if not architecture.stale_gradients:
        problem = f"does not go with {type(architecture).__name__}, whose workers send more than gradients"
        raise ArgumentError("messages", settings.messages, problem, "Give messages='float32', or architecture=None.")
    if potential.dtype != np.float32:
        problem = f"rounds float32, and the model has {potential.dtype}"
        raise ArgumentError("messages", settings.messages, problem, "Make the model with dtype=np.float32.")


def check_potential(potential: Any) -> None:
    """Refuse what is not a model."""
    if not isinstance(potential, Potential):
        raise ArgumentError(
            "potential", potential, f"is a {type(potential).__name__}, not a Potential",
            "Use one of sg.potentials, such as Logistic, or wrap a function with sg.potentials.from_gradient.",
        )  # fmt: skip


def kernels_for(kernel: Any, servers: int, potential: Potential) -> tuple[Kernel, ...]:
    """One kernel per server, made for the model."""
    kernels = [kernel] * servers if isinstance(kernel, Kernel) else list(kernel) if isinstance(kernel, Sequence) else []
    if len(kernels) != servers or not all(isinstance(k, Kernel) for k in kernels):
        remedy = f"Give one kernel, such as sg.SGLD(step_size=1e-3), or a sequence of {servers}, one per server."
        raise ArgumentError("kernel", kernel, "is neither a kernel nor one per server", remedy)
    for k in kernels:
        if isinstance(potential, NaturalPotential) and not k.takes_natural_gradients:
            problem = "takes gradients for those of U, and this potential's come multiplied by a metric"
            raise ArgumentError("kernel", k, problem, "Give sg.SGRLD(…, natural=True) with the same metric.")
    return tuple(k.for_model(potential.n_data, potential.batch_size) for k in kernels)


def with_numbers(kernels: Sequence[Kernel], known: Sequence[Mapping[str, Any]], remedy: str) -> tuple[Kernel, ...]:
    """The kernels, those that leave numbers to be found with what is known of them.

    Args:
        kernels: of the chains.
        known: numbers by name for each, or something that is none.
        remedy: what to do where it is none.
    """
    for s, kernel in enumerate(kernels):
        for name in kernel.missing:
            number = known[s].get(name) if s < len(known) else None
            if not (isinstance(number, Real) or callable(number)):
                raise ArgumentError(name, AUTO, f"was not found for chain {s}", remedy)
    return tuple(kernel.completed(known[s]) if kernel.undecided else kernel for s, kernel in enumerate(kernels))


def chosen_engine(engine: Any) -> Engine:
    """An engine by its name, or as it was given."""
    if isinstance(engine, str):
        return named_engine(engine, {})
    if not isinstance(engine, Engine):
        remedy = f"Give one of {', '.join(map(repr, ENGINES.members))}, or an object of a class of sg.engines.Engine."
        raise ArgumentError("engine", engine, "is not an engine", remedy)
    return engine


def starts(initial: Any, servers: int, potential: Potential) -> tuple[Array, Array | None]:
    """θ_0 of every chain, and the same again if the user gave it."""
    if initial is None:
        start = potential.initial()[None]
        return start if servers == 1 else np.repeat(start, servers, axis=0), None  # zeros take no memory until copied
    array = finite_array("initial", initial, potential.dtype)
    if array.shape not in ((potential.size,), (servers, potential.size)):
        raise ArgumentError(
            "initial", initial, f"has shape {array.shape}",
            f"Give shape ({potential.size},), or ({servers}, {potential.size}) for a start per chain.",
        )  # fmt: skip
    array = np.array(np.broadcast_to(array, (servers, potential.size)))
    return array, array
