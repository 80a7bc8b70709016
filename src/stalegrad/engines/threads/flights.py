"""Who computes at which version, and who may: :class:`stalegrad.protocol.admission.Admission`, compiled.

The transitions are the same; ``tests/engines/threads/test_flights.py`` holds one against the other. The caller has the
lock of :mod:`stalegrad.engines.threads.shared`. There are no messages that could break the protocol, so that nothing is
refused here: a worker lands what it was given, and nothing else.
"""

from typing import NamedTuple

from stalegrad._internal.atomics import fence, load, store
from stalegrad._internal.jit import compiled, lean
from stalegrad.engines.threads.shared import (
    ABSENT,
    ASLEEP,
    AWAY,
    COUNT,
    FLYING,
    GONE,
    HEAD,
    HELD,
    LANDED,
    NEXT,
    READ,
    STATE,
    VERSION,
    WAITING,
    flight,
    wake,
)  # fmt: skip


class Bound(NamedTuple):
    """The staleness bound.

    Args:
        largest: τ, negative for no bound.
        waits: whether workers are held so that nothing is ever dropped.
        epoch: of the model; who joins goes on with a minibatch number that is a multiple of it.
    """

    largest: int
    waits: bool
    epoch: int = 1


@compiled
def join(shared, bound, worker, sent):  # type: ignore[no-untyped-def]
    """A worker wants its first point, or, after a fault, its next."""
    following = flight(worker) + NEXT
    shared.flights[following] = -(-shared.flights[following] // bound.epoch) * bound.epoch
    _queue(shared, worker)
    release(shared, bound, sent, -1, False)


@lean
def land(shared, bound, worker):  # type: ignore[no-untyped-def]
    """A gradient has come: how stale it is, and whether it is accepted. If so, the caller advances the version.

    Then it calls :func:`release` for this worker.
    """
    at = flight(worker)
    staleness = shared.words[VERSION] - shared.flights[at + READ]
    shared.flights[at + LANDED] += 1
    if bound.waits:
        shared.words[FLYING] -= 1
        _queue(shared, worker)
    return staleness, bound.largest < 0 or staleness <= bound.largest


@compiled
def leave(shared, bound, worker, sent):  # type: ignore[no-untyped-def]
    """What a worker was computing will not come: it may :func:`join` again. Others may now get work."""
    at = flight(worker)
    if load(shared.flights, at + STATE) == AWAY:
        shared.words[FLYING] -= 1
    shared.flights[at + LANDED] = 0
    store(shared.flights, at + STATE, GONE)
    release(shared, bound, sent, -1, False)


@lean
def release(shared, bound, sent, landed, copied):  # type: ignore[no-untyped-def]
    """Hand the present version, and with it the point ``sent`` (1, n), to every waiting worker that may fly.

    Args:
        shared: what the workers share.
        bound: the staleness bound.
        sent: the point.
        landed: the worker that has landed, -1 if none has. Where nobody is held it flies on at once.
        copied: whether it has the point already.
    """
    words, queue = shared.words, shared.queue
    if landed >= 0 and not bound.waits:
        _hand(shared, landed, sent, copied)
    while words[WAITING] > 0 and _may_fly(words, shared.flights, queue.shape[0], bound):
        worker = queue[words[HEAD]]
        words[HEAD] = 0 if words[HEAD] + 1 == queue.shape[0] else words[HEAD] + 1
        words[WAITING] -= 1
        words[FLYING] += 1
        _hand(shared, worker, sent, copied and worker == landed)
        store(shared.flights, flight(worker) + STATE, AWAY)
        if bound.waits:
            fence()
            if load(shared.flights, flight(worker) + ASLEEP) != 0:
                wake(shared, worker)


@lean
def _hand(shared, worker, sent, copied):  # type: ignore[no-untyped-def]
    """Give a worker its next minibatch and the present version."""
    words, flights, at = shared.words, shared.flights, flight(worker)
    flights[at + COUNT] = flights[at + NEXT]
    flights[at + NEXT] += 1
    flights[at + READ] = words[VERSION]
    if not copied:
        point, own = sent[0], shared.points[worker]
        for i in range(point.shape[0]):
            own[i] = point[i]


@lean
def _queue(shared, worker):  # type: ignore[no-untyped-def]
    words, queue = shared.words, shared.queue
    place = words[HEAD] + words[WAITING]
    queue[place if place < queue.shape[0] else place - queue.shape[0]] = worker
    words[WAITING] += 1
    store(shared.flights, flight(worker) + STATE, HELD)


@lean
def _may_fly(words, flights, workers, bound):  # type: ignore[no-untyped-def]
    if not bound.waits or words[FLYING] == 0:
        return True
    oldest = words[VERSION]
    for worker in range(workers):
        at = flight(worker)
        if load(flights, at + STATE) == AWAY:
            oldest = min(oldest, flights[at + READ])
    return words[VERSION] - oldest + words[FLYING] <= bound.largest


assert ABSENT == 0, "flights begin as zeros"
