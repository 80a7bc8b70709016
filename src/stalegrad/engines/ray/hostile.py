"""The Ray engine over a hostile network: calls and answers pass a :class:`HostileWire` each, as bytes."""

import time
from typing import Any

import numpy as np

from stalegrad.engines.hostile_network import TO_SERVER, TO_WORKER, HostileNetwork, HostileWire, Wire
from stalegrad.engines.ray.envelope import Envelope
from stalegrad.engines.ray.reliable_calls import Transport

_POLL = 1e-3  # seconds between looks at the wires


class HostileTransport:
    """A transport whose envelopes suffer, both ways; references to Ray's object store do not.

    Args:
        transport: brings them to the server.
        network: the plan.
        server, worker, incarnation: whose calls these are.
    """

    def __init__(self, transport: Transport, network: HostileNetwork, server: int, worker: int, incarnation: int):
        self._transport = transport
        self._calls = HostileWire(network, Wire(server, worker, TO_SERVER, incarnation))
        self._answers = HostileWire(network, Wire(server, worker, TO_WORKER, incarnation))

    def send(self, envelope: Envelope, *, again: bool) -> None:
        """Put it on the wire, and bring what arrives of it, and of those before it, to the server."""
        self._calls.put(*_flat(envelope, time.monotonic()))
        self._forward()

    def receive(self, seconds: float) -> Envelope | None:
        """What arrives in time of the answers."""
        end = time.monotonic() + seconds
        while True:
            self._forward()
            now = time.monotonic()
            if (received := self._answers.take_framed(now)) is not None:
                return _whole(*received)
            if now >= end:
                return None
            if (answer := self._transport.receive(min(_POLL, end - now))) is not None:
                self._answers.put(*_flat(answer, time.monotonic()))

    def _forward(self) -> None:
        while (call := self._calls.take_framed(time.monotonic())) is not None:
            self._transport.send(_whole(*call), again=True)


def _flat(envelope: Envelope, now: float) -> tuple[bytes, float, Any]:
    """An envelope as bytes, when, and how they are to be cut into an envelope again."""
    arrays = [body for body in envelope.bodies if isinstance(body, np.ndarray)]
    frame = [(body.dtype, body.shape) if isinstance(body, np.ndarray) else body for body in envelope.bodies]
    return envelope.head + b"".join(array.tobytes() for array in arrays), now, (len(envelope.head), frame)


def _whole(content: bytes, frame: Any) -> Envelope:
    """An envelope out of what has come, which may be shorter than it was."""
    first, shapes = frame
    head, rest = content[:first], content[first:]
    bodies: list[Any] = []
    for shape in shapes:
        if not isinstance(shape, tuple):
            bodies.append(shape)
            continue
        array = np.zeros(shape[1], shape[0])
        room = array.reshape(-1).view(np.uint8).data
        received, rest = rest[: array.nbytes], rest[array.nbytes :]
        room[: len(received)] = received
        bodies.append(array)
    return Envelope(head, tuple(bodies))
