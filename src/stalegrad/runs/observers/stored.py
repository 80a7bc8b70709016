"""A run on disk, as observers see it: whatever process, engine or machine writes it, while it does or long after.

What can be seen is what the last checkpoints hold. Nothing that the run names is imported, and nothing is written. The
loss, and the curvature where no warm-up has found it, need the model: whoever looks may bring it.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array
from stalegrad.kernels import Kernel, kernel_from_table
from stalegrad.potentials import Potential
from stalegrad.protocol.chain_trace import BLOCK_ROWS, ChainTrace, joined
from stalegrad.runs.observers.live import fault
from stalegrad.runs.observers.model_at_hand import ModelAtHand
from stalegrad.runs.observers.moments import Moments
from stalegrad.runs.observers.sampler import Earlier
from stalegrad.runs.observers.snapshot import ChainFigures, FunctionFigures, Happening, Recipe
from stalegrad.runs.observers.stability import Stability, stability_of
from stalegrad.runs.observers.values import figures, parameters
from stalegrad.runs.spaced_values import MOST, SpacedValues
from stalegrad.runs.store.chain_arrays import chain_arrays
from stalegrad.runs.store.folder import Info, chain_folder, inspect, read_coordinates, read_events
from stalegrad.runs.store.stored_trace import StoredTrace
from stalegrad.runs.warmup.record import WarmupRecord

_CHUNKS = 256  # of a trace that are read at one time, at most
_PIECES, _PIECE = 8, 64  # of each, and rows of a piece
_VIRTUAL = ("inline",)  # engines whose seconds are those of a simulated cluster
_EARLIER = 48  # moments of what was before, at most
_NO_MODEL = "this page looks at a folder, without the model. Give it one: stalegrad watch RUN --model job"


class StoredSource:
    """What can be seen of a stored run.

    Args:
        path: its folder.
        model: that it was made with, for what cannot be seen without.
    """

    def __init__(self, path: str | Path, model: Potential | None = None) -> None:
        self._info = inspect(path)
        info, settings = self._info, self._info.record.settings
        self.recipe = Recipe(
            info.path.resolve().name, {**info.record.table(), "job": info.job},
            info.record.engine.get("name") in _VIRTUAL, str(info.path), info.version,
        )  # fmt: skip
        self.servers, self.workers = settings.servers, settings.workers
        self._names, self._places = parameters(info.record.model.layout)
        self._values, self._looked = [SpacedValues() for _ in info.chains], [0] * self.servers
        self._kernels = _known_kernels(info)
        warmup = info.record.warmup
        self._curvature = None if warmup is None else WarmupRecord.from_table(warmup).curvature
        self._model = None if model is None else ModelAtHand(
            model, info.record.model, read_coordinates(info.path, info.record)
        )  # fmt: skip
        self._faults, self._saved = [0] * self.servers, [0] * self.servers
        self._sessions, self._state = 0, ""
        self._moments = [Moments() for _ in range(self.servers)]
        self._seconds: tuple[Any, float] = (None, 0.0)
        self._losses = 0, nan  # draws of the first chain, and the loss at the last of them
        self._looked_at = 0.0

    @property
    def steps(self) -> int:
        """L, updates that each chain is to make."""
        return self._info.steps

    def state(self) -> str:
        """How the run is doing, in one word."""
        return self._info.state

    def seconds(self) -> float:
        """The seconds of the run until its last checkpoint."""
        rows = tuple(of.rows for of in self._info.chains)
        if self._seconds[0] != rows:
            self._seconds = rows, max(self._trace(s).seconds for s in range(self.servers))
        return self._seconds[1]

    def chains(self) -> list[ChainFigures]:
        """How far each chain is, in numbers."""
        found = []
        for s, (of, moments) in enumerate(zip(self._info.chains, self._moments, strict=True)):
            counted = moments.last.gradients
            for first in range(counted - counted % BLOCK_ROWS, of.rows, BLOCK_ROWS):
                block = self._trace(s)._block(first // BLOCK_ROWS)
                moments.add(block.part(slice(max(0, counted - first), None)))
            last = moments.last
            tau = last.staleness / max(last.updates, 1)
            found.append(ChainFigures(last.updates, last.gradients - last.updates, 0, tau, moments.largest))
        return found

    def earlier(self) -> list[Earlier]:
        """What was to be seen at some moments before the last checkpoint."""
        rows = max((of.rows for of in self._info.chains), default=0)
        found = []
        for share in np.linspace(0, 1, min(_EARLIER, rows) + 1)[1:-1].tolist():
            at = [moments.at(share) for moments in self._moments]
            chains = [
                ChainFigures(m.updates, m.gradients - m.updates, 0, m.staleness / max(m.updates, 1), 0) for m in at
            ]
            thinning = self._info.record.settings.thinning
            last = [thinning.draws(m.updates) for m in at]
            values = [chain.until(draws) for chain, draws in zip(self._values, last, strict=True)]
            functions = figures(self._names, values, one_law=self._info.record.settings.architecture.one_law)
            seconds = max(m.seconds for m in at)
            found.append(Earlier(seconds, tuple(chains), functions, self.stability(chains), self._loss_at(0, last[0])))
        return found

    def rows(self, chain: int, since: int, most: int) -> tuple[int, ChainTrace | None]:
        """Some rows that were committed since; of many, pieces from all over them."""
        trace, total = self._trace(chain), self._info.chains[chain].rows
        if total <= since:
            return total, None
        first, last = since // BLOCK_ROWS, (total - 1) // BLOCK_ROWS
        chunks = np.unique(np.linspace(first, last, min(_CHUNKS, last - first + 1)).astype(int)).tolist()
        pieces = []
        for chunk in chunks:
            block = trace._block(chunk).part(slice(max(0, since - chunk * BLOCK_ROWS), None))
            if len(chunks) == 1 and len(block) <= most:
                return total, block
            ends = np.linspace(0, len(block), _PIECES + 1).astype(int)[1:]
            last_piece = max(_PIECE, most // 8) if chunk == last else _PIECE
            starts = [max(0, end - (last_piece if end == len(block) else _PIECE)) for end in ends]
            kept = np.unique(np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)]))
            pieces.append(block.part(kept))
        return total, joined(pieces)

    def functions(self) -> tuple[list[FunctionFigures], int, int]:
        """What the draws say of some parameters."""
        info = self._info
        for s, of in enumerate(info.chains):
            if of.draws > self._looked[s] and self._has_draws:
                self._look_at_draws(s, of.draws)
                self._looked[s] = of.draws
        found = figures(self._names, self._values, one_law=info.record.settings.architecture.one_law)
        return found, sum(len(chain.series()[0]) for chain in self._values), sum(info.draws)

    def _look_at_draws(self, s: int, draws: int) -> None:
        chain, (array, _) = (
            self._values[s],
            chain_arrays(self._info.path, s, self._info.chains[s], self._info.record),
        )
        while len(chain.wanted(self._looked[s], draws)) > MOST:
            chain.spacing *= 2
        numbers = chain.wanted(self._looked[s], draws)
        if len(numbers):
            thinning, kernel = self._info.record.settings.thinning, self._kernels[s]
            for number, values in zip(numbers.tolist(), array[numbers, self._places].astype(np.float64), strict=True):
                chain.add(number, values, 1.0 if kernel is None else float(kernel.schedule(thinning.update(number))))

    def stability(self, chains: Sequence[ChainFigures]) -> Stability:
        """As of a run in this process, where a warm-up has found the curvature, or the model is at hand."""
        number = self._info.chains[0].draws if self._has_draws else 0
        if self._curvature is None and self._model is not None and number:
            self._curvature = self._model.curvature(self._draw(0, number - 1))
        if self._curvature is None:
            return Stability()
        return stability_of(self._kernels, chains, self._curvature)

    def loss(self) -> float:
        """Of a minibatch at the last draw; NaN where there is no model to ask."""
        number = self._info.chains[0].draws
        if self._losses[0] != number:
            self._losses = number, self._loss_at(0, number)
        return self._losses[1]

    def _loss_at(self, chain: int, draws: int) -> float:
        if self._model is None or not draws or not self._has_draws:
            return nan
        return self._model.loss(self._draw(chain, draws - 1), draws)

    @property
    def _has_draws(self) -> bool:
        """Whether draws are on disk: all of them, or none."""
        return self._info.record.settings.keep == "all"

    def _draw(self, chain: int, number: int) -> Array:
        array, _ = chain_arrays(self._info.path, chain, self._info.chains[chain], self._info.record)
        draw: Array = np.asarray(array[number : number + 1])[0]
        return draw

    def why_not(self) -> dict[str, str]:
        """Why the loss, or the stability, is not shown."""
        without = {"loss": f"The loss is not known: {_NO_MODEL}."} if self._model is None else {}
        if self._model is not None and not self._model.says_its_loss:
            without["loss"] = "The model does not say its loss."
        if self._curvature is None:
            reason = "" if self._model is not None else f" and {_NO_MODEL}"
            without["delay"] = f"The largest curvature λ is not known: no warm-up has found it,{reason}."
        return without

    def happenings(self) -> list[Happening]:
        """What has been noted on disk since the last time; looks at the folder."""
        with_pause = time.monotonic() - self._looked_at
        if with_pause > 0.2:
            self._looked_at = time.monotonic()
            try:
                self._info = inspect(self._info.path)
            except (StoreError, OSError) as error:  # moved, or deleted: what was seen stays
                return self._once("gone", f"the folder can no longer be read: {error}")
        info, new = self._info, []
        for number, session in enumerate(info.sessions[self._sessions :], self._sessions):
            what = "the run has begun" if not number else "the run goes on"
            engine = session["engine"].get("name", "?")
            new.append(Happening("start", 0.0, f"{what}, at {session['started']}, on {engine}"))
            self._state = ""
        self._sessions = len(info.sessions)
        for s, of in enumerate(info.chains):
            events = read_events(info.path, s)
            new += [fault(event) for event in events[self._faults[s] :]]
            self._faults[s] = len(events)
            if of.number > self._saved[s]:
                new.append(
                    Happening("checkpoint", self.seconds(), f"chain {s} saved at {of.updates:,} updates", chain=s)
                )
                self._saved[s] = of.number
        if info.state != "running":
            text = f"the run has {_ENDED.get(info.state, info.state)}" + (f": {info.failure}" if info.failure else "")
            new += self._once(info.state, text)
        return new

    def saved_ago(self) -> float | None:
        """Seconds since the last checkpoint of any chain; None once the run has ended."""
        if self._info.state != "running":
            return None
        times = [(chain_folder(self._info.path, s) / "checkpoint.json").stat().st_mtime for s in range(self.servers)]
        return max(0.0, datetime.now(UTC).timestamp() - max(times))

    def _once(self, state: str, text: str) -> list[Happening]:
        if self._state == state:
            return []
        self._state = state
        return [Happening("end", self.seconds(), text)]

    def _trace(self, chain: int) -> StoredTrace:
        of = self._info.chains[chain]
        return StoredTrace(chain_folder(self._info.path, chain) / "trace", of.rows, of.updates)


_ENDED = {"finished": "finished", "interrupted": "been interrupted", "failed": "failed", "killed": "been killed"}


def _known_kernels(info: Info) -> list[Kernel | None]:
    """The samplers of the chains; None for those of a user's own, which are not imported to look at a run."""
    return [
        None if ":" in str(table.get("name", ":")) else kernel_from_table(table, path=f"kernels[{s}]")
        for s, table in enumerate(info.record.kernels)
    ]
