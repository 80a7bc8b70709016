"""Updates that follow each other through a chain: one need not be over for the next to begin.

An update of many parameters is noise, arithmetic and memory, and for as long as it took, all other workers would wait
for the lock. But of update l, update l + 1 needs no more at a coordinate than that it has been there. So the vector is
cut into sections. A worker takes its number l under the lock, which is a moment, and then goes through the sections in
order, into each as soon as update l − 1 has left it. Every coordinate gets its updates in the order of their numbers:
the bits are those of whole updates, one after the other. On its way the worker copies what it is sent next, each
section just after update l, so that the copy is the point of version l + 1 and of no other.

With K sections K workers update at once, each making its own noise where it needs it, and a chain is full only when
gradients come faster than one section is updated. Who needs the chain as a whole has the lock and waits until those
that are under way have come through (:func:`stalegrad.engines.threads.shared.lock_chain`): without it none sets out.
"""

import numpy as np

from stalegrad._internal.atomics import store
from stalegrad._internal.jit import lean
from stalegrad._internal.stack import stack_array
from stalegrad.engines.clock import nanoseconds_now
from stalegrad.engines.threads.shared import LINE, UPDATING, flight, wait_until
from stalegrad.protocol.draws import LANES, add_squares, keep_stats
from stalegrad.protocol.foresight import tame
from stalegrad.protocol.turn import make_section

NOT_KEPT = -1
"""Entry of a draw that is not kept."""


@lean
def goes_by_section(chain, shared, bound):  # type: ignore[no-untyped-def]
    """Whether an update may share the chain with others: not if whoever is held is to be sent what comes out of it."""
    return shared.sections.shape[0] > 2 and chain.elementwise and not bound.waits


@lean
def go_through(chain, segment, shared, worker, gradient, number, entry):  # type: ignore[no-untyped-def]
    """Make update ``number``, which nobody else makes, without the lock; the worker has its next point then.

    Args:
        chain: a :class:`~stalegrad.protocol.turn.CompiledChain`.
        segment: the :class:`~stalegrad.engines.segment.Segment` of the update.
        shared: a :class:`~stalegrad.engines.threads.shared.Shared`.
        worker: whose gradient it is.
        gradient: (1, n); it is used up.
        number: the version of the chain before the update.
        entry: where the draw goes, :data:`NOT_KEPT` if it is not kept.
    """
    update, spec, sections, passed = number - segment.first, stack_array(np.int64, 2), shared.sections, shared.passed
    coefficients = segment.coefficients[0 if segment.coefficients.shape[0] == 1 else update]
    ahead = segment.ahead[0 if segment.ahead.shape[0] == 1 else update]
    own, sent, position, window = shared.points[worker], chain.sent[0], chain.state.position[0], segment.window
    forces, momenta = stack_array(np.float64, LANES), stack_array(np.float64, LANES)
    for lane in range(LANES):
        forces[lane] = momenta[lane] = 0.0
    if ahead[2] != 0:
        tame(gradient, ahead[2])
    took, last = 0, sections.shape[0] - 2
    for k in range(last + 1):
        start, stop = sections[k], sections[k + 1]
        wait_until(passed, k * LINE, number)
        begun = nanoseconds_now(spec)
        make_section(chain, ahead, gradient, coefficients, number, start, stop)
        for i in range(start, stop):
            own[i] = sent[i]
        if entry != NOT_KEPT:
            draw = window.draws[0, entry]
            for i in range(start, stop):
                draw[i] = position[i]
            add_squares(forces, gradient[0, start:stop])
            _add_momentum(momenta, chain.momentum, start, stop)
            if k == last:
                keep_stats(window.norms, window.temperatures, 0, entry, forces, momenta, chain.momentum, sent.shape[0])
        store(passed, k * LINE, number + 1)
        took += nanoseconds_now(spec) - begun
    shared.flights[flight(worker) + UPDATING] += took


@lean
def _add_momentum(sums, momentum, start, stop):  # type: ignore[no-untyped-def]
    if momentum is not None:
        add_squares(sums, momentum[0, start:stop])
