"""What a connection asks of whatever carries its messages: MPI among ranks, a socket to a worker that has joined."""

from typing import Any, Protocol

from stalegrad._internal.types import Array


class Transfers(Protocol):
    """Transfers of buffers to and from peers that are started, looked at, and started again."""

    def sender(self, peer: int, tag: int, buffer: Array) -> Any:
        """A transfer to a peer that can be started again and again."""
        ...

    def receiver(self, peer: int, tag: int, buffer: Array) -> Any:
        """A transfer from a peer that can be started again and again. The message may be shorter than the buffer."""
        ...

    def start(self, request: Any) -> None:
        """Start a transfer that is not under way."""
        ...

    def done(self, request: Any) -> bool:
        """Whether a transfer is over, or was never started."""
        ...

    def wait(self, request: Any, timeout: float | None = None) -> bool:
        """Wait for the end of a transfer; whether it has come in time."""
        ...

    def post(self, peer: int, tag: int, buffer: Array) -> Any:
        """Start a transfer that is made once; the buffer must be left alone until it is over."""
        ...

    def free_requests(self, *requests: Any) -> None:
        """Free transfers that are not under way."""
        ...

    def native(self) -> Any:
        """How compiled code starts and tests them: a ``Native`` of ``express.py``; None if it cannot."""
        ...
