"""The connection of a server's rank and a worker's rank: one packet and one persistent transfer each way."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message as m
from stalegrad.engines.mpi.packet import Packet
from stalegrad.engines.mpi.transfers import Transfers
from stalegrad.potentials.base import Potential

_TAG = 1

KEPT: list[Any] = []
"""What MPI may still write to, however long ago its run was: it must not be freed."""


class Connection:
    """One end of what connects a server and a worker; both ends are alike.

    A message that has come stays in ``incoming`` until :meth:`post_receive` makes room for the next one.

    Args:
        channel: to the other end.
        peer: the rank there.
        potential: the model, for the size and type of a point, and for how it travels.
        at_server: whether this is the server's end, which sends points and receives gradients.
    """

    def __init__(self, channel: Transfers, peer: int, potential: Potential, *, at_server: bool) -> None:
        self.channel, self._peer = channel, peer
        point, gradient = potential.wire.point, potential.wire.gradient
        self.outgoing = Packet(potential.size, potential.dtype, point if at_server else gradient)
        self.incoming = Packet(potential.size, potential.dtype, gradient if at_server else point)
        self._sending = channel.sender(peer, _TAG, self.outgoing.whole)
        self.receiving = self._receiver(self.incoming)
        self.awaited = m.IDLE
        """The kind of the message that the other end has not answered yet."""
        self.outgoing.seal()  # so that what compiles on first use has done so before anybody waits
        self._posted = False  # whether there is room for a message
        self._short: list[tuple[Any, Array]] = []  # short messages on their way, with their buffers

    def _receiver(self, packet: Packet) -> Any:
        return self.channel.receiver(self._peer, _TAG, packet.room)

    @property
    def transfers(self) -> tuple[Any, Any]:
        """The two persistent ones: receiving and sending."""
        return self.receiving, self._sending

    @property
    def posted(self) -> bool:
        """Whether there is room for a message."""
        return self._posted

    def post_receive(self) -> None:
        """Make room for a message, unless there is."""
        if not self._posted:
            self.channel.start(self.receiving)
            self._posted = True

    def mark_posted(self) -> None:
        """Note that the transfer ``receiving`` was started."""
        self._posted = True

    def mark_received(self) -> None:
        """Note that the transfer ``receiving`` is over."""
        self._posted = False

    def poll(self) -> bool:
        """Whether a message has come that there was room for; True once for each."""
        if self._posted and self.channel.done(self.receiving):
            self._posted = False
            return True
        return False

    def await_outgoing(self) -> None:
        """Wait until ``outgoing`` may be written to: what it held is on its way, or has been received."""
        if not self.channel.done(self._sending):
            self.channel.wait(self._sending)

    def send(self) -> None:
        """Send ``outgoing``, with its vector. What it held before has been received: it was answered."""
        self.outgoing.pack()
        self.outgoing.seal()
        self.channel.start(self._sending)

    def send_again(self, change: Callable[[m.Header], None]) -> bool:
        """Send ``outgoing`` once more, its header changed, unless it is still on its way; whether it was sent."""
        if not self.channel.done(self._sending):
            return False
        change(self.outgoing.header)
        self.outgoing.seal()
        self.channel.start(self._sending)
        return True

    def send_short(self, kind: int, incarnation: int = 0, text: str = "") -> None:
        """Send a message without a vector, perhaps with a text."""
        packet = Packet(0, np.uint8)
        packet.header[m.KIND], packet.header[m.INCARNATION] = kind, incarnation
        buffer = packet.set_text(text) if text else packet.head
        packet.seal()
        request = self.channel.post(self._peer, _TAG, buffer)
        self._short = [(old, held) for old, held in self._short if not self.channel.done(old)] + [(request, buffer)]

    def close(self) -> None:
        """Free what the connection uses. The last message has been sent or received."""
        for request, _ in self._short:
            self.channel.wait(request)
        self.channel.free_requests(self._sending, self.receiving)
