"""Calls and answers as they travel: a head of bytes with a checksum, and arrays whose checksums are in the head.

Ray moves arrays beside a message without copying them, and a point may lie in its object store for several readers. So
the arrays stay arrays here. Whoever opens an envelope looks at the checksum of the head before it reads the head, and
at that of an array before it uses the array.
"""

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines.checksum import checksum
from stalegrad.engines.link import Repairs
from stalegrad.engines.ray.call_link import SUPERSEDED, Answer, Call, CallLink
from stalegrad.protocol.server import Gradient

_SUM = 8  # bytes of a checksum
_ANOTHER = -1  # the number of no call: a worker pays no attention to such an answer


class Damaged(Exception):
    """What has come is not what was sent."""


class Envelope(NamedTuple):
    """A message: the checksum of the rest of the head, the rest of the head, and arrays or references to some."""

    head: bytes
    bodies: tuple[Any, ...] = ()


def array_checksum(array: Array) -> int:
    """The checksum of an array's bytes."""
    return checksum(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def sealed(facts: Any, bodies: tuple[Any, ...] = ()) -> Envelope:
    """An envelope around plain facts, which hold the checksums of the bodies."""
    content = pickle.dumps(facts)
    return Envelope(_sum_of(content) + content, bodies)


def opened(envelope: Envelope) -> Any:
    """The facts in an envelope; :class:`Damaged` if they are not as they were sent."""
    content = envelope.head[_SUM:]
    if envelope.head[:_SUM] != _sum_of(content):
        raise Damaged
    return pickle.loads(content)


class Received(NamedTuple):
    """A worker's call, what this worker has made good so far, and how often it had made this call before."""

    call: Call
    repairs: Repairs
    attempt: int


def seal_call(call: Call, repairs: Repairs, attempt: int = 0) -> Envelope:
    """A worker's call, what this worker has made good so far, and how often it has made this call before."""
    arrays = tuple(gradient.values for _, gradient in call.results)
    results = [(seconds, *gradient[:3]) for seconds, gradient in call.results]
    facts = (call._replace(results=()), results, [array_checksum(array) for array in arrays], tuple(repairs), attempt)
    return sealed(facts, arrays)


def open_call(envelope: Envelope) -> Received:
    """A worker's call; :class:`Damaged` if it is not as it was sent."""
    call, results, sums, repairs, attempt = opened(envelope)
    _compare(envelope.bodies, sums)
    gradients = (
        (seconds, Gradient(worker, count, version, values))
        for (seconds, worker, count, version), values in zip(results, envelope.bodies, strict=True)
    )
    return Received(call._replace(results=tuple(gradients)), Repairs(*repairs), attempt)


class Reply(NamedTuple):
    """The answer to a call, by its number, as far as it can be told: a damaged call has none.

    ``attempt`` is that of the call, so that the worker knows how long the answer took.
    """

    sequence: int | None
    answer: Answer | None
    attempt: int = 0


def seal_reply(reply: Reply) -> Envelope:
    """What a call is answered; points beside it, for which the answer has checksums."""
    sequence, answer, attempt = reply
    points = () if answer is None else answer.points
    return sealed((sequence, None if answer is None else answer._replace(points=()), attempt), points)


def open_reply(envelope: Envelope, unpack: Callable[[Any], Array]) -> Reply:
    """What a call was answered, with its points; :class:`Damaged` if it is not as it was sent."""
    sequence, answer, attempt = opened(envelope)
    if answer is None:
        return Reply(sequence, None, attempt)
    points = tuple(unpack(packed) for packed in envelope.bodies)
    _compare(points, answer.checksums)
    return Reply(sequence, answer._replace(points=points), attempt)


def exchange(link: CallLink, envelope: Envelope) -> Envelope:
    """Execute a worker's call, and answer it; one that was damaged is answered so, and asked for again."""
    try:
        call, repairs, attempt = open_call(envelope)
    except Damaged:
        link.note_damaged()
        return seal_reply(Reply(None, Answer()))
    answer = link.exchange(call, repairs)
    return seal_reply(Reply(_ANOTHER if answer is SUPERSEDED else call.sequence, answer, attempt))


def _compare(arrays: tuple[Array, ...], sums: Any) -> None:
    if len(arrays) != len(sums) or any(map(int.__ne__, map(array_checksum, arrays), sums)):
        raise Damaged


def _sum_of(content: bytes) -> bytes:
    return checksum(np.frombuffer(content, np.uint8)).to_bytes(_SUM, "little", signed=True)
