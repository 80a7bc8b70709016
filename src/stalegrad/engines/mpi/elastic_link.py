"""A server's link to workers that come and go while a run goes on: each is a job of its own, and may be killed.

A worker that dies closes its connection. One that is stopped, or behind a cable that is cut, does not: missing
heartbeats show it.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from stalegrad._internal.errors import ArgumentError
from stalegrad.engines.heartbeat import Heartbeat
from stalegrad.engines.link import Arrival, Failure, LastSeen
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.heartbeats import BEATS, HeartbeatExchange
from stalegrad.engines.mpi.join_handshake import NO_PLACE, OTHER_MODEL, WELCOME, Verdict
from stalegrad.engines.mpi.join_port import Candidate, JoinPort
from stalegrad.engines.mpi.link import MpiLink
from stalegrad.engines.mpi.packet import Packet
from stalegrad.engines.mpi.ranks import RankTeam, fingerprint
from stalegrad.engines.mpi.socket_channel import SocketChannel
from stalegrad.potentials.base import Potential

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

_WITHOUT_WORKERS = 10.0  # seconds after which a server that has none says so

log = logging.getLogger("stalegrad")


def refuse_unless_elastic(team: RankTeam) -> None:
    """Refuse ranks that are no servers."""
    if team.comm.Get_size() != team.servers:
        team.refuse(
            ArgumentError(
                "servers", team.servers, f"and elastic=... want {team.servers} ranks, one for each server; there are "
                f"{team.comm.Get_size()}", "Workers are started apart, with STALEGRAD_JOIN set.",
            )
        )  # fmt: skip


class JoinedWorker:
    """A worker that has joined and has a place.

    Args:
        candidate: as which it came.
        potential: the model.
        heartbeat: seconds without a heartbeat after which it counts as dead.
    """

    def __init__(self, candidate: Candidate, potential: Potential, heartbeat: float) -> None:
        self.channel = SocketChannel(candidate.connection, Packet(potential.size, potential.dtype).room.nbytes)
        self.connection = Connection(self.channel, 0, potential, at_server=True)
        self.heartbeats = HeartbeatExchange(self.channel, heartbeat / BEATS)


class ElasticLink(MpiLink):
    """A server's connections to the workers that have joined.

    Args:
        channel: between the servers; every worker has one of its own.
        port: where they join.
        potential: the model, as workers see it.
        seed: of the run.
        heartbeat: seconds of silence after which a worker is taken for dead.
        poll_run: called from time to time while the server waits.
    """

    def __init__(
        self,
        channel: "Channel",
        port: JoinPort,
        potential: Potential,
        seed: int,
        heartbeat: float,
        poll_run: Callable[[], None],
    ) -> None:
        super().__init__(channel, {}, poll_run)
        self._port, self._potential, self._silence = port, potential, heartbeat
        self._model = fingerprint(potential, seed)
        self._free: dict[int, int] = {}  # places that are free, and the incarnation that is to take each
        self._workers: dict[int, JoinedWorker] = {}
        self._lost: deque[Failure] = deque()  # workers whose connections were closed
        self._occupied = time.monotonic()  # when there last was a worker
        self._heartbeat = Heartbeat(self._exchange_heartbeats, heartbeat / BEATS)

    def start(self, worker: int, incarnation: int) -> None:
        """Have a worker start again; or, if it is gone, leave its place to another."""
        if worker in self.connections:
            super().start(worker, incarnation)
        else:
            self._free[worker] = incarnation
            self._port.publish(len(self._free))

    def native(self) -> None:
        """What carries the messages of workers that have joined are sockets."""

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker, or for the end of one."""
        return self._lost.popleft() if self._lost else super().receive(timeout)

    def discard(self, worker: int, kind: str) -> None:
        """Forget a worker that is dead; one that failed otherwise can be started again."""
        if kind == "died" and worker in self._workers:
            self._workers.pop(worker).channel.close()
            if self.connections.pop(worker) is self._given:
                self._given = None
            self._arrived = deque(other for other in self._arrived if other != worker)
            self._lost = deque(each for each in self._lost if each.worker != worker)

    def last_seen(self) -> Iterable[LastSeen]:
        """When each worker that has a place last sent a heartbeat."""
        return [
            LastSeen(number, self._incarnation[number], worker.heartbeats.silence)
            for number, worker in self._workers.items()
        ]

    def close(self) -> None:
        """Accept no more workers, and send all the end of the run."""
        self._heartbeat.stop()
        self._port.close()
        for number in [number for number, worker in self._workers.items() if worker.channel.closed]:
            self.discard(number, "died")
        super().close()
        for worker in self._workers.values():
            worker.channel.close()

    def _finished(self) -> Iterable[int]:
        return [worker for worker, connection in self.connections.items() if connection.poll()]

    def _keep(self, connection: Connection) -> None:
        """Keep nothing: once its socket is closed nobody writes to its packet."""

    def _poll_others(self) -> None:
        super()._poll_others()
        self._notice_ends()
        self._warn_without_workers()
        for candidate in self._port.accept():
            self._place(candidate)

    def _place(self, candidate: Candidate) -> None:
        """Give a worker that knows the secret a place, or turn it away."""
        if not self._free or candidate.model != self._model:
            kind = OTHER_MODEL if candidate.model != self._model else NO_PLACE
            candidate.tell(Verdict(kind, self._port.server, 0, 0))
            candidate.connection.close()
            return
        place = min(self._free)
        incarnation = self._free.pop(place)
        candidate.tell(Verdict(WELCOME, self._port.server, place, incarnation))
        worker = JoinedWorker(candidate, self._potential, self._silence)
        self._workers[place], self.connections[place] = worker, worker.connection
        worker.connection.post_receive()
        super().start(place, incarnation)
        self._port.publish(len(self._free))

    def _notice_ends(self) -> None:
        reported = {each.worker for each in self._lost}
        for number, worker in self._workers.items():
            if worker.channel.closed and number not in reported:
                details = "its connection was closed: the process has ended, or was killed"
                self._lost.append(Failure(number, self._incarnation[number], "died", details))

    def _warn_without_workers(self) -> None:
        now = time.monotonic()
        if self._workers:
            self._occupied = now
        elif now - self._occupied > _WITHOUT_WORKERS:
            self._occupied = now + 5 * _WITHOUT_WORKERS
            folder = self._port.folder
            log.warning("server %d has no workers. They join with STALEGRAD_JOIN=%s", self._port.server, folder)

    def _exchange_heartbeats(self) -> None:
        for worker in list(self._workers.values()):  # which also moves messages on
            worker.heartbeats.exchange()
