"""Heartbeats: signs of life that a process gives from a thread of its own, also while it computes or compiles."""

import threading
from collections.abc import Callable


class Heartbeat:
    """Does something again and again until it is stopped. Use it in a ``with`` block, or call :meth:`stop`.

    Args:
        beat: what is to be done; it must not raise.
        seconds: how often.
    """

    def __init__(self, beat: Callable[[], object], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalegrad-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it, and wait until the last beat is over."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> "Heartbeat":
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop it without waiting: a beat may be stuck in a network that is cut."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self._beat()
