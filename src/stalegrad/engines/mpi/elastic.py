"""Workers that come and go while a run goes on: each is a job of its own, and may be killed at any time.

MPI lets a process of one job connect to a port that another has opened, but the wait for it blocks, and nobody is told
when the other side dies. So everything else goes through a folder that both see, and through heartbeats:

    server-0.json              where server 0 can be reached, and how many places are free
    server-0.knock.TOKEN       a worker wants to come in
    server-0.enter.TOKEN       the server is waiting for that worker, and for no other, to connect
"""

import json
import logging
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stalegrad.admission import Assignment
from stalegrad.engines.mpi import packet as p
from stalegrad.engines.mpi.crew import Crew, fingerprint
from stalegrad.engines.mpi.link import KEPT, Line, MpiLink
from stalegrad.engines.mpi.pulse import BEATS, Heart, Pulse
from stalegrad.engines.service import Arrival, Failure
from stalegrad.errors import ArgumentError, StalegradError
from stalegrad.potentials.base import Potential
from stalegrad.types import Array

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

HELLO, WELCOME = 5, 6
"""Tags of what is said when a worker has come in."""
FORMAT = 1
"""Of the files and the messages."""
_LONELY = 10.0  # seconds without any worker after which a server says so
_NETMOD = "MPIR_CVAR_CH4_NETMOD"

log = logging.getLogger("stalegrad")


def choose_transport() -> None:
    """Have MPICH use libfabric. Over UCX, its other transport, a worker that is killed can take the server with it."""
    if "mpi4py.MPI" not in sys.modules:
        os.environ.setdefault(_NETMOD, "ofi")


def refuse_unless_elastic(crew: Crew) -> None:
    """Refuse ranks that are no servers, and an MPI that is known not to survive the death of a worker."""
    from stalegrad.engines.mpi import channel

    if crew.comm.Get_size() != crew.servers:
        crew.refuse(
            ArgumentError(
                "servers", crew.servers, f"and elastic=... want {crew.servers} ranks, one for each server; there are "
                f"{crew.comm.Get_size()}", "Workers are started apart, with STALEGRAD_JOIN set.",
            )
        )  # fmt: skip
    library = channel.about()
    if not channel.two_threads_may_call():
        crew.refuse(StalegradError(f"this MPI ({library}) does not let a second thread give signs of life"))
    if "MPICH" not in library:
        log.warning("elastic workers have been tried with MPICH only; this is %s", library)
    elif "ucx" in channel.devices() and os.environ.get(_NETMOD) != "ofi":
        crew.refuse(
            StalegradError(
                f"this MPICH uses UCX, over which a worker that is killed can take the server with it, and it was "
                f"started before stalegrad could choose otherwise. Start the job with {_NETMOD}=ofi"
            )
        )


class Door:
    """Where workers come in to one server.

    Args:
        folder: that all see.
        server: which server.
        places: how many workers it may have.
        patience: seconds for a connection, once the worker has been asked in. The others hear nothing meanwhile.
    """

    def __init__(self, folder: Path, server: int, places: int, patience: int) -> None:
        from stalegrad.engines.mpi import channel

        self._patience = patience
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder, self.server, self._name = folder, server, f"server-{server}"
        for old in folder.glob(f"{self._name}.*"):
            old.unlink(missing_ok=True)
        try:
            self._port = channel.open_port()
        except channel.MpiError as error:
            raise StalegradError(
                f"this MPI ({channel.about()}) opens no port to which workers could connect ({error}). Start the "
                "workers together with the servers, without elastic=..."
            ) from error
        self._channel = channel
        self.publish(places)

    def publish(self, free: int) -> None:
        """Say where the server is, and how many places are free."""
        about = {"format": FORMAT, "port": self._port, "free": free, "host": socket.gethostname(), "pid": os.getpid()}
        partial = self.folder / f".{self._name}.partial"
        partial.write_text(json.dumps(about), encoding="utf-8")
        os.replace(partial, self.folder / f"{self._name}.json")

    def admit(self) -> "Channel | None":
        """Let one worker in, if there is any that knocks."""
        for knock in sorted(self.folder.glob(f"{self._name}.knock.*")):
            enter = knock.with_name(knock.name.replace(".knock.", ".enter."))
            try:
                os.replace(knock, enter)
                return self._channel.accept(self._port, self._patience)
            except FileNotFoundError:
                continue  # it has given up
            except self._channel.MpiError as error:
                log.warning("a worker knocked at server %d but did not come in: %s", self.server, error)
            finally:
                enter.unlink(missing_ok=True)
        return None

    def close(self) -> None:
        """Let nobody in any more."""
        for left in self.folder.glob(f"{self._name}.*"):
            left.unlink(missing_ok=True)
        with suppress(self._channel.MpiError, OSError):
            self._channel.close_port(self._port)
        with suppress(OSError):
            self.folder.rmdir()  # if it is empty


class Guest:
    """A worker that has connected."""

    def __init__(self, channel: "Channel", potential: Potential) -> None:
        self.line = Line(channel, 0, potential)
        self.pulse = Pulse(channel)
        self._hello = np.zeros(2, np.int64)
        self._greeting = channel.receiver(0, HELLO, self._hello)
        self._welcome: Array = np.zeros(4, np.int64)
        channel.start(self._greeting)

    def introduced(self) -> bool:
        """Whether it has said what its model is."""
        return self.line.channel.done(self._greeting)

    def fits(self, model: int) -> bool:
        """Whether that is the model of the run."""
        return self._hello.tolist() == [FORMAT, model]

    def welcome(self, server: int, place: int, incarnation: int) -> None:
        """Tell it whose worker it is; place −1 sends it away."""
        self._welcome[:] = FORMAT, server, place, incarnation
        self.line.channel.post(0, WELCOME, self._welcome)


class ElasticLink(MpiLink):
    """A server's lines to whoever has joined.

    Args:
        channel: between the servers; every worker has one of its own.
        door: where they come in.
        potential: the model.
        seed: of the run.
        heartbeat: seconds of silence after which a worker is taken for dead.
        beside: called from time to time while the server waits.
    """

    def __init__(
        self,
        channel: "Channel",
        door: Door,
        potential: Potential,
        seed: int,
        heartbeat: float,
        beside: Callable[[], None],
    ) -> None:
        super().__init__(channel, {}, beside)
        self._door, self._potential, self._heartbeat = door, potential, heartbeat
        self._model = fingerprint(potential, seed)
        self._open: dict[int, int] = {}  # places that are free, and the incarnation that is to take each
        self._incarnation: dict[int, int] = {}
        self._guests: dict[int, Guest] = {}
        self._waiting: list[Guest] = []  # connected, but not introduced yet
        self._news: deque[Failure] = deque()
        self._lonely = time.monotonic()
        self._heart = Heart(self._exchange_signs, heartbeat / BEATS)

    def start(self, worker: int, incarnation: int) -> None:
        """Have a worker start again; or, if it is gone, leave its place to another."""
        self._incarnation[worker] = incarnation
        if worker in self.lines:
            super().start(worker, incarnation)
        else:
            self._open[worker] = incarnation
            self._publish()

    def send(self, assignment: Assignment, point: Array) -> None:
        """Send a worker its point, unless it has just died and the service is yet to hear of it."""
        if assignment.worker in self.lines:
            super().send(assignment, point)

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker, for the death of one, or for a new one."""
        return self._news.popleft() if self._news else super().receive(timeout)

    def close(self) -> None:
        """Tell all that it is over, and close the door."""
        self._heart.stop()
        self._door.close()
        KEPT.extend((*self._waiting, *self._guests.values()))
        super().close()

    def _finished(self) -> Iterable[int]:
        return [worker for worker, line in self.lines.items() if line.has_heard()]

    def _look_beside(self) -> None:
        super()._look_beside()
        self._look_for_signs_of_life()
        if self._open and (channel := self._door.admit()) is not None:
            self._waiting.append(Guest(channel, self._potential))
        for guest in [guest for guest in self._waiting if guest.introduced()]:
            self._waiting.remove(guest)
            self._seat(guest)

    def _seat(self, guest: Guest) -> None:
        """Give a worker that has introduced itself a place."""
        if not self._open or not guest.fits(self._model):
            guest.welcome(self._door.server, -1, 0)
            KEPT.append(guest)
            return
        place = min(self._open)
        incarnation = self._open.pop(place)
        guest.welcome(self._door.server, place, incarnation)
        self._guests[place], self.lines[place] = guest, guest.line
        guest.line.listen()
        guest.line.note(p.START, incarnation)
        self._publish()

    def _look_for_signs_of_life(self) -> None:
        for worker, guest in list(self._guests.items()):
            if guest.pulse.silence > self._heartbeat:
                self._lose(worker, f"no sign of life for {guest.pulse.silence:.1f} s")
        for guest in [guest for guest in self._waiting if guest.pulse.silence > self._heartbeat]:
            self._waiting.remove(guest)
            KEPT.append(guest)
        if self._guests:
            self._lonely = time.monotonic()
        elif time.monotonic() - self._lonely > _LONELY:
            self._lonely = time.monotonic() + 5 * _LONELY
            log.warning(
                "server %d has no workers. They join with STALEGRAD_JOIN=%s", self._door.server, self._door.folder
            )

    def _exchange_signs(self) -> None:
        for guest in (*self._waiting, *self._guests.values()):
            guest.pulse.exchange()

    def _lose(self, worker: int, why: str) -> None:
        KEPT.append(self._guests.pop(worker))
        if self.lines.pop(worker) is self._given:
            self._given = None
        self._arrived = deque(other for other in self._arrived if other != worker)
        self._news.append(Failure(worker, self._incarnation[worker], "died", why))

    def _publish(self) -> None:
        self._door.publish(len(self._open))
