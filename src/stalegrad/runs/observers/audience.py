"""Hands snapshots and events to observers, each in a thread of its own, so that none can hold up the run or another."""

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence

from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import Happening, Recipe, Snapshot

MOST_EVENTS = 1000
"""Events that wait for one observer; more are dropped."""
_FAREWELL = 5.0  # seconds for all observers together, after the end of a run

log = logging.getLogger("stalegrad")


class Seat:
    """One observer and what waits for it.

    Args:
        observer: the observer.
        latest: gives the newest snapshot.
    """

    def __init__(self, observer: Observer, latest: Callable[[], Snapshot | None]) -> None:
        self.observer = observer
        self.dropped = 0
        """Events, and snapshots that were due, which the observer could not take."""
        self.raised = 0
        """How often it has raised an exception."""
        self._latest, self._last = latest, -1
        self._events: deque[Happening] = deque()
        self._change = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(
            target=self._attend, name=f"stalegrad-observer-{type(observer).__name__}", daemon=True
        )
        self._recipe: Recipe | None = None

    def begin(self, recipe: Recipe) -> None:
        """Let the observer see the run from now on."""
        self._recipe = recipe
        self._thread.start()

    def tell(self, happening: Happening) -> None:
        """Something has happened. Returns at once."""
        with self._change:
            if len(self._events) >= MOST_EVENTS:
                self.dropped += 1
            else:
                self._events.append(happening)
            self._change.notify()

    def end(self) -> None:
        """The run has ended; the newest snapshot says how. Returns at once."""
        with self._change:
            self._ending = True
            self._change.notify()

    def wait(self, seconds: float) -> bool:
        """Whether the observer has come to an end, after so many seconds at most."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _attend(self) -> None:
        assert self._recipe is not None
        self._call(self.observer.start, self._recipe)
        due = time.monotonic()
        while True:
            with self._change:
                while not self._events and not self._ending and (left := due - time.monotonic()) > 0:
                    self._change.wait(left)
                events, ending = list(self._events), self._ending
                self._events.clear()
            for happening in events:
                self._call(self.observer.event, happening)
            now = time.monotonic()
            if ending or now >= due:
                every = max(0.05, self.observer.every)
                self.dropped += max(0, int((now - due) / every) - 1)  # it was busy when they were due
                due = now + every
                self._hand_over()
            if ending:
                if (last := self._latest()) is not None:
                    self._call(self.observer.end, last)
                return

    def _hand_over(self) -> None:
        snapshot = self._latest()
        if snapshot is not None and snapshot.number != self._last:
            self._last = snapshot.number
            self._call(self.observer.snapshot, snapshot)

    def _call(self, method: Callable[..., None], *arguments: object) -> None:
        try:
            method(*arguments)
        except BaseException as error:  # whatever it is: it is not the run's affair
            self.raised += 1
            if self.raised == 1:
                text = f"the observer {type(self.observer).__name__} raised {type(error).__name__}: {error}"
                log.warning("%s. The run goes on, and further ones are only counted.\n%s", text, traceback.format_exc())


class Audience:
    """All observers of a run.

    Args:
        observers: them.
        latest: gives the newest snapshot.
    """

    def __init__(self, observers: Sequence[Observer], latest: Callable[[], Snapshot | None]) -> None:
        self.seats = [Seat(observer, latest) for observer in observers]

    def begin(self, recipe: Recipe) -> None:
        """Let all observers see the run from now on."""
        for seat in self.seats:
            seat.begin(recipe)

    def tell(self, happening: Happening) -> None:
        """Tell all observers that something has happened."""
        for seat in self.seats:
            seat.tell(happening)

    def end(self, seconds: float = _FAREWELL) -> None:
        """The run has ended. Observers have so many seconds, all together, to come to an end."""
        for seat in self.seats:
            seat.end()
        until = time.monotonic() + seconds
        for seat in self.seats:
            name = type(seat.observer).__name__
            if not seat.wait(until - time.monotonic()):
                log.warning("the observer %s has not come to an end and is left behind", name)
            if seat.dropped or seat.raised > 1:
                counts = f"{seat.dropped:,} snapshots or events, and raised {seat.raised:,} times"
                log.info("the observer %s missed %s", name, counts)
