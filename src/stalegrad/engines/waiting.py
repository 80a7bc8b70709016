"""How a process waits for a message: without going to sleep where it will be woken at once, and without spinning.

Waking a core that sleeps takes a virtual machine up to 0.1 ms, longer than a whole exchange of a small model. So after
a wait that was brief the next one first polls for as long, yielding the core each time; after a long wait it goes to
sleep straight away. An idle process sleeps.
"""

import os
import time
from collections.abc import Callable

BRIEF = 200_000
"""Nanoseconds of a wait after which the next one polls first."""


class AdaptiveWait:
    """Waits for a condition that can be polled and whose coming ends a sleep.

    Args:
        ready: whether what is waited for is there.
        sleep: sleeps until it is woken; false if it timed out.
    """

    def __init__(self, ready: Callable[[], bool], sleep: Callable[..., bool]) -> None:
        self._ready, self._sleep = ready, sleep
        self._brief = False

    @property
    def brief(self) -> bool:
        """Whether the last wait was brief, so that the next one polls first."""
        return self._brief

    def wait(self, *arguments: float) -> bool:
        """Wait once; false if the sleep timed out. What is waited for may still not be there."""
        begun = time.perf_counter_ns()
        if self._brief:
            while time.perf_counter_ns() - begun < BRIEF:
                if self._ready():
                    return True
                os.sched_yield()
        woken = self._sleep(*arguments)
        self._brief = woken and time.perf_counter_ns() - begun < BRIEF
        return woken


class PollingSleep:
    """The sleep of a process that nothing wakes: it polls, sleeps for a moment, and polls again.

    The moments grow with the time that has passed, by a sixteenth of it: what is waited for is seen at most some 6 %
    late, and two milliseconds at most. So an idle process polls 500 times a second and needs about 1 % of a core.

    Args:
        ready: whether what is waited for is there.
    """

    SHORTEST, LONGEST, SHARE = 20e-6, 2e-3, 1 / 16  # seconds, seconds, of the time that has passed

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready

    def __call__(self, timeout: float | None = None) -> bool:
        """Sleep until the condition holds, or for ``timeout`` seconds; whether it holds."""
        begun = time.perf_counter()
        while not self._ready():
            passed = time.perf_counter() - begun
            if timeout is not None and passed >= timeout:
                return False
            time.sleep(min(max(passed * self.SHARE, self.SHORTEST), self.LONGEST))
        return True
