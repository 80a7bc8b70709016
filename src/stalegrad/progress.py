"""Live progress of a run. The display pulls from the servers' status at its own pace; nothing is pushed into it.

On a terminal it is a table that redraws itself; elsewhere a plain line every few seconds. Test functions are evaluated
in a thread of their own, on as many draws as there is time for, so that they never hold up an update.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from stalegrad.engines import Timing
from stalegrad.server import ChainStatus
from stalegrad.types import Array

Latest = Callable[[int], "tuple[int, Array] | None"]
"""Gives the number and a copy of the latest draw of a chain, or None before the first."""

_REDRAW = 5.0  # times a second
_LINE = 5.0  # seconds between plain lines


class RunningAverages:
    """φ̂ of the given test functions on the draws seen so far, evaluated in a thread of its own.

    Args:
        functions: name to test function of one draw; each must give one number.
        latest: where draws come from.
        chains: S.
    """

    def __init__(self, functions: Mapping[str, Callable[[Array], Any]], latest: Latest, chains: int) -> None:
        self._functions, self._latest, self._chains = functions, latest, chains
        self._sums = dict.fromkeys(functions, 0.0)
        self._count = 0
        self._seen = [0] * chains
        self._stop = threading.Event()
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="stalegrad-test-functions", daemon=True)
        if functions:
            self._thread.start()

    @property
    def values(self) -> dict[str, float]:
        """φ̂ by name; empty before the first draw."""
        count = self._count
        return {name: total / count for name, total in self._sums.items()} if count else {}

    def close(self) -> None:
        """Stop evaluating."""
        self._stop.set()
        if self._functions:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if not self._look():
                    self._stop.wait(0.05)
        except Exception as error:  # a broken test function must not break the run
            self.problem = f"{type(error).__name__}: {error}"

    def _look(self) -> bool:
        """Evaluate the latest draw of every chain that has a new one; whether there was any."""
        found = False
        for chain in range(self._chains):
            draw = self._latest(chain)
            if draw is None or draw[0] == self._seen[chain]:
                continue
            found = True
            self._seen[chain] = draw[0]
            values = {name: float(phi(draw[1])) for name, phi in self._functions.items()}
            for name, value in values.items():
                self._sums[name] += value
            self._count += 1
        return found


class Progress:
    """Shows a run while the ``with`` block is under way.

    Args:
        statuses: of the chains.
        steps: L.
        averages: φ̂ to show.
        file: where to; standard error by default.
    """

    def __init__(
        self,
        statuses: Sequence[ChainStatus],
        steps: int,
        averages: RunningAverages | None = None,
        file: TextIO | None = None,
    ) -> None:
        self._statuses, self._steps, self._averages = statuses, steps, averages
        self._console = Console(file=file or sys.stderr)
        self._begun = time.perf_counter()
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
                self._console.print(self.line(), highlight=False, soft_wrap=True)

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
                f"{(status.accepted + status.dropped) / max(seconds, 1e-9):,.0f}", _time_left(share, seconds),
            )  # fmt: skip
        if functions := self._functions():
            table.caption = functions
        return table

    def line(self) -> str:
        """All chains in one line, for logs."""
        seconds = time.perf_counter() - self._begun
        made = [status.accepted for status in self._statuses]
        share = min(made) / self._steps
        dropped = sum(status.dropped for status in self._statuses)
        tau = sum(s.staleness_sum for s in self._statuses) / max(sum(made), 1)
        largest = max(status.staleness_max for status in self._statuses)
        parts = [
            f"{share:4.0%}", f"{sum(made):,} updates of {len(made)} chain{'s' * (len(made) != 1)}",
            f"{dropped:,} dropped", f"staleness {tau:.1f} (max {largest})",
            f"{(sum(made) + dropped) / max(seconds, 1e-9):,.0f} gradients/s", f"time left {_time_left(share, seconds)}",
        ]  # fmt: skip
        return " · ".join(parts + ([functions] if (functions := self._functions()) else []))

    def _functions(self) -> str:
        if self._averages is None:
            return ""
        if self._averages.problem:
            return f"test functions failed: {self._averages.problem}"
        return "   ".join(f"{name} = {value:.5g}" for name, value in self._averages.values.items())

    def _print_lines(self) -> None:
        while not self._stop.wait(_LINE):
            self._console.print(self.line(), highlight=False, soft_wrap=True)


def verdict(timing: Timing, servers: int, workers: int, cores: int) -> str:
    """One honest line on where the workers' time went, with advice where asynchrony did not pay.

    With more workers than cores nobody can compute all the time; what is judged is the share of what was possible.
    """
    total = max(timing.gradients + timing.waiting, 1e-12)
    share, possible = timing.gradients / total, min(1.0, cores / (servers * workers))
    each = timing.gradients / max(timing.count, 1)
    text = (
        f"workers spent {share:.0%} of their time in gradients ({duration(each)} each) and {1 - share:.0%} in "
        f"exchange and waiting; servers were busy {timing.updates:.1f} of {timing.wall:.1f} s"
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


def _time_left(share: float, seconds: float) -> str:
    return "?" if share <= 0 else "done" if share >= 1 else duration(seconds * (1 - share) / share)


def duration(seconds: float) -> str:
    """Seconds for people: µs, ms, or minutes:seconds.

    >>> duration(2.5e-5), duration(0.25), duration(75), duration(4000)
    ('25 µs', '250.0 ms', '1:15', '1:06:40')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
