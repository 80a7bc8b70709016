"""Many updates in one compiled call, for small models, whose gradients take less time than Python between them.

It does what the loop in :meth:`stalegrad.protocol.executor.Executor.advance` does, with the same bits. Which gradient
and which update are meant follows from the types of ``bound`` and ``state``: for each pair numba compiles a loop of its
own, which takes seconds the first time and is then cached on disk. Long runs are worth it.
"""

import numpy as np

from stalegrad._internal.borrowed import borrowed
from stalegrad._internal.jit import compiled, free
from stalegrad.kernels.noise.philox import key_words
from stalegrad.potentials.compiled import gradient_of
from stalegrad.potentials.minibatches.draws import minibatch, room
from stalegrad.protocol.chain import all_finite
from stalegrad.protocol.turn import keep_if_due, make_update


@compiled
def execute_block(  # type: ignore[no-untyped-def]
    bound, batches, state, momentum, point, sent, linear, ahead, points, workers, counts, staleness, coefficients,
    address, first, window, gradient,
):  # fmt: skip
    """Make B updates; returns how many were made, fewer at a bad gradient.

    Args:
        bound: what the model's gradient needs.
        batches: how minibatches are drawn: code of the scheme, N and J.
        state: the kernel's.
        momentum: of the state, or None.
        point: where the state wants its gradient, (R, n).
        sent: what workers are sent, (R, n): the same array, or another if they are sent ahead of it.
        linear: A, the curvature that the server owns, or None.
        ahead: α, c and s of each update, see :func:`stalegrad.protocol.turn.make_update`, or one row for all.
        points: the last points sent, (depth, R, n), by version modulo depth.
        workers: whose gradient makes each update, (B,).
        counts: its number among the worker's, (B,).
        staleness: of each update, (B,).
        coefficients: of the kernel's formula, a row an update, or one row for all.
        address: seed, chain, first repetition and version of the chain before the block.
        first: number of the first update in this execution, which versions in ``points`` are counted by.
        window: which updates are kept and where they go, see :class:`stalegrad.protocol.draws.Window`.
        gradient: room for one, (R, n); at a bad gradient it holds it.
    """
    words, table = room(*batches)
    indices = np.empty((point.shape[0], batches[2]), np.int64)
    return _execute(
        bound, batches, state, momentum, point, sent, linear, ahead, points, workers, counts, staleness, coefficients,
        address, first, window, gradient, words, table, indices,
    )  # fmt: skip


@free  # gradients may make arrays
def _execute(  # type: ignore[no-untyped-def]
    bound, batches, state, momentum, point, sent, linear, ahead, points, workers, counts, staleness, coefficients,
    address, first, window, gradient, words, table, indices,
):  # fmt: skip
    """:func:`execute_block`, with room for the random words, the table and the indices of minibatches."""
    bound, state, momentum, point, sent = borrowed((bound, state, momentum, point, sent))
    linear, ahead, points, coefficients = borrowed((linear, ahead, points, coefficients))
    workers, counts, staleness, window, gradient = borrowed((workers, counts, staleness, window, gradient))
    words, table, indices = borrowed((words, table, indices))
    seed, chain, first_repeat, version = address
    entry = window[7]
    code, n_data, _ = batches
    key0, key1 = key_words(seed)
    depth = points.shape[0]
    one_row, one_point = coefficients.shape[0] == 1, ahead.shape[0] == 1
    for b in range(workers.shape[0]):
        for r in range(indices.shape[0]):
            repeat = first_repeat + r
            minibatch(code, n_data, key0, key1, chain, repeat, workers[b], counts[b], words, table, indices[r])
        wanted = points[(first + b - staleness[b]) % depth]
        if not gradient_of(bound, wanted, indices, gradient):  # type: ignore[no-untyped-call]
            return b
        if not all_finite(gradient):
            return b
        row, far = coefficients[0 if one_row else b], ahead[0 if one_point else b]
        make_update(state, momentum, point, sent, linear, far, gradient, row, seed, chain, first_repeat, version + b)
        if depth > 1:
            points[(first + b + 1) % depth][...] = sent
        entry = keep_if_due(window, entry, version + b + 1, state.position, gradient, momentum)
    return workers.shape[0]
