"""Queues between threads of one process whose reader does not fall asleep where it is woken at once.

Waking a thread that sleeps takes up to 0.1 ms, longer than a whole exchange of a small model. So after a wait that was
brief, the next one first spins for a moment in compiled code, without the GIL, until the inbox is signalled. The
writer signals when it waits itself, in the same compiled call and so after it has released the GIL: signalled any
earlier, the reader would only have to wait for the GIL, asleep.

The queue alone says what is there, and ends a sleep. A signal that is missed costs a moment, never a message.
"""

import time
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
from numba import types

from stalegrad._internal.atomics import add, load
from stalegrad._internal.jit import compiled
from stalegrad.engines.waiting import BRIEF

Item = TypeVar("Item")

SPINS = 200
"""How often a reader looks before it goes to sleep, yielding its core each time: for 0.1 ms on an idle core."""


class Inbox(Generic[Item]):
    """A queue of one reader."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._signals = np.zeros(1, np.int64)  # how many there were
        self._brief = False

    def put(self, item: Item) -> None:
        """Put something in. A reader that sleeps wakes; one that spins sees it with the next signal."""
        self._queue.put(item)

    def signal(self) -> None:
        """Let a reader that spins know that there is something."""
        _signal_and_spin(self._signals, _NO_SIGNALS, 0, 0)

    def get(self, timeout: float | None = None, signalling: "Inbox[Any] | None" = None) -> Item | None:
        """What has been in here longest; None if nothing came for ``timeout`` seconds.

        The reader of ``signalling`` is signalled on the way.
        """
        seen = self._signals[0]  # before looking: what comes after this look is also signalled after it
        spins = self._brief and self._queue.empty()
        if spins or signalling is not None:
            theirs = _NO_SIGNALS if signalling is None else signalling._signals
            _signal_and_spin(theirs, self._signals, seen, SPINS if spins else 0)
        try:
            return self._queue.get_nowait()
        except Empty:
            pass
        begun = time.perf_counter_ns()
        try:
            item = self._queue.get(timeout=timeout)
        except Empty:
            self._brief = False
            return None
        self._brief = time.perf_counter_ns() - begun < BRIEF
        return item


_NO_SIGNALS = np.zeros(0, np.int64)


_yield_core: Any = types.ExternalFunction("sched_yield", types.int32())  # of the C library


@compiled
def _signal_and_spin(theirs, mine, seen, spins):  # type: ignore[no-untyped-def]
    """Signal theirs, if it is there; then spin until mine has more than ``seen`` signals, for so many turns."""
    if theirs.size > 0:
        add(theirs, 0, 1)
    for _ in range(spins):
        if load(mine, 0) != seen:
            return
        _yield_core()
