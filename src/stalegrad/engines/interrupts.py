"""Ctrl-C and SIGTERM end a run early but cleanly: what has been sampled so far is returned."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals(
    stop: threading.Event,
    interrupted: threading.Event,
    also: Callable[[], None] = lambda: None,
    requests: list[Callable[[], None]] | None = None,
) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask the servers to stop; asked a second time, Ctrl-C interrupts as usual.

    Args:
        stop: set when a signal has come.
        interrupted: likewise; ``stop`` may also be set by others.
        also: what else to do then, in the signal's handler.
        requests: where to put what others may call, from any thread, to the same effect.
    """

    def ask() -> None:
        interrupted.set()
        stop.set()
        also()

    if requests is not None:
        requests.append(ask)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        ask()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
