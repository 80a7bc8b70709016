"""Makes snapshots of a run, at its own pace, out of what a source shows. Nothing is pushed into it.

A source is a run in this process (``live.py``) or a folder that any process writes (``stored.py``). All that is looked
at is bounded, a look takes a few milliseconds, and there is one a second.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import nan
from typing import NamedTuple, Protocol

from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.trace_bins import TraceBins
from stalegrad.runs.observers.pictures import History, Pictures
from stalegrad.runs.observers.snapshot import ChainFigures, FunctionFigures, Happening, Recipe, Snapshot
from stalegrad.runs.observers.stability import Stability

ROWS = 1 << 14
"""Rows of all chains' traces that are looked at each time; of more, some that are evenly spread."""
_FEWEST_ROWS = 256  # of a chain, however many there are
_LATELY = 5.0  # seconds, for speeds

log = logging.getLogger("stalegrad")


class Earlier(NamedTuple):
    """What was to be seen of a run at an earlier moment."""

    seconds: float
    chains: Sequence[ChainFigures]
    functions: Sequence[FunctionFigures]
    stability: Stability
    loss: float


class Source(Protocol):
    """What can be seen of a run."""

    recipe: Recipe
    servers: int
    workers: int

    @property
    def steps(self) -> int:
        """L, updates that each chain is to make."""
        ...

    def seconds(self) -> float:
        """The seconds of the run until now."""
        ...

    def state(self) -> str:
        """How the run is doing, see :class:`Snapshot`."""
        ...

    def chains(self) -> Sequence[ChainFigures]:
        """How far each chain is."""
        ...

    def rows(self, chain: int, since: int, most: int) -> tuple[int, ChainTrace | None]:
        """How many rows a trace has, and some of those from number ``since`` on; None where they cannot be seen."""
        ...

    def functions(self) -> tuple[Sequence[FunctionFigures], int, int]:
        """What the draws say, how many were looked at and how many there are, of all chains."""
        ...

    def stability(self, chains: Sequence[ChainFigures]) -> Stability:
        """h·λ·(τ + ½) and its limit."""
        ...

    def loss(self) -> float:
        """Of a minibatch at the last draw; NaN if unknown."""
        ...

    def earlier(self) -> Sequence[Earlier]:
        """What was before the first look, in order; asked for once, after all else."""
        ...

    def why_not(self) -> dict[str, str]:
        """Why there is no ``"loss"``, or no ``"delay"``, where there is none."""
        ...

    def saved_ago(self) -> float | None:
        """Seconds since the checkpoint that is all that can be seen of it; None where more can be seen."""
        ...

    def happenings(self) -> list[Happening]:
        """What has happened since the last time."""
        ...


class Sampler:
    """Looks at a run every second while the ``with`` block is under way, and once more at its end.

    Args:
        source: what can be seen of the run.
        every: seconds between looks.
        tell: called with what has happened.
    """

    def __init__(self, source: Source, every: float = 1.0, tell: Callable[[Happening], None] | None = None) -> None:
        self.source, self._every, self._tell = source, every, tell
        self.latest: Snapshot | None = None
        """The newest snapshot."""
        self.happenings: deque[Happening] = deque(maxlen=1000)
        """The last events."""
        self.bins = TraceBins(source.servers, source.workers)
        self.histories = {"progress": History(), "functions": History()}
        self._seen = [0] * source.servers
        self._rows = max(ROWS // max(source.servers, 1), _FEWEST_ROWS)  # of a chain, each time
        self._marks: deque[tuple[float, int]] = deque()  # when there were how many gradients
        self._number, self._noted = 0, nan
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalegrad-sampler", daemon=True)
        self._problem = False

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._careful_look()

    def _run(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            begun = time.monotonic()
            self._careful_look()
            # A look that takes long, of a large store, makes room for others before the next.
            wait = max(self._every - (time.monotonic() - begun), 4 * (time.monotonic() - begun), 0.05)

    def _careful_look(self) -> None:
        """What goes wrong when looking is not the run's affair."""
        try:
            self.look()
        except Exception:
            if not self._problem:
                log.warning("the run could not be looked at, and goes on", exc_info=True)
            self._problem = True

    def remember(self, past: Source) -> None:
        """Put the rows of earlier sessions into the pictures, before the first look at the present one."""
        for chain in range(past.servers):
            total, rows = past.rows(chain, 0, self._rows)
            if rows is not None and chain < self.source.servers:
                self.bins.add(chain, rows, total)
        chains, _ = past.chains(), past.functions()
        for before in past.earlier():
            self._note(before.seconds, before.chains, (), before.stability, before.loss)
        self._note(past.seconds(), chains, (), past.stability(chains), past.loss())

    def look(self) -> Snapshot:
        """Make a snapshot now, whatever the pace."""
        with self._looking:
            return self._look()

    def _look(self) -> Snapshot:
        source = self.source
        for happening in source.happenings():
            self.happenings.append(happening)
            if self._tell is not None:
                self._tell(happening)
        self._look_at_rows()
        chains, seconds = tuple(source.chains()), source.seconds()
        made = sum(chain.updates + chain.dropped for chain in chains)
        speed, state = self._speed(seconds, made), source.state()
        if state != "running":
            speed = made / seconds if seconds > 0 else nan
        functions, evaluated, kept = source.functions()
        stability, loss = source.stability(chains), source.loss()
        for before in source.earlier() if not self._number else ():
            self._note(*before)
        if seconds != self._noted:  # what a store shows does not change between checkpoints
            self._note(seconds, chains, functions, stability, loss)
        self.latest = Snapshot(
            number=self._number, seconds=seconds, state=state, steps=source.steps, chains=chains,
            gradients_per_second=speed, busy=self.bins.busy(_LATELY), functions=tuple(functions),
            evaluated=evaluated, kept=kept, delay=stability.delay, delay_limit=stability.limit, loss=loss,
            pictures=Pictures(self.bins, self.histories, self._looking),
        )  # fmt: skip
        self._number += 1
        return self.latest

    def _look_at_rows(self) -> None:
        """Take over rows that have come."""
        for chain in range(self.source.servers):
            total, rows = self.source.rows(chain, self._seen[chain], self._rows)
            if rows is not None and total > self._seen[chain]:
                self.bins.add(chain, rows, total - self._seen[chain])
                self._seen[chain] = total

    def _speed(self, seconds: float, made: int) -> float:
        """Gradients a second of the run, lately; of one whose checkpoints alone are seen, first since its beginning."""
        if not self._marks or seconds > self._marks[-1][0]:
            self._marks.append((seconds, made))
        while len(self._marks) > 2 and seconds - self._marks[1][0] >= _LATELY:
            self._marks.popleft()
        begun, before = self._marks[0] if len(self._marks) > 1 or self.source.saved_ago() is None else (0.0, 0)
        return (made - before) / (seconds - begun) if seconds > begun else nan

    def _note(
        self,
        seconds: float,
        chains: Sequence[ChainFigures],
        functions: Sequence[FunctionFigures],
        stability: Stability,
        loss: float,
    ) -> None:
        self._noted, updates = seconds, sum(chain.updates for chain in chains)
        self.histories["progress"].add(seconds, float(updates), loss, stability.delay, stability.limit)
        if functions:
            numbers = [n for f in functions for n in (f.value, f.error, f.rhat, f.ess)]
            self.histories["functions"].add(seconds, float(updates), *numbers)
