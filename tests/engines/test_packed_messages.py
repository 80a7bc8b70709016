"""Rounded vectors travel in as few bytes as they need, over ranks and over calls."""

import numpy as np
import pytest

from stalegrad.engines import message as m
from stalegrad.engines.link import Delivery, Ready, Repairs
from stalegrad.engines.mpi.packet import Packet
from stalegrad.engines.ray.call_link import Call, CallLink
from stalegrad.engines.ray.envelope import Reply, open_call, open_reply, seal_call, seal_reply
from stalegrad.engines.ray.lanes import LaneAssignment
from stalegrad.potentials.wire.formats import FORMATS, Counter
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient

N = 1000


def rounded(codec):
    values = np.random.default_rng(0).standard_normal((1, N)).astype(np.float32)
    return codec.round(values, np.empty_like(values), 3, Counter.of_point(0, 5, 0))


@pytest.mark.parametrize("messages", FORMATS)
@pytest.mark.parametrize("which", ["point", "gradient"])
def test_a_packet_between_ranks(messages, which):
    codec = getattr(FORMATS[messages], which)
    values = rounded(codec)
    sent, come = Packet(N, np.float32, codec), Packet(N, np.float32, codec)
    assert sent.whole.nbytes == m.BYTES + codec.packed_bytes(N)
    sent.vector[...] = values
    sent.pack()
    sent.seal()
    come.room[: sent.whole.nbytes] = sent.whole
    assert come.intact
    assert np.array_equal(come.unpack(), values)


@pytest.mark.parametrize("messages", FORMATS)
def test_points_and_gradients_in_calls(messages):
    wire = FORMATS[messages]
    link = CallLink(lambda *who: None, lambda worker: None, held=0.01, wire=wire)
    link.start(0, 0)
    link.exchange(Call(0, 0, 0))
    assert link.receive(1.0) == Ready(0, 0)
    point, gradient = rounded(wire.point), rounded(wire.gradient)
    link.send(LaneAssignment(0, Assignment(0, 4, 5)), point)
    link.receive(0.0)
    reply = open_reply(seal_reply(Reply(0, link.exchange(Call(0, 0, 0)))), lambda packed: packed)
    (packed,) = reply.answer.points
    assert np.array_equal(wire.point.unpacked(packed), point)
    brought = wire.gradient.packed(gradient)
    header = 8 if wire.rounds else 0
    assert (packed.nbytes, brought.nbytes) == tuple(header + size for size in wire.message_bytes(N))
    call, *_ = open_call(seal_call(Call(0, 0, 1, results=((0.5, Gradient(0, 4, 5, brought)),)), Repairs()))
    link.exchange(call)
    delivery = link.receive(1.0)
    assert isinstance(delivery, Delivery)
    assert np.array_equal(delivery.gradient.values, gradient)
