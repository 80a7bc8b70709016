"""Time that a process did not have: a laptop that slept, a job that was stopped and continued, a machine that was full.

A deadline says how long somebody else may take. Where nobody has looked for an answer meanwhile, or where the whole run
stood still, the clock has gone on and nobody is late. So whoever has deadlines looks often, and notices when it did
not get to look.
"""

import time
from collections.abc import Callable


class Suspension:
    """Notices that a loop which looks often did not get to look.

    Args:
        often: seconds between two looks, at most, apart from those in which the loop computes.
        computed: seconds that the loop's thread has computed so far.
    """

    def __init__(self, often: float, computed: Callable[[], float] = time.thread_time) -> None:
        self._often, self._computed_until = often, computed
        self._looked: float | None = None
        self._computed = 0.0

    def look(self, now: float) -> float:
        """Seconds in which the loop should have looked, and neither did nor computed; 0 if it was hardly late.

        >>> suspension = Suspension(0.2, computed=lambda: 0.0)
        >>> [round(suspension.look(now), 3) for now in (10.0, 10.2, 10.5, 40.7, 40.9)]
        [0.0, 0.0, 0.0, 30.0, 0.0]
        """
        computed = self._computed_until()
        missed = 0.0
        if self._looked is not None:
            missed = now - self._looked - (computed - self._computed) - self._often
        self._looked, self._computed = now, computed
        return missed if missed > self._often else 0.0
