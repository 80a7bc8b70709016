"""A worker that is one compiled loop: it computes its gradient and applies it to the chain itself, under a lock.

There is no server thread and no message. The order in which workers get the lock is the order of the trace. The loop
returns to Python for what is rare. Nothing of a user's runs while the lock is held.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from stalegrad._internal.atomics import load
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad.engines.threads.flights import join, land, release
from stalegrad.engines.threads.segment import ACCEPTED, MINIBATCH, NANOSECONDS, STALENESS, TOOK, WORKER
from stalegrad.engines.threads.shared import (
    ABSENT,
    COMPUTED,
    COMPUTING,
    COUNT,
    ENTRY,
    HELD,
    LAST,
    ROW,
    SEGMENT,
    STATE,
    STOP,
    UPDATING,
    VERSION,
    flight,
    lock,
    nap,
    unlock,
    wait_while_held,
)  # fmt: skip
from stalegrad.kernels.noise.philox import MAX_COUNT, key_words
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of
from stalegrad.potentials.minibatches.draws import minibatch, room
from stalegrad.protocol.chain import Chain, all_finite
from stalegrad.protocol.turn import keep_if_due, make_update

STOPPED, NEW_SEGMENT, BAD_GRADIENT, USED_UP = range(4)
"""Why :func:`work` returns: all are to end; the segment is over; the gradient could not be computed or is not finite;
the worker has no minibatch left."""

CLOCK = time.CLOCK_MONOTONIC
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


class CompiledModel(NamedTuple):
    """What the loop needs of a model: what its gradient needs, and how its minibatches are drawn."""

    bound: Any
    scheme: int
    n_data: int
    batch_size: int

    @classmethod
    def of(cls, potential: Potential) -> "CompiledModel":
        """That of a model that has one."""
        return cls(potential.bound, *potential.minibatches.for_compiled_code)


class CompiledChain(NamedTuple):
    """What the loop needs of a chain: see :func:`stalegrad.protocol.turn.make_update`."""

    state: Any
    momentum: Any
    point: Array
    sent: Array
    linear: Any
    key: int
    chain: int
    first_repeat: int

    @classmethod
    def of(cls, chain: Chain) -> "CompiledChain":
        """That of a chain that runs in compiled loops."""
        linear, _ = chain.foresight_rows(1)
        momentum = chain.kernel.momentum(chain.state)
        address = chain.key, chain.chain, chain.first_repeat
        return cls(chain.state, momentum, chain.present_point, chain.point, linear, *address)


@njit
def _now(spec):  # type: ignore[no-untyped-def]
    """Nanoseconds on the monotonic clock; ``spec`` is room for two numbers."""
    _clock_gettime(CLOCK, spec.ctypes)
    return spec[0] * 1_000_000_000 + spec[1]


@compiled
def work(model, chain, segment, shared, bound, worker, slow, begun, gradient):  # type: ignore[no-untyped-def]
    """Compute and update until something is up that Python must see to; returns what.

    Args:
        model: a :class:`CompiledModel`.
        chain: a :class:`CompiledChain`.
        segment: the present :class:`~stalegrad.engines.threads.segment.Segment`.
        shared: a :class:`~stalegrad.engines.threads.shared.Shared`.
        bound: a :class:`~stalegrad.engines.threads.flights.Bound`.
        worker: which worker this is.
        slow: extra nanoseconds for each gradient.
        begun: when the run began, on the same clock, in nanoseconds.
        gradient: room for the worker's gradient, (1, n), which it may still hold from the last call.
    """
    words, flights, at = shared.words, shared.flights, flight(worker)
    point = shared.points[worker, : gradient.shape[1]].reshape(gradient.shape)
    key0, key1 = key_words(chain.key)
    random_words, table = room(model.scheme, model.n_data, model.batch_size)
    indices, spec = np.empty((1, model.batch_size), np.int64), np.empty(2, np.int64)
    one_row, one_point = segment.coefficients.shape[0] == 1, segment.ahead.shape[0] == 1
    started = _now(spec)
    while load(words, STOP) == 0:
        place = load(flights, at + STATE)
        if place == ABSENT:
            lock(words)
            join(shared, bound, worker, chain.sent)
            unlock(words)
            started = _now(spec)
            continue
        if place == HELD:
            wait_while_held(shared, worker)
            started = _now(spec)
            continue
        computed = started  # it is away, perhaps with the gradient in hand from the last call
        if flights[at + COMPUTED] == 0:
            count = flights[at + COUNT]
            if count >= MAX_COUNT:
                return USED_UP
            minibatch(
                model.scheme, model.n_data, key0, key1, chain.chain, chain.first_repeat, worker, count, random_words,
                table, indices[0],
            )  # fmt: skip
            sound = gradient_of(model.bound, point, indices, gradient)  # type: ignore[no-untyped-call]
            if not sound or not all_finite(gradient):
                return BAD_GRADIENT
            computed = _now(spec)
            flights[at + COMPUTING] += computed - started
            flights[at + COMPUTED] = 1
            if slow > 0:
                if not nap(words, slow):
                    return STOPPED
                computed = _now(spec)
            flights[at + LAST] = computed - started
        if lock(words):
            computed = _now(spec)
        version, row = words[VERSION], words[ROW]
        if words[SEGMENT] != segment.number or version == segment.last or row == segment.rows.shape[0]:
            unlock(words)
            return NEW_SEGMENT
        staleness, accepted = land(shared, bound, worker)
        if accepted:
            update = version - segment.first
            make_update(
                chain.state, chain.momentum, chain.point, chain.sent, chain.linear,
                segment.ahead[0 if one_point else update], gradient, segment.coefficients[0 if one_row else update],
                chain.key, chain.chain, chain.first_repeat, version,
            )  # fmt: skip
            version += 1
            words[VERSION] = version
            words[ENTRY] = keep_if_due(
                segment.window, words[ENTRY], version, chain.state.position, gradient, chain.momentum
            )
        written = segment.rows[row]
        written[WORKER], written[MINIBATCH] = worker, flights[at + COUNT]
        written[STALENESS], written[ACCEPTED] = staleness, accepted
        started = _now(spec)
        written[NANOSECONDS], written[TOOK] = started - begun, flights[at + LAST]
        words[ROW] = row + 1
        release(shared, bound, chain.sent)
        unlock(words)
        flights[at + UPDATING] += started - computed
    return STOPPED
