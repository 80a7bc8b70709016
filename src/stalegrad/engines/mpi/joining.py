"""A worker that is a job of its own: it finds a server in a folder, joins it, and works until the run is over."""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from stalegrad.engines.base import available_cores
from stalegrad.engines.mpi.crew import fingerprint
from stalegrad.engines.mpi.elastic import FORMAT, HELLO, WELCOME
from stalegrad.engines.mpi.link import Line
from stalegrad.engines.mpi.pulse import BEATS, Heart, Pulse, connection_seconds
from stalegrad.engines.mpi.working import Hand, Post
from stalegrad.errors import ArgumentError, StalegradError
from stalegrad.potentials.base import Potential
from stalegrad.worker import Worker

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

T = TypeVar("T")

_ADMISSION = 60.0  # seconds that a worker waits for a server to let it in


class Joining:
    """A process that is to work for a server that it finds in a folder; see :class:`stalegrad.engines.base.Team`.

    Args:
        folder: of the run.
        heartbeat: seconds of silence after which the server is taken for dead.
        slow: extra seconds per gradient, by worker.
    """

    leads, workers, even = False, 1, False

    def __init__(self, folder: Path, heartbeat: float, slow: Mapping[int, float]) -> None:
        self._folder, self._heartbeat, self._slow = folder, heartbeat, slow
        self.cores = available_cores()

    def meet(self, potential: Potential, seed: int) -> NoReturn:
        """Join, work until the run is over, and end this process."""
        from stalegrad.engines.mpi import channel

        if not channel.two_threads_may_call():
            raise StalegradError(f"this MPI ({channel.about()}) does not let a second thread give signs of life")
        line = self._enter()
        server, place, incarnation = self._introduce(line, fingerprint(potential, seed))
        pulse = Pulse(line)
        heart = Heart(pulse.exchange, self._heartbeat / BEATS)

        def check() -> None:
            if pulse.silence > self._heartbeat:
                raise StalegradError(f"the server has given no sign of life for {pulse.silence:.0f} s")

        try:
            post = Post(Line(line, 0, potential), Worker(potential, seed, server, place), incarnation)
            Hand([post], self._slow.get(place, 0.0), check).work()
        finally:
            heart.stop()
        raise SystemExit(0)

    def first(self, lead: Callable[[], T], tell: Callable[[T], str], follow: Callable[[str], T]) -> T:
        """Never called: :meth:`meet` does not return."""
        raise NotImplementedError

    def _enter(self) -> "Channel":
        """Knock at the server that has most places free, and connect when it is our turn."""
        from stalegrad.engines.mpi import channel

        name, about = self._emptiest()
        knock = self._folder / f"{name}.knock.{uuid.uuid4().hex}"
        knock.touch()
        enter = knock.with_name(knock.name.replace(".knock.", ".enter."))
        deadline = time.monotonic() + _ADMISSION
        try:
            while not enter.exists():
                if time.monotonic() > deadline:
                    raise StalegradError(
                        f"{name} in {self._folder} has not let us in for {_ADMISSION:.0f} s: is it up?"
                    )
                time.sleep(0.02)
        finally:
            knock.unlink(missing_ok=True)
        try:
            return channel.connect(about["port"], connection_seconds(self._heartbeat))
        except channel.MpiError as error:
            raise StalegradError(f"{name} on {about['host']} could not be reached: {error}") from error

    def _emptiest(self) -> tuple[str, dict[str, Any]]:
        found = {}
        for path in self._folder.glob("server-*.json"):
            with suppress(OSError, ValueError):
                found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        if not found:
            raise StalegradError(f"no server has its door open in {self._folder}. Start the run first")
        name = max(found, key=lambda name: (found[name]["free"], uuid.uuid4().int))  # chance decides between equals
        if not found[name]["free"]:
            raise StalegradError(f"all places in {self._folder} are taken. Give the run more workers=...")
        return name, found[name]

    def _introduce(self, channel: "Channel", model: int) -> tuple[int, int, int]:
        channel.send(0, HELLO, np.array([FORMAT, model]))
        welcome = np.zeros(4, np.int64)
        hearing = channel.receiver(0, WELCOME, welcome)
        channel.start(hearing)
        if not channel.wait(hearing, self._heartbeat + _ADMISSION):
            raise StalegradError("the server has let us in and then said nothing")
        _, server, place, incarnation = welcome.tolist()
        if place < 0:
            raise ArgumentError(
                "engine", "mpi", "the run that was to be joined has another model or seed, or no place left",
                "A worker calls sg.sample as the server does, on the same data.",
            )  # fmt: skip
        return server, place, incarnation
