"""Live progress of a run. The display pulls from the servers' status at its own pace; nothing is pushed into it.

On a terminal it is a table that redraws itself; elsewhere a plain line every few seconds. Test functions are evaluated
in a thread of their own, on as many draws as there is time for, so that they do not hold up the updates.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stalegrad._internal.text import duration, printable
from stalegrad._internal.types import Array
from stalegrad.engines import Timing
from stalegrad.kernels import Kernel
from stalegrad.protocol.draws import Thinning
from stalegrad.protocol.server import ChainStatus
from stalegrad.runs.averages import Averages
from stalegrad.runs.spaced_values import SpacedValues

DrawsInMemory = Callable[[int, bool], "tuple[int, Array]"]
"""Of a chain: the number of the first draw that is in memory, counted from 0, and all draws from there on, (draw, n).

The second argument says whether the run has ended, so that draws of other processes have arrived.
"""

_REDRAW = 5.0  # times a second
_LINE = 5.0  # seconds between plain lines
_POLL = 0.05  # seconds until a thread that has evaluated every draw looks for new ones
_STARTING = "no gradient yet: workers start, and code is compiled where it is new"
_CATCH_UP = 1.0  # seconds after the end of a run for draws that there was no time for


class RunningAverages:
    """φ̂ = Σ_s (T_s/T) φ̂_s as ``run.estimate`` has it, over the draws that there was time to evaluate.

    φ̂_s = Σ_l h_l φ(θ_l) / Σ_l h_l and T_s = Σ_l h_l, so that φ̂ = Σ_s Σ_l h_l φ(θ_l) / Σ_s Σ_l h_l. A thread evaluates
    while the ``with`` block is under way, and for up to a second after it. If it cannot keep up, the draws it evaluates
    are spread evenly over the run. In the end it has them all, unless φ is slow or blocks of draws left memory for
    the disk first.

    Args:
        functions: name to test function of one draw; each must give one number.
        draws_in_memory: where draws come from.
        kernels: of the chains, whose schedules give h_l.
        thinning: which updates become draws.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[[Array], Any]],
        draws_in_memory: DrawsInMemory,
        kernels: Sequence[Kernel],
        thinning: Thinning,
    ) -> None:
        self._functions, self._draws_in_memory, self._kernels, self.thinning = (
            functions,
            draws_in_memory,
            kernels,
            thinning,
        )
        self._sums, self._weight = dict.fromkeys(functions, 0.0), 0.0
        self._orders = [_SpreadOrder() for _ in kernels]
        self.names = list(functions)
        self.spaced = [SpacedValues() for _ in kernels]
        """The values at some evenly spaced draws of each chain, for errors."""
        self._ended, self._deadline = threading.Event(), 0.0
        self._thread = threading.Thread(target=self._run, name="stalegrad-test-functions", daemon=True)
        self.values: dict[str, float] = {}
        """φ̂ by name; empty before the first draw."""
        self.evaluated = 0
        """Draws of all chains that it is the average of."""
        self.problem: str | None = None
        """The exception of a test function, which ends the evaluation; None if there was none."""

    def __enter__(self) -> "RunningAverages":
        if self._functions:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self._deadline = time.monotonic() + (_CATCH_UP if kind is None else 0.0)
        self._ended.set()
        if self._functions:
            self._thread.join(timeout=_CATCH_UP)

    def _run(self) -> None:
        try:
            while True:
                ended = self._ended.is_set()  # asked first: what is recorded until then is seen below
                found = [self._evaluate_one(chain, ended) for chain in range(len(self._kernels))]
                if ended and (not any(found) or time.monotonic() > self._deadline):
                    return
                if not any(found):
                    self._ended.wait(_POLL)
        except Exception as error:  # a broken test function must not break the run
            self.problem = f"{type(error).__name__}: {error}"

    def _evaluate_one(self, chain: int, ended: bool) -> bool:
        """Evaluate one more draw of a chain; whether there was any."""
        first, draws = self._draws_in_memory(chain, ended)
        number = self._orders[chain].next(first, first + len(draws))
        if number is None:
            return False
        draw, h = draws[number - first].copy(), float(self._kernels[chain].schedule(self.thinning.update(number)))
        values = {name: float(phi(draw)) for name, phi in self._functions.items()}
        for name, value in values.items():
            self._sums[name] += h * value
        self.spaced[chain].add(number, np.array([*values.values()]), h)
        self._weight += h
        self.values = {name: total / self._weight for name, total in self._sums.items()}
        self.evaluated += 1
        return True


class _SpreadOrder:
    """Every number once, while more and more of them come: multiples of large powers of 2 first, counted from 1.

    >>> order = _SpreadOrder()
    >>> [order.next(0, 7) for _ in range(8)]
    [3, 1, 5, 0, 2, 4, 6, None]
    """

    def __init__(self) -> None:
        self._taken: list[int] = []  # odd multiples of 2^k, for each k

    def next(self, first: int, end: int) -> int | None:
        """One in [first, end) that has not been given yet; None if there is none. ``first`` and ``end`` never fall."""
        self._taken += [0] * (end.bit_length() - len(self._taken))
        for k in range(end.bit_length() - 1, -1, -1):
            odd = max(self._taken[k], -(-(first + 1 - (1 << k)) // (2 << k)))
            number = ((2 * odd + 1) << k) - 1
            if number < end:
                self._taken[k] = odd + 1
                return number
        return None


class Progress:
    """Shows a run while the ``with`` block is under way.

    Args:
        statuses: of the chains.
        steps: L.
        averages: φ̂ to show, with the number of draws that it is the average of.
        file: where to; standard error by default.
    """

    def __init__(
        self,
        statuses: Sequence[ChainStatus],
        steps: int,
        averages: RunningAverages | Averages | None = None,
        file: TextIO | None = None,
    ) -> None:
        self._statuses, self._steps, self._averages = statuses, steps, averages
        self._console = Console(file=file or sys.stderr)
        self._begun = time.perf_counter()
        self._before = [(status.accepted, status.dropped) for status in statuses]  # of sessions before this one
        self._live: Live | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Progress":
        self._begun = time.perf_counter()
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self.table, console=self._console, refresh_per_second=_REDRAW, transient=False
            )
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._print_lines, name="stalegrad-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
            if time.perf_counter() - self._begun > _LINE:  # a short run needs no log
                self._console.print(Text(printable(self.line())), soft_wrap=True)

    def table(self) -> Table:
        """The chains as they are now."""
        seconds = time.perf_counter() - self._begun
        table = Table(box=None, pad_edge=False)
        for heading in ("chain", "updates", "", "dropped", "refused", "mean τ", "max τ", "gradients/s", "time left"):
            table.add_column(heading, justify="right", no_wrap=True)
        for chain, status in enumerate(self._statuses):
            share = status.accepted / self._steps
            table.add_row(
                str(chain), f"{status.accepted:,}", f"{share:.0%}", f"{status.dropped:,}", f"{status.refused:,}",
                f"{_mean_staleness(status):.1f}", str(status.staleness_max),
                f"{self._gradients(chain) / max(seconds, 1e-9):,.0f}", self._time_left(chain, seconds),
            )  # fmt: skip
        if caption := self._functions() or (_STARTING if self._starting else ""):
            table.caption = Text(printable(caption))
        return table

    def line(self) -> str:
        """All chains in one line, for logs."""
        seconds = time.perf_counter() - self._begun
        made = [status.accepted for status in self._statuses]
        slowest = min(range(len(made)), key=made.__getitem__)
        share = min(made) / self._steps
        dropped = sum(status.dropped for status in self._statuses)
        tau = sum(s.staleness_sum for s in self._statuses) / max(sum(made), 1)
        largest = max(status.staleness_max for status in self._statuses)
        parts = [
            f"{share:4.0%}", f"{sum(made):,} updates of {len(made)} chain{'s' * (len(made) != 1)}",
            f"{dropped:,} dropped", f"staleness {tau:.1f} (max {largest})",
            f"{sum(map(self._gradients, range(len(made)))) / max(seconds, 1e-9):,.0f} gradients/s",
            f"time left {self._time_left(slowest, seconds)}{f' ({_STARTING})' * self._starting}",
        ]  # fmt: skip
        return " · ".join(parts + ([functions] if (functions := self._functions()) else []))

    @property
    def _starting(self) -> bool:
        """Whether no chain has had a gradient in this session, and there is something to do."""
        done = all(status.accepted >= self._steps for status in self._statuses)
        return not done and not any(map(self._gradients, range(len(self._statuses))))

    def _gradients(self, chain: int) -> int:
        """Gradients that have reached a chain in this session."""
        status = self._statuses[chain]
        return status.accepted + status.dropped - sum(self._before[chain])

    def _time_left(self, chain: int, seconds: float) -> str:
        """Until a chain is done, if it goes on as in this session, which has lasted for so many seconds."""
        made = self._statuses[chain].accepted
        new = made - self._before[chain][0]
        left = self._steps - made
        return "done" if left <= 0 else "?" if new <= 0 else duration(seconds * left / new)

    def _functions(self) -> str:
        if self._averages is None:
            return ""
        if self._averages.problem:
            return f"test functions failed: {self._averages.problem}"
        values, evaluated = self._averages.values, self._averages.evaluated
        if not values:
            return ""
        kept = sum(self._averages.thinning.draws(status.accepted) for status in self._statuses)
        averages = "   ".join(f"{name} = {value:.5g}" for name, value in values.items())
        return f"{averages} ({evaluated:,} of {max(kept, evaluated):,} draws)"

    def _print_lines(self) -> None:
        while not self._stop.wait(_LINE):
            self._console.print(Text(printable(self.line())), soft_wrap=True)


def verdict(timing: Timing, servers: int, workers: int, cores: int) -> str:
    """One line on where the workers' time went, with advice where asynchrony did not pay.

    With more workers than cores not all can compute all the time: what is judged is the share of what was possible.
    """
    total = max(timing.gradients + timing.waiting, 1e-12)
    share, possible = timing.gradients / total, min(1.0, cores / (servers * workers))
    each = timing.gradients / max(timing.count, 1)
    busy = "the server was busy" if servers == 1 else f"{servers} servers were busy, on average,"
    text = (
        f"workers spent {share:.0%} of their time in gradients ({duration(each)} each) and {1 - share:.0%} in "
        f"exchange and waiting; {busy} {timing.updates / max(servers * timing.wall, 1e-12):.0%} of "
        f"{duration(timing.wall)}"
    )
    if workers > 1 and share < 0.5 * possible:
        useful = max(1, round(workers * share))
        text += (
            f". More than half was lost, so asynchrony does not pay here: use about {useful} worker"
            f"{'s' * (useful != 1)} a server, larger minibatches, or engine='inline'"
        )
    elif possible < 1:
        text += f". There are {servers * workers} workers for {cores} core{'s' * (cores != 1)}: fewer would do"
    return text + "."


def _mean_staleness(status: ChainStatus) -> float:
    return status.staleness_sum / max(status.accepted, 1)
