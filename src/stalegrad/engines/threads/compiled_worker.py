"""A worker that is one compiled loop: it computes its gradients and applies them to the chain itself.

The loop returns to Python for what is rare.
"""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.borrowed import borrowed
from stalegrad._internal.jit import compiled, free
from stalegrad._internal.stack import stack_array
from stalegrad.engines.clock import nanoseconds_now
from stalegrad.engines.threads.landing import BAD_GRADIENT, COMPUTE, STOPPED, turn
from stalegrad.engines.threads.shared import COUNT, STARTED, flight, nap
from stalegrad.kernels.noise.philox import key_words
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of
from stalegrad.potentials.minibatches.draws import minibatch, room


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


@compiled
def work(  # type: ignore[no-untyped-def]
    model, chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished, slow
):
    """Compute and update until something is up that Python must see to; returns what.

    Args:
        model: a :class:`CompiledModel`.
        chain: this and the arguments up to the last one are those of
            :func:`stalegrad.engines.threads.landing.turn`.
        segment: see there.
        shared: see there.
        bound: see there.
        worker: see there.
        incarnation: see there.
        begun: see there.
        gradient: see there.
        computing: see there.
        finished: see there.
        slow: extra nanoseconds for each gradient.
    """
    words, table = room(model.scheme, model.n_data, model.batch_size)
    indices = np.empty((1, model.batch_size), np.int64)
    return _work(
        model, chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished, slow,
        words, table, indices,
    )  # fmt: skip


@free  # gradients may make arrays
def _work(  # type: ignore[no-untyped-def]
    model, chain, segment, shared, bound, worker, incarnation, begun, gradient, computing, finished, slow,
    words, table, indices,
):  # fmt: skip
    """:func:`work`, with room for the random words, the table and the indices of minibatches."""
    model, chain, segment, shared = borrowed(model), borrowed(chain), borrowed(segment), borrowed(shared)
    gradient, words, table, indices = borrowed((gradient, words, table, indices))
    at, spec, minibatch_indices = flight(worker), stack_array(np.int64, 2), indices[0]
    point = shared.points[worker, : gradient.shape[1]].reshape(gradient.shape)
    key0, key1 = key_words(chain.key)
    taken, now = computing, finished
    while True:
        what = turn(chain, segment, shared, bound, worker, incarnation, begun, gradient, taken, now)
        if what != COMPUTE:
            return what
        minibatch(
            model.scheme, model.n_data, key0, key1, chain.chain, chain.first_repeat, worker,
            shared.flights[at + COUNT], words, table, minibatch_indices,
        )  # fmt: skip
        if not gradient_of(model.bound, point, indices, gradient):  # type: ignore[no-untyped-call]
            return BAD_GRADIENT
        now = nanoseconds_now(spec)
        taken = now - shared.flights[at + STARTED]
        if slow > 0:
            if not nap(shared.words, slow):
                return STOPPED
            now = nanoseconds_now(spec)
