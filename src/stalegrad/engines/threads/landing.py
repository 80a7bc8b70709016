"""What a worker that shares its chain does between two gradients, in one compiled call: it updates the chain itself.

There is no server thread and no message. The order in which workers get the lock is the order of the trace. Nothing of
a user's runs while the lock is held. An update of many parameters is made without it, close behind the one before.
"""

import numpy as np

from stalegrad._internal.atomics import load, store
from stalegrad._internal.jit import compiled, lean
from stalegrad._internal.stack import stack_array
from stalegrad.engines.clock import nanoseconds_now
from stalegrad.engines.segment import ACCEPTED, MINIBATCH, NANOSECONDS, STALENESS, TOOK, WORKER
from stalegrad.engines.threads.flights import join, land, release
from stalegrad.engines.threads.pipeline import NOT_KEPT, go_through, goes_by_section
from stalegrad.engines.threads.shared import (
    AWAY,
    COMPUTING,
    COUNT,
    ENTRY,
    HELD,
    INCARNATION,
    LAST,
    LINE,
    ROW,
    SEGMENT,
    STARTED,
    STATE,
    STOP,
    UPDATING,
    VERSION,
    flight,
    lock_chain,
    lock_for_update,
    unlock,
    wait_for_chain,
    wait_while_held,
)  # fmt: skip
from stalegrad.kernels.noise.philox import MAX_COUNT
from stalegrad.protocol.chain import all_finite
from stalegrad.protocol.turn import is_due, keep_if_due, make_update

COMPUTE, STOPPED, NEW_SEGMENT, BAD_GRADIENT, USED_UP = range(5)
"""What :func:`turn` returns: compute the next gradient; all are to end, or this incarnation; the segment is
over and the gradient, whose nanoseconds now count, still in hand; it could not be computed or is not finite; the worker
has no minibatch left."""
NONE = -1
"""Nanoseconds of no gradient."""


@compiled
def land_and_wait(  # type: ignore[no-untyped-def]
    chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished
):
    """Take a turn, see :func:`turn`: for workers in Python."""
    return turn(chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished)


@lean
def turn(  # type: ignore[no-untyped-def]
    chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished
):
    """Apply the gradient in hand, if there is one, and wait for the next point; returns what is to be done then.

    Args:
        chain: a :class:`~stalegrad.protocol.turn.CompiledChain`.
        segment: the present :class:`~stalegrad.engines.segment.Segment`.
        shared: a :class:`~stalegrad.engines.threads.shared.Shared`.
        bound: a :class:`~stalegrad.engines.threads.flights.Bound`.
        worker: which worker this is.
        incarnation: which one of it; a former one changes nothing and is told to stop.
        begun: when the run began, on the same clock, in nanoseconds.
        gradient: the worker's, (1, n); it is used up.
        computing: nanoseconds that it took, or :data:`NONE` if there is none; 0 if they have been counted before.
        finished: when it was finished, on the same clock.
    """
    words, flights, at = shared.words, shared.flights, flight(worker)
    if computing != NONE:
        if not all_finite(gradient):
            return BAD_GRADIENT
        what = _land(chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished)
        if what != COMPUTE:
            return what
        if load(flights, at + STATE) == AWAY and flights[at + COUNT] < MAX_COUNT:  # the way of all but a few
            return COMPUTE
    while load(words, STOP) == 0:
        place = load(flights, at + STATE)
        if place == AWAY:
            flights[at + STARTED] = nanoseconds_now(stack_array(np.int64, 2))
            return COMPUTE if flights[at + COUNT] < MAX_COUNT else USED_UP
        if place == HELD:
            wait_while_held(shared, worker)
            continue
        lock_chain(shared)
        current = flights[at + INCARNATION] == incarnation
        if current:
            join(shared, bound, worker, chain.sent)
        unlock(words)
        if not current:
            return STOPPED
    return STOPPED


@lean
def _land(  # type: ignore[no-untyped-def]
    chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished
):
    """Under the lock landing and row of the trace; there or after it update, draw and point for whoever may have it."""
    words, flights, at, spec = shared.words, shared.flights, flight(worker), stack_array(np.int64, 2)
    waited = lock_for_update(shared)
    # Nothing but the check for NaN lies between an update of few parameters and its gradient: no look at the clock.
    locked = nanoseconds_now(spec) if waited else finished
    if load(words, STOP) != 0 or flights[at + INCARNATION] != incarnation:
        unlock(words)
        return STOPPED
    if computing > 0:
        flights[at + LAST] = finished - flights[at + STARTED]
    version, row = words[VERSION], words[ROW]
    if words[SEGMENT] != segment.number or version == segment.last or row == segment.rows.shape[0]:
        flights[at + COMPUTING] += computing
        unlock(words)
        return NEW_SEGMENT
    staleness, accepted = land(shared, bound, worker)
    by_section, number, entry = accepted and goes_by_section(chain, shared, bound), version, NOT_KEPT
    if not by_section:
        wait_for_chain(shared)
    if accepted:
        version += 1
        if by_section:
            if is_due(segment.window, version):
                entry = words[ENTRY]
                words[ENTRY] += 1
        else:
            update = number - segment.first
            make_update(
                chain.state, chain.momentum, chain.point, chain.sent, chain.linear,
                segment.ahead[0 if segment.ahead.shape[0] == 1 else update], gradient,
                segment.coefficients[0 if segment.coefficients.shape[0] == 1 else update], chain.key, chain.chain,
                chain.first_repeat, number,
            )  # fmt: skip
            words[ENTRY] = keep_if_due(
                segment.window, words[ENTRY], version, chain.state.position, gradient, chain.momentum
            )
            for k in range(0, shared.passed.shape[0], LINE):
                store(shared.passed, k, version)
        store(words, VERSION, version)
    written = segment.rows[row]
    written[WORKER], written[MINIBATCH] = worker, flights[at + COUNT]
    written[STALENESS], written[ACCEPTED] = staleness, accepted
    words[ROW] = row + 1
    flights[at + COMPUTING] += computing
    release(shared, bound, chain.sent, worker, by_section)
    now = nanoseconds_now(spec)
    written[NANOSECONDS], written[TOOK] = now - begun, flights[at + LAST]
    flights[at + STARTED] = now
    flights[at + UPDATING] += now - locked
    unlock(words)
    if by_section:
        go_through(chain, segment, shared, worker, gradient, number, entry)
        flights[at + STARTED] = nanoseconds_now(spec)
    return COMPUTE
