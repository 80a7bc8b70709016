"""A run in this process, as observers see it: figures, rows and faults of its servers, and draws in memory."""

import time
from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.curvature import largest_curvature
from stalegrad.engines import Event
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning
from stalegrad.protocol.server import ChainStatus
from stalegrad.runs.averages import Averages
from stalegrad.runs.observers.model_at_hand import GRADIENTS
from stalegrad.runs.observers.sampler import Earlier
from stalegrad.runs.observers.snapshot import ChainFigures, FunctionFigures, Happening, Recipe
from stalegrad.runs.observers.stability import Stability, stability_of
from stalegrad.runs.observers.values import figures, look_at, parameters
from stalegrad.runs.progress import DrawsInMemory, RunningAverages
from stalegrad.runs.spaced_values import SpacedValues

_SPARE = 100  # times as many gradients a run must have made before some are spent on its curvature
_REST = 250  # times as long as a loss takes, until the next: of a network it is a pass through it, on cores of workers


class LiveSource:
    """What can be seen of a run in this process.

    Args:
        recipe: what the run is.
        statuses: of the chains.
        settings: of the run.
        kernels: of the chains.
        model: in θ.
        draws_in_memory: where draws are.
        commits: how often each chain has been saved.
        averages: of the user's functions; None without any: then some parameters are shown.
        curvature: λ, if a warm-up has found it.
        to_coordinates: from θ to the coordinates of the run, if these are others.
        potential: the model in the coordinates of the run, for its curvature; None if it is not to be asked.
        begun: seconds of earlier sessions.
    """

    def __init__(
        self,
        recipe: Recipe,
        statuses: Sequence[ChainStatus],
        settings: Any,
        kernels: Sequence[Kernel],
        model: Potential,
        draws_in_memory: DrawsInMemory,
        commits: Callable[[], Sequence[int]],
        averages: RunningAverages | Averages | None = None,
        curvature: float | None = None,
        to_coordinates: Callable[[Array], Array] | None = None,
        potential: Potential | None = None,
        begun: float = 0.0,
    ) -> None:
        self.recipe, self.servers, self.workers = recipe, settings.servers, settings.workers
        self.steps: int = settings.steps
        self._statuses, self._kernels, self._model = statuses, kernels, model
        self._thinning: Thinning = settings.thinning
        self._one_law = settings.architecture.one_law
        self._draws_in_memory, self._averages, self._commits = draws_in_memory, averages, commits
        self._curvature, self._to_coordinates, self._potential = curvature, to_coordinates, potential
        self._started = time.monotonic() - begun
        self._state = "running"
        self._names, self._places = parameters(model.layout)
        self._values, self._looked = [SpacedValues() for _ in statuses], [0] * len(statuses)
        self._faults, self._saved = [0] * len(statuses), list(commits())
        self._waiting: list[Happening] = []
        self._last_loss, self._loss_due = nan, 0.0

    def seconds(self) -> float:
        """The seconds of the run until now."""
        return time.monotonic() - self._started

    def state(self) -> str:
        """How the run is doing, in one word."""
        return self._state

    def ended(self, state: str, text: str) -> None:
        """The run has come to an end."""
        self._state = state
        self._waiting.append(Happening("end", self.seconds(), text))

    def happened(self, happening: Happening) -> None:
        """Have something told with what comes next."""
        self._waiting.append(happening)

    def chains(self) -> list[ChainFigures]:
        """How far each chain is, in numbers."""
        return [
            ChainFigures(s.accepted, s.dropped, s.refused, s.staleness_sum / max(s.accepted, 1), s.staleness_max)
            for s in self._statuses
        ]

    def rows(self, chain: int, since: int, most: int) -> tuple[int, ChainTrace | None]:
        """Some of the rows of a chain's trace."""
        builder = self._statuses[chain].rows
        return (0, None) if builder is None else builder.recent(since, most)

    def functions(self) -> tuple[list[FunctionFigures], int, int]:
        """What the draws say, how many were looked at, and how many there are."""
        kept = sum(self._thinning.draws(status.accepted) for status in self._statuses)
        if self._averages is not None:
            found = figures(self._averages.names, self._averages.spaced, one_law=self._one_law)
            return found, self._averages.evaluated, max(kept, self._averages.evaluated)
        for s, chain in enumerate(self._values):
            first, draws = self._draws_in_memory(s, self._state != "running")
            weight = self._weight(s)
            self._looked[s] = look_at(chain, self._looked[s], first, draws, self._places, weight)
        found = figures(self._names, self._values, one_law=self._one_law)
        return found, sum(len(chain.series()[0]) for chain in self._values), kept

    def _weight(self, chain: int) -> Callable[[int], float]:
        schedule, thinning = self._kernels[chain].schedule, self._thinning
        return lambda number: float(schedule(thinning.update(number)))

    def stability(self, chains: Sequence[ChainFigures]) -> Stability:
        """h·λ·(τ + ½) of the chain where it is largest against what that chain may have."""
        if self._curvature is None:
            self._curvature = self._measured()
        return Stability() if self._curvature is None else stability_of(self._kernels, chains, self._curvature)

    def _measured(self) -> float | None:
        """λ at the last draw, as soon as its cost is a hundredth of what the run has computed."""
        if self._potential is None or sum(s.accepted for s in self._statuses) < _SPARE * GRADIENTS:
            return None
        _, draws = self._draws_in_memory(0, False)
        if not len(draws):
            return None
        potential, self._potential = self._potential, None  # once
        point = draws[-1].copy() if self._to_coordinates is None else self._to_coordinates(draws[-1:].copy())[0]
        return largest_curvature(potential, point[None], gradients=GRADIENTS).value

    def loss(self) -> float:
        """The loss of a minibatch at the last draw; if it takes long, that of a few looks before."""
        begun = time.monotonic()
        if begun < self._loss_due:
            return self._last_loss
        for s in range(self.servers):
            _, draws = self._draws_in_memory(s, False)
            if len(draws):
                indices = self._model.minibatches.draw_outside_run(0, self._looked[s] + len(draws))
                loss = self._model.minibatch_loss(np.ascontiguousarray(draws[-1]), indices)
                self._last_loss = nan if loss is None else float(loss)
                self._loss_due = begun + _REST * (time.monotonic() - begun)
                return self._last_loss
        return nan

    def saved_ago(self) -> float | None:
        """None, because all of the run can be seen."""
        return None

    def earlier(self) -> list[Earlier]:
        """Nothing: a run is looked at from its beginning."""
        return []

    def why_not(self) -> dict[str, str]:
        """Why the loss, or the stability, is not shown."""
        without = {}
        if not any(len(self._draws_in_memory(s, False)[1]) for s in range(self.servers)):
            without["loss"] = "There is no draw yet at which to ask for the loss, or draws are elsewhere."
        elif isnan(self._last_loss):
            without["loss"] = "The model does not say its loss."
        if self._curvature is None:
            first = f"once the run has computed {_SPARE * GRADIENTS:,} gradients and has a draw"
            without["delay"] = (
                f"The largest curvature λ is not known: it comes from the warm-up, or is measured {first}."
            )
        elif not self._curvature > 0:
            without["delay"] = "The potential did not curve upwards where its curvature was measured."
        return without

    def happenings(self) -> list[Happening]:
        """What has happened since the last time."""
        new, self._waiting = self._waiting, []
        ends, new = [h for h in new if h.kind == "end"], [h for h in new if h.kind != "end"]
        for s, status in enumerate(self._statuses):
            faults = list(status.faults)
            new += [fault(event) for event in faults[self._faults[s] :]]
            self._faults[s] = len(faults)
        commits = list(self._commits())
        for s, (before, number) in enumerate(zip(self._saved, commits, strict=True)):
            if number > before:
                text = f"chain {s} saved at {self._statuses[s].accepted:,} updates"
                new.append(Happening("checkpoint", self.seconds(), text, chain=s))
        self._saved = commits
        return new + ends


def fault(event: Event) -> Happening:
    """A fault of a worker as observers are told of it."""
    lines = [line for line in event.details.strip().splitlines() if line.strip()] or [""]
    who = "the server" if event.worker is None else f"worker {event.worker}"
    text = f"{who} of chain {event.chain} {event.kind}: {lines[-1].strip()}"
    return Happening("fault", event.time, text, event.details, event.chain, event.worker)
