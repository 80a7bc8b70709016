"""A worker that is a job of its own: it prepares its run like the servers, joins one, and works until the end."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad.engines.base import Job
from stalegrad.engines.heartbeat import Heartbeat
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.heartbeats import BEATS, HeartbeatExchange
from stalegrad.engines.mpi.join_search import find_server, join_server
from stalegrad.engines.mpi.packet import Packet
from stalegrad.engines.mpi.rank_worker import Membership, RankWorker
from stalegrad.engines.mpi.ranks import fingerprint
from stalegrad.engines.mpi.socket_channel import SocketChannel
from stalegrad.engines.team import available_cores
from stalegrad.potentials.base import Potential
from stalegrad.protocol.worker import Worker

T = TypeVar("T")


class JoiningTeam:
    """The team of a process that is to work for a server in another job; see :class:`stalegrad.engines.team.Team`.

    Args:
        folder: of the run.
        workers: W, which must be that of the servers.
    """

    leads, even = False, False

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.workers, self.cores = folder, workers, available_cores()
        self._broadcasts: list[str] | None = None

    def synchronize(self, potential: Potential, seed: int) -> None:
        """Return at once: whether model and seed are those of the run is found out when it is joined."""

    def broadcast(self, compute: Callable[[], T], encode: Callable[[T], str], decode: Callable[[str], T]) -> T:
        """What the run's leader has sent to its servers, such as the step size that it found, read from the folder."""
        if self._broadcasts is None:
            self._broadcasts = list(find_server(self.folder)[1]["broadcasts"])
        if not self._broadcasts:
            raise ArgumentError(
                "engine", "mpi", f"the run in {self.folder} was started otherwise", "A worker calls sg.sample alike."
            )
        return decode(self._broadcasts.pop(0))


def work(job: Job, folder: Path, heartbeat: float, slow: Mapping[int, float]) -> NoReturn:
    """Join a server, work until the run is over, and end this process.

    Args:
        job: as the servers have it.
        folder: of the run.
        heartbeat: seconds of silence after which the server is taken for dead.
        slow: extra seconds per gradient, by worker.
    """
    connection, verdict = join_server(folder, fingerprint(job.potential, job.settings.seed))
    channel = SocketChannel(connection, Packet(job.potential.size, job.potential.dtype).room.nbytes)
    heartbeats = HeartbeatExchange(channel, heartbeat / BEATS)

    def check() -> None:
        if channel.closed:
            raise StalegradError("the server has closed the connection: it has ended, or was killed")
        if heartbeats.silence > heartbeat:
            raise StalegradError(f"the server has given no sign of life for {heartbeats.silence:.0f} s")

    beating = Heartbeat(heartbeats.exchange, heartbeat / BEATS)
    try:
        worker = Worker(job.potential, job.settings.seed, verdict.server, verdict.place)
        membership = Membership(Connection(channel, 0, job.potential, at_server=False), worker, verdict.incarnation)
        RankWorker([membership], check).run(slow.get(verdict.place, 0.0), may_be_ended=True)
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # it leaves: the server gives its place to another
    finally:
        beating.stop()
        channel.close()
    raise SystemExit(0)
