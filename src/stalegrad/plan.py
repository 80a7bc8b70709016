"""What a run is to be, with every argument checked before anything starts."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from stalegrad.admission import POLICIES, Admission, Policy
from stalegrad.architectures import Architecture, StaleGradients, architecture_table, as_architecture
from stalegrad.architectures.base import Place, Setting
from stalegrad.chain import Chain
from stalegrad.checks import finite_array, one_of, whole_number
from stalegrad.diagnostics.step_finder import find_step_size
from stalegrad.draws import Thinning
from stalegrad.engines import Engine
from stalegrad.engines.base import ALONE, Team, team_of
from stalegrad.engines.shards import split_over
from stalegrad.engines.tables import ENGINES
from stalegrad.errors import ArgumentError
from stalegrad.kernels import Kernel
from stalegrad.noise import MAX_CHAINS, MAX_UPDATES, MAX_WORKERS
from stalegrad.potentials import Potential
from stalegrad.potentials.natural import NaturalPotential
from stalegrad.potentials.shards import Sharded, shard_sizes
from stalegrad.schedules import AUTO
from stalegrad.trace import MAX_SEED
from stalegrad.types import Array

Kernels = Kernel | Sequence[Kernel]


@dataclass(frozen=True)
class Plan:
    """A run that can be made. See :func:`stalegrad.sample` for the arguments.

    Args:
        start: θ_0 of every chain, (S, n).
        initial: the same if the user gave it, else None.
        team: the processes that make the run.
        shards: how many data each worker has to itself, or None if all have all.
        architecture: who samples and who sends what.
    """

    potential: Potential
    kernels: tuple[Kernel, ...]
    engine: Engine
    steps: int
    workers: int
    servers: int
    max_staleness: int | None
    policy: Policy
    seed: int
    thinning: Thinning
    start: Array
    initial: Array | None
    team: Team = ALONE
    shards: tuple[int, ...] | None = None
    architecture: Architecture = field(default_factory=StaleGradients)

    @property
    def work(self) -> Potential:
        """The model as workers see it."""
        if self.shards is not None:
            return Sharded(self.potential, self.shards)
        return self.architecture.work(self.potential, self.kernels, self.workers)

    def chain(self, server: int, rows: int = 1, first_repeat: int = 0) -> Chain:
        """A chain before its first update, in so many repetitions."""
        start = np.repeat(self.start[server : server + 1], rows, axis=0)
        split = split_over(getattr(self.engine, "shards", 1))
        place = Place(start, self.seed, server, first_repeat, split)
        return self.architecture.chain(self.kernels[server], place, self.workers)

    def about(self) -> dict[str, Any]:
        """What is worth noting in a trace."""
        architecture = architecture_table(self.architecture)
        return {
            "model": type(self.potential).__name__,
            "n_data": self.potential.n_data,
            "batch_size": self.potential.batch_size,
            "kernels": [kernel.describe() for kernel in self.kernels],
            "engine": type(self.engine).__name__,
            "workers": self.workers,
            "max_staleness": self.max_staleness,
            "policy": self.policy,
            **({} if self.shards is None else {"shards": list(self.shards)}),
            **({} if architecture is None else {"architecture": architecture}),
        }


def make_plan(
    potential: Any,
    kernel: Any,
    *,
    engine: Any,
    steps: int,
    workers: int,
    servers: int,
    max_staleness: int | None,
    policy: Policy,
    seed: int,
    burn_in: int,
    thin: int,
    initial: Any,
    shard: Any = False,
    architecture: Any = None,
) -> Plan:
    """Check everything that :func:`stalegrad.sample` was given."""
    check_potential(potential)
    steps = whole_number("steps", steps, least=1, most=MAX_UPDATES)
    workers = whole_number("workers", workers, least=1, most=MAX_WORKERS)
    servers = whole_number("servers", servers, least=1, most=MAX_CHAINS)
    seed = whole_number("seed", seed, most=MAX_SEED)
    max_staleness = None if max_staleness is None else whole_number("max_staleness", max_staleness)
    one_of("policy", policy, POLICIES)
    Admission(max_staleness, policy)  # refuses a bound that cannot be used
    kernels = kernels_for(kernel, servers, potential)
    chosen = chosen_engine(engine)
    start, given = starts(initial, servers, potential)
    thinning = Thinning(burn_in, thin)
    thinning.refuse_unless_some(steps)
    team = team_of(chosen, servers, workers)
    shards = shards_for(shard, potential, team.workers)
    if shards is not None:
        _refuse_loss_of_shards(max_staleness, policy, team)
    if potential.epoch > 1 and max_staleness is not None and policy == "drop":
        problem = f"does not go with {type(potential).__name__}: what others depend on could be dropped"
        raise ArgumentError("policy", policy, problem, "Give policy='wait', or no max_staleness.")
    chosen_architecture = architecture_for(
        architecture, Setting(potential, kernels, servers, team.workers, max_staleness, team.even), shards
    )
    team.meet(potential, seed)
    return Plan(
        potential, kernels, chosen, steps, team.workers, servers, max_staleness, policy, seed, thinning, start, given,
        team, shards, chosen_architecture,
    )  # fmt: skip


def check_potential(potential: Any) -> None:
    """Refuse what is not a model."""
    if not isinstance(potential, Potential):
        raise ArgumentError(
            "potential", potential, f"is a {type(potential).__name__}, not a Potential",
            "Use one of sg.potentials, such as Logistic, or wrap a function with sg.potentials.from_gradient.",
        )  # fmt: skip


def shards_for(shard: Any, potential: Potential, workers: int) -> tuple[int, ...] | None:
    """The sizes of the shards, one a worker, that the model's minibatches fit into; None for no shards."""
    sizes = shard_sizes(shard, potential.n_data, workers)
    if sizes is not None and potential.addressed:
        problem = f"does not go with {type(potential).__name__}, whose workers do more than draw minibatches"
        raise ArgumentError("shard", shard, problem, "Give shard=False.")
    if sizes is not None:
        Sharded(potential, sizes)  # refuses minibatches that are larger than a shard
    return sizes


def architecture_for(given: Any, setting: Setting, shards: tuple[int, ...] | None) -> Architecture:
    """The architecture of a run, which can make it."""
    architecture = as_architecture(given)
    if shards is not None and architecture != StaleGradients():
        problem = f"does not go with {type(architecture).__name__}: the server weighs gradients of shards"
        remedy = "Leave shard or architecture out, or see sg.VisitingShards."
        raise ArgumentError("shard", list(shards), problem, remedy)
    if setting.potential.epoch > 1 and architecture != StaleGradients():
        problem = f"does not go with {type(setting.potential).__name__}, whose answers depend on earlier ones"
        raise ArgumentError("architecture", architecture, problem, "Give architecture=None, or another model.")
    architecture.refuse(setting)
    return architecture


def _refuse_loss_of_shards(max_staleness: int | None, policy: Policy, team: Team) -> None:
    """Every shard must count: nothing may be dropped, and every server needs a worker for each."""
    if max_staleness is not None and policy == "drop":
        problem = "does not go with shards: what slow workers send would be dropped, and their data with it"
        raise ArgumentError("policy", policy, problem, "Give policy='wait', or no max_staleness.")
    if not team.even:
        problem = "needs as many workers at every server, from the start to the end"
        remedy = "Start a multiple of the number of servers as workers, none of which come and go, or give shard=False."
        raise ArgumentError("shard", True, problem, remedy)


def kernels_for(kernel: Any, servers: int, potential: Potential) -> tuple[Kernel, ...]:
    """One kernel per server, made for the model."""
    kernels = [kernel] * servers if isinstance(kernel, Kernel) else list(kernel) if isinstance(kernel, Sequence) else []
    if len(kernels) != servers or not all(isinstance(k, Kernel) for k in kernels):
        remedy = f"Give one kernel, such as sg.SGLD(step_size=1e-3), or a sequence of {servers}, one per server."
        raise ArgumentError("kernel", kernel, "is neither a kernel nor one per server", remedy)
    for k in kernels:
        if isinstance(potential, NaturalPotential) and not getattr(k, "natural", False):
            problem = "takes gradients for those of U, and this potential's come multiplied by a metric"
            raise ArgumentError("kernel", k, problem, "Give sg.SGRLD(…, natural=True) with the same metric.")
    return tuple(k.for_model(potential.n_data, potential.batch_size) for k in kernels)


def decided(kernels: Sequence[Kernel], known: Sequence[Any], remedy: str) -> tuple[Kernel, ...]:
    """The kernels, those with ``step_size="auto"`` with what is known of their step sizes.

    Args:
        kernels: of the chains.
        known: a step size for each, or something that is none.
        remedy: what to do where it is none.
    """
    taken = []
    for s, kernel in enumerate(kernels):
        h = known[s] if s < len(known) else None
        if kernel.undecided and not (isinstance(h, Real) or callable(h)):
            raise ArgumentError("step_size", AUTO, f"was not found for chain {s}", remedy)
        taken.append(kernel.with_step_size(h) if kernel.undecided else kernel)  # type: ignore[arg-type]
    return tuple(taken)


def chosen_engine(engine: Any) -> Engine:
    """An engine by its name, or as it was given."""
    if isinstance(engine, str):
        named: Engine = ENGINES.members[one_of("engine", engine, tuple(ENGINES.members))]()
        return named
    if not hasattr(engine, "run") or isinstance(engine, type):
        raise ArgumentError(
            "engine", engine, "is not an engine", f"Give one of {', '.join(map(repr, ENGINES.members))}."
        )
    chosen: Engine = engine
    return chosen


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


def with_found_step_sizes(plan: Plan, progress: bool) -> Plan:
    """The plan with a number wherever a step size was to be found: by one process, for all of them."""
    if not any(kernel.undecided for kernel in plan.kernels):
        return plan
    staleness = staleness_by_turns(plan.workers, plan.max_staleness)

    def find(server: int, kernel: Kernel) -> float:
        found = find_step_size(
            plan.potential, kernel, staleness=staleness, initial=plan.start[server], seed=plan.seed,
            gradients=min(max(plan.servers * plan.steps // 10, 2_000), 50_000), progress=progress,
        )  # fmt: skip
        if progress:
            print(found, file=sys.stderr)
        return found.step_size

    known = plan.team.first(lambda: found_step_sizes(plan.kernels, find), json.dumps, json.loads)
    return replace(plan, kernels=decided(plan.kernels, known, "Give a step size."))


def found_step_sizes(kernels: Sequence[Kernel], find: Callable[[int, Kernel], float]) -> list[float | None]:
    """A step size for each chain that leaves it to be found, found once for equal kernels; None for the others."""
    found: dict[Kernel, float] = {}
    for server, kernel in enumerate(kernels):
        if kernel.undecided and kernel not in found:
            found[kernel] = find(server, kernel)
    return [found.get(kernel) for kernel in kernels]


def staleness_by_turns(workers: int, max_staleness: int | None) -> int:
    """τ of workers that are equally fast, within the bound."""
    return workers - 1 if max_staleness is None else min(workers - 1, max_staleness)
