"""The MPI engine over a hostile network: what MPI has received passes a :class:`HostileWire` before it is looked at.

The last messages of a connection, STOP and its answer, are spared: MPI frees what connects two ranks only once nothing
is under way between them.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stalegrad.engines import message as m
from stalegrad.engines.hostile_network import HostileWire
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.link import MpiLink
from stalegrad.engines.mpi.packet import Packet
from stalegrad.potentials.base import Potential

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel


class HostileConnection(Connection):
    """One end of a connection whose incoming messages suffer.

    Args:
        channel: to the other end.
        peer: the rank there.
        potential: the model, for the size and type of a point.
        wire: what befalls them.
        at_server: whether this is the server's end.
    """

    def __init__(
        self, channel: "Channel", peer: int, potential: Potential, wire: HostileWire, *, at_server: bool
    ) -> None:
        super().__init__(channel, peer, potential, at_server=at_server)
        self._wire, self._landing = wire, Packet(potential.size, potential.dtype)
        channel.free_requests(self.receiving)
        self.receiving = self._receiver(self._landing)
        self._landing_posted = self._closing = False

    def post_receive(self) -> None:
        """Make room for a message; MPI has had room for one all the time."""
        self._posted = True
        if not self._landing_posted and not self._closing:
            self.channel.start(self.receiving)
            self._landing_posted = True

    def mark_received(self) -> None:
        """Do nothing: :meth:`poll` has noted it."""

    def poll(self) -> bool:
        """Whether a message has come out of the wire that there was room for."""
        now = time.monotonic()
        if self._landing_posted and self.channel.done(self.receiving):
            self._landing_posted = False
            self._closing = self._landing.header[m.KIND] in (m.STOP, m.STOPPED)
            if not self._closing:
                length = min(self._landing.header[m.LENGTH], len(self._landing.room) - m.BYTES)
                self._wire.put(self._landing.room[: m.BYTES + length].tobytes(), now)
                self.channel.start(self.receiving)
                self._landing_posted = True
        if not self._posted:
            return False
        if self._closing:
            content = self._landing.room.tobytes()
        elif (taken := self._wire.take(now)) is not None:
            content = taken
        else:
            return False
        self._posted = False
        self.incoming.room.data[: len(content)] = content
        return True


class HostileMpiLink(MpiLink):
    """A server's connections, all of them hostile."""

    def native(self) -> None:
        """What has been received must pass the wire first."""

    def _finished(self) -> Iterable[int]:
        return [worker for worker, connection in self.connections.items() if connection.poll()]
