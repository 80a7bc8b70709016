"""How threads of one process give each other work: queues whose reader does not fall asleep where it is woken at once.

Waking a thread that sleeps takes up to 0.1 ms, longer than a whole exchange of a small model. So after a wait that was
brief, the next one first listens for a moment in compiled code, without the GIL, for a stroke of the inbox's bell.
Whoever has put something in rings that bell when it waits itself, in the same compiled call and so after it has let go
of the GIL: rung any earlier, it would call the reader only to have it wait for the GIL, asleep.

The queue alone says what is there, and ends a sleep. A stroke that nobody hears costs a moment, never a message.
"""

import time
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from stalegrad.engines.waiting import BRIEF
from stalegrad.jit import compiled

Item = TypeVar("Item")

TURNS = 200
"""How often a reader looks before it goes to sleep, each time giving way to others: for 0.1 ms where there are none."""


class Inbox(Generic[Item]):
    """A queue of one reader."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._strokes = np.zeros(1, np.int64)
        self._brief = False

    def put(self, item: Item) -> None:
        """Put something in. The reader wakes if it sleeps; if it listens, it hears of it when somebody rings."""
        self._queue.put(item)

    def ring(self) -> None:
        """Let a reader that listens know that there is something."""
        _ring_and_listen(self._strokes, _NOBODY, 0, 0)

    def get(self, timeout: float | None = None, waking: "Inbox[Any] | None" = None) -> Item | None:
        """What has been in here longest; None if nothing came for ``timeout`` seconds.

        The reader of ``waking`` is rung for on the way.
        """
        heard = self._strokes[0]  # before looking: what comes after this look also rings after it
        listens = self._brief and self._queue.empty()
        if listens or waking is not None:
            bell = _NOBODY if waking is None else waking._strokes
            _ring_and_listen(bell, self._strokes, heard, TURNS if listens else 0)
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


_NOBODY = np.zeros(0, np.int64)


def _strike(typing_context: Any, bell: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        strokes = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", strokes, ir.IntType(64)(1), "release")

    return types.int64(bell), generate


def _count(typing_context: Any, bell: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        strokes = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(strokes, "acquire", 8)

    return types.int64(bell), generate


_strike_once: Any = intrinsic(_strike)
_count_strokes: Any = intrinsic(_count)
_give_way: Any = types.ExternalFunction("sched_yield", types.int32())  # of the C library


@compiled
def _ring_and_listen(theirs, mine, heard, turns):  # type: ignore[no-untyped-def]
    """Ring their bell, if there is one; then listen until mine has rung more than ``heard``, for so many turns."""
    if theirs.size > 0:
        _strike_once(theirs)
    for _ in range(turns):
        if _count_strokes(mine) != heard:
            return
        _give_way()
