"""Messages to and from one process of another job, over TCP: the transfers of :mod:`stalegrad.engines.mpi.channel`.

Not over MPI: its connections between jobs have no authentication, a server has some 2,000 of them in its life, and the
other side takes the server along if it dies while it connects. Here a process that dies closes its connection, and
nothing is left of it.

A message is its tag, its length and its bytes. Nothing waits: what the socket does not take now is sent, and what has
come is read, whenever a transfer is looked at. Two threads may do that.
"""

import socket
import struct
import threading
from collections import deque

from stalegrad._internal.types import Array
from stalegrad.engines.waiting import PollingSleep

_HEAD = struct.Struct("!IQ")  # tag, length
_MOST_UNCLAIMED = 16  # messages for which there is no room yet; more are left to TCP, which slows the sender down


class SocketTransfer:
    """One transfer of a buffer, which can be started again once it is over."""

    __slots__ = ("outgoing", "tag", "under_way", "view")

    def __init__(self, tag: int, buffer: Array, outgoing: bool) -> None:
        self.tag, self.outgoing = tag, outgoing
        self.view = buffer.data.cast("B")
        self.under_way = False


class SocketChannel:
    """Transfers over a connected socket, see :class:`stalegrad.engines.mpi.transfers.Transfers`. There is one peer.

    What cannot be sent any more is lost, and what will not come is never over: :attr:`closed` says so.

    Args:
        connection: the socket.
        longest: bytes of the longest message; who announces a longer one is not listened to any more.
    """

    def __init__(self, connection: socket.socket, longest: int) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket, self._longest = connection, longest
        self._lock = threading.Lock()
        self._outgoing: deque[tuple[list[memoryview], SocketTransfer]] = deque()
        self._receivers: dict[int, deque[SocketTransfer]] = {}  # started, by tag
        self._unclaimed: dict[int, deque[memoryview]] = {}  # messages for which no receiver was started
        self._head = memoryview(bytearray(_HEAD.size))
        self._tag: int | None = None  # of the message whose bytes are coming; None while its head is
        self._owner: SocketTransfer | None = None  # whose buffer they go to
        self._target, self._filled = self._head, 0
        self._deaf = False  # nothing can be sent any more
        self.closed = False
        """Whether the other side has ended, or the connection has; all that came before can still be received."""

    def sender(self, peer: int, tag: int, buffer: Array) -> SocketTransfer:
        """A transfer to the other side that can be started again and again."""
        return SocketTransfer(tag, buffer, outgoing=True)

    def receiver(self, peer: int, tag: int, buffer: Array) -> SocketTransfer:
        """A transfer from the other side that can be started again and again."""
        return SocketTransfer(tag, buffer, outgoing=False)

    def start(self, request: SocketTransfer) -> None:
        """Start a transfer that is not under way."""
        with self._lock:
            request.under_way = True
            if request.outgoing:
                head = memoryview(_HEAD.pack(request.tag, len(request.view)))
                self._outgoing.append(([head, request.view], request))
                self._send()
            elif waiting := self._unclaimed.get(request.tag):
                self._hand_over(request, waiting.popleft())
            else:
                self._receivers.setdefault(request.tag, deque()).append(request)

    def done(self, request: SocketTransfer) -> bool:
        """Whether a transfer is over, or was never started."""
        if request.under_way:
            with self._lock:
                self._send()
                self._receive()
        return not request.under_way

    def wait(self, request: SocketTransfer, timeout: float | None = None) -> bool:
        """Wait for the end of a transfer; whether it has come in time."""
        return PollingSleep(lambda: self.done(request))(timeout)

    def post(self, peer: int, tag: int, buffer: Array) -> SocketTransfer:
        """Start a transfer that is made once."""
        request = SocketTransfer(tag, buffer, outgoing=True)
        self.start(request)
        return request

    def native(self) -> None:
        """Sockets are not called from compiled code."""

    def free_requests(self, *requests: SocketTransfer) -> None:
        """Do nothing: they go with whoever holds them."""

    def close(self) -> None:
        """Close the connection. What the system has taken is still delivered."""
        with self._lock:
            self._end()
            self._socket.close()

    def _send(self) -> None:
        """Send as much as the socket takes."""
        while self._outgoing and not self._deaf:
            pieces, request = self._outgoing[0]
            try:
                sent = self._socket.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._deaf = True
                break
            while pieces and sent >= len(pieces[0]):
                sent -= len(pieces.pop(0))
            if pieces:
                pieces[0] = pieces[0][sent:]
            else:
                request.under_way = False
                self._outgoing.popleft()
        if self._deaf:
            while self._outgoing:
                self._outgoing.popleft()[1].under_way = False

    def _receive(self) -> None:
        """Read what has come."""
        while not self.closed and sum(map(len, self._unclaimed.values())) < _MOST_UNCLAIMED:
            if self._filled < len(self._target):
                try:
                    count = self._socket.recv_into(self._target[self._filled :])
                except (BlockingIOError, InterruptedError):
                    return
                except OSError:
                    count = 0
                if count == 0:
                    return self._end()
                self._filled += count
            elif self._tag is None:
                self._begin_message(*_HEAD.unpack(self._head))
            else:
                self._end_message()
        return None

    def _begin_message(self, tag: int, length: int) -> None:
        """Find a place for the bytes that follow: a buffer that waits for them, or one of their own."""
        if length > self._longest:
            return self._end()
        waiting = self._receivers.get(tag)
        if waiting and length <= len(waiting[0].view):
            self._owner = waiting.popleft()
            self._target = self._owner.view[:length]
        else:
            self._owner, self._target = None, memoryview(bytearray(length))
        self._tag, self._filled = tag, 0
        return None

    def _end_message(self) -> None:
        assert self._tag is not None
        if self._owner is not None:
            self._owner.under_way = False
        elif waiting := self._receivers.get(self._tag):
            self._hand_over(waiting.popleft(), self._target)
        else:
            self._unclaimed.setdefault(self._tag, deque()).append(self._target)
        self._tag, self._owner = None, None
        self._target, self._filled = self._head, 0

    def _hand_over(self, request: SocketTransfer, message: memoryview) -> None:
        if len(message) > len(request.view):
            return self._end()
        request.view[: len(message)] = message
        request.under_way = False
        return None

    def _end(self) -> None:
        self.closed = self._deaf = True
        self._send()
