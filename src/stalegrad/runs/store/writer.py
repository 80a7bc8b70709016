"""The thread that writes a run to its folder, in bounded memory, and what it does while that cannot be written."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from stalegrad._internal.errors import StoreError

OnError = Literal["stop", "continue"]
_AHEAD = 2  # pieces that may wait for the disk before the sampling waits for it, too

MOST_BYTES = 256 << 20
"""So much may wait in memory while the folder cannot be written, before the sampling waits, too."""
PATIENCE = 600.0
"""Seconds after which a folder that could not be written all the while ends a run that waits for it."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds until a piece that could not be written is tried again, the first time and at most."""

log = logging.getLogger("stalegrad")


class _Piece(NamedTuple):
    write: Callable[[], None]
    size: int


class Writer:
    """Writes pieces one after the other, each until it is written: none is left out.

    With ``on_error="stop"`` the first piece that cannot be written is a :attr:`failure`, which ends the run. With
    ``"continue"`` it is tried again, with growing pauses. Meanwhile the sampling goes on, and what it gives waits in
    memory, up to :data:`MOST_BYTES`; then the sampling waits. Only if the sampling has to wait, or has ended, and the
    folder could not be written for :data:`PATIENCE` seconds, this is a failure, too.

    Args:
        folder: the run's.
        on_error: as above.
    """

    def __init__(self, folder: Path, on_error: OnError) -> None:
        self.folder, self.on_error = folder, on_error
        self.failure: StoreError | None = None
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0
        self._troubled: float | None = None  # since when the folder cannot be written
        self._awaited = 0  # threads that wait for the disk
        self._patience = PATIENCE
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="stalegrad-store", daemon=True)
        self._thread.start()

    def put(self, write: Callable[[], None], size: int = 0) -> None:
        """Have a piece of so many bytes written, after all that were put before; waits while there is no room for it.

        It is called again if it has raised an OSError: what it had written by then must do no harm.
        """
        with self._changed:
            self._wait(lambda: self._has_room(size))
            if self.failure is not None:
                raise self.failure
            self._pieces.append(_Piece(write, size))
            self._bytes += size
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until everything is written, or cannot be. Calling it again does nothing."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._wait(lambda: not self._pieces)
        self._thread.join()

    def hurry(self) -> None:
        """The run is asked to stop: a folder that cannot be written is no longer waited for."""
        self._patience = 0.0

    def _has_room(self, size: int) -> bool:
        fits = self._troubled is not None and self._bytes + size <= MOST_BYTES
        return len(self._pieces) < _AHEAD or fits

    def _wait(self, ready: Callable[[], bool]) -> None:
        self._awaited += 1
        try:
            self._changed.wait_for(lambda: self.failure is not None or ready())
        finally:
            self._awaited -= 1

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces or self._closing)
                if not self._pieces:
                    return
                piece = self._pieces[0]
            self._write(piece)
            with self._changed:
                if self.failure is not None:
                    self._pieces.clear()
                else:
                    self._pieces.popleft()
                    self._bytes -= piece.size
                self._changed.notify_all()
            if self.failure is not None:
                return

    def _write(self, piece: _Piece) -> None:
        """Write a piece, however often it takes, or fail."""
        pause = FIRST_PAUSE
        while True:
            try:
                piece.write()
            except Exception as error:
                if self.on_error == "stop" or not isinstance(error, OSError):
                    return self._fail(error)
                self._note_trouble(error)
                if self._pause(pause):
                    return self._fail(error)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._note_end_of_trouble()
                return None

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try; whether there is to be none."""
        assert self._troubled is not None
        again = time.monotonic() + seconds
        while time.monotonic() < again:
            if self._awaited and time.monotonic() - self._troubled >= self._patience:
                return True
            time.sleep(min(0.05, seconds))
        return False

    def _note_trouble(self, error: OSError) -> None:
        if self._troubled is None:
            log.warning(
                "%s cannot be written (%s). The run goes on: what it gives waits in memory, and is tried again",
                self.folder, error,
            )  # fmt: skip
            with self._changed:
                self._troubled = time.monotonic()
                self._changed.notify_all()  # there is room for more, now

    def _note_end_of_trouble(self) -> None:
        if self._troubled is not None:
            log.warning(
                "%s can be written again, after %.1f s. Nothing is lost",
                self.folder, time.monotonic() - self._troubled,
            )  # fmt: skip
            self._troubled = None

    def _fail(self, error: Exception) -> None:
        if isinstance(error, StoreError):  # it says itself what is the matter
            self.failure = error
            return
        self.failure = StoreError(
            f"{self.folder} cannot be written ({error}). Everything up to the last checkpoint is safe there; "
            "make room and go on with sg.resume"
        )
        self.failure.__cause__ = error
