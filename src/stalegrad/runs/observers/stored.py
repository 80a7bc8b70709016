"""A run on disk, as observers see it: whatever process, engine or machine writes it, while it does or long after.

What can be seen is what the last checkpoints hold. Nothing that the run names is imported, and nothing is written.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil, nan
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad.kernels import Kernel, kernel_from_table
from stalegrad.protocol.chain_trace import BLOCK_ROWS, ChainTrace, joined
from stalegrad.runs.observers.live import fault
from stalegrad.runs.observers.sampler import Stability
from stalegrad.runs.observers.snapshot import ChainFigures, FunctionFigures, Happening, Recipe
from stalegrad.runs.observers.stability import longest_step
from stalegrad.runs.observers.values import figures, parameters
from stalegrad.runs.spaced_values import MOST, SpacedValues
from stalegrad.runs.store.chain_arrays import chain_arrays
from stalegrad.runs.store.folder import Info, chain_folder, inspect, read_events
from stalegrad.runs.store.stored_trace import StoredTrace
from stalegrad.runs.warmup.record import WarmupRecord

_CHUNKS = 256  # of a trace that are read at one time, at most
_PIECES, _PIECE = 8, 64  # of each, and rows of a piece
_VIRTUAL = ("inline",)  # engines whose seconds are those of a simulated cluster


class StoredSource:
    """What can be seen of a stored run.

    Args:
        path: its folder.
    """

    def __init__(self, path: str | Path) -> None:
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
        self._faults, self._saved = [0] * self.servers, [0] * self.servers
        self._sessions, self._state = 0, ""
        self._staleness = [(0, 0, 0)] * self.servers  # rows counted, Σ τ of the accepted, largest
        self._seconds: tuple[Any, float] = (None, 0.0)
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
        for s, of in enumerate(self._info.chains):
            counted, total, largest = self._staleness[s]
            if counted < of.rows:
                for first in range(counted - counted % BLOCK_ROWS, of.rows, BLOCK_ROWS):
                    block = self._trace(s)._block(first // BLOCK_ROWS).part(slice(max(0, counted - first), None))
                    used = block.staleness[np.asarray(block.accepted, bool)]
                    total, largest = total + int(used.sum()), max(largest, int(used.max(initial=0)))
                self._staleness[s] = of.rows, total, largest
            found.append(ChainFigures(of.updates, of.rows - of.updates, 0, total / max(of.updates, 1), largest))
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
            if of.draws > self._looked[s]:
                self._look_at_draws(s, of.draws)
                self._looked[s] = of.draws
        found = figures(self._names, self._values, one_law=info.record.settings.architecture.one_law)
        return found, sum(len(chain.series()[0]) for chain in self._values), sum(info.draws)

    def _look_at_draws(self, s: int, draws: int) -> None:
        chain, (array, _) = (
            self._values[s],
            chain_arrays(self._info.path, s, self._info.chains[s], self._info.record.model),
        )
        while len(chain.wanted(self._looked[s], draws)) > MOST:
            chain.spacing *= 2
        numbers = chain.wanted(self._looked[s], draws)
        if len(numbers):
            thinning, kernel = self._info.record.settings.thinning, self._kernels[s]
            for number, values in zip(numbers.tolist(), array[numbers, self._places].astype(np.float64), strict=True):
                chain.add(number, values, 1.0 if kernel is None else float(kernel.schedule(thinning.update(number))))

    def stability(self, chains: Sequence[ChainFigures]) -> Stability:
        """As of a run in this process, where a warm-up has found the curvature."""
        found = [Stability()]
        for kernel, chain in zip(self._kernels, chains, strict=True):
            if kernel is not None and self._curvature is not None and self._curvature > 0:
                h, late = float(kernel.schedule(max(0, chain.updates - 1))), chain.mean_staleness + 0.5
                limit = longest_step(kernel, h, self._curvature, ceil(chain.mean_staleness))
                limit = nan if limit is None else limit * self._curvature * late
                found.append(Stability(h * self._curvature * late, limit))
        return max(found[1:], key=lambda each: each.delay, default=found[0])

    def loss(self) -> float:
        """NaN: it is not known without the model."""
        return nan

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
