"""Progress in a notebook: a card that is replaced in place. It needs nothing but IPython, which is there."""

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from stalegrad._internal.look.card import Card
from stalegrad._internal.text import duration
from stalegrad.protocol.server import ChainStatus
from stalegrad.runs.averages import Averages
from stalegrad.runs.progress import RunningAverages

_REDRAW = 0.5  # seconds


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which shows HTML; a terminal, also IPython's, is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def show(thing: Any) -> None:
    """Let the notebook show an object."""
    from IPython.display import display

    display(thing)


class NotebookProgress:
    """Shows a run in the output of its cell while the ``with`` block is under way.

    Args:
        statuses: of the chains.
        steps: L.
        averages: φ̂ to show.
    """

    def __init__(
        self, statuses: Sequence[ChainStatus], steps: int, averages: RunningAverages | Averages | None = None
    ) -> None:
        self._statuses, self._steps, self._averages = statuses, steps, averages
        self._begun = time.perf_counter()
        self._first = [status.accepted for status in statuses]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalegrad-notebook", daemon=True)
        self._handle: Any = None

    def __enter__(self) -> "NotebookProgress":
        from IPython.display import HTML, display

        self._begun = time.perf_counter()
        self._handle = display(HTML(self.card().html()), display_id=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(timeout=2.0)
        self._update()

    def card(self) -> Card:
        """The run as it is now."""
        seconds = max(time.perf_counter() - self._begun, 1e-9)
        made = [status.accepted for status in self._statuses]
        dropped = sum(status.dropped for status in self._statuses)
        share, new = min(made) / self._steps, sum(made) - sum(self._first)
        before = min(self._first) / self._steps
        left = seconds * (1 - share) / (share - before) if share > before else None
        tau = sum(s.staleness_sum for s in self._statuses) / max(sum(made), 1)
        going = share < 1 and not self._stop.is_set()
        facts = [
            (f"{share:.0%}", f"of {self._steps:,} updates"), (f"{new / seconds:,.0f}", "updates a second"),
            (duration(seconds), "so far" if going else "in all"),
            *([(duration(left), "left")] if going and left is not None else []),
            (f"{tau:.2f}", "mean staleness"), (f"{dropped:,}", "dropped"),
        ]  # fmt: skip
        rows = [
            (
                f"chain {s}",
                f"{x.accepted:,}",
                f"{x.dropped:,}",
                f"{x.staleness_sum / max(x.accepted, 1):.2f}",
                str(x.staleness_max),
            )
            for s, x in enumerate(self._statuses)
        ]
        averages = {} if self._averages is None else self._averages.values
        words = "   ".join(f"{name} = {value:.5g}" for name, value in averages.items())
        failed = (
            ""
            if self._averages is None or not self._averages.problem
            else f"test functions failed: {self._averages.problem}"
        )
        return Card(
            "sampling" if going else "sampled", "", facts, share, ("", "updates", "dropped", "mean τ", "max τ"),
            rows if len(rows) <= 8 else (), [("", words), ("warning", failed)],
        )  # fmt: skip

    def _run(self) -> None:
        while not self._stop.wait(_REDRAW):
            self._update()

    def _update(self) -> None:
        from IPython.display import HTML

        try:
            self._handle.update(HTML(self.card().html()))
        except Exception:  # the notebook may be gone: its run goes on
            self._stop.set()
