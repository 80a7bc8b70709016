"""Many updates in one compiled call, for small models, whose gradients take less time than Python between them.

It does what the loop in :meth:`stalegrad.engines.inline.Execution.advance` does, with the same bits. Which gradient
and which update are meant follows from the types of ``bound`` and ``state``: for each pair numba compiles a loop of its
own, which takes seconds the first time and is then cached on disk. Long runs are worth it.
"""

from stalegrad.chain import all_finite
from stalegrad.draws import keep
from stalegrad.jit import compiled
from stalegrad.kernels.base import update
from stalegrad.potentials.compiled import gradient_of


@compiled
def execute_block(  # type: ignore[no-untyped-def]
    bound, state, momentum, point, points, staleness, indices, coefficients, address, first, window, gradient
):
    """Make the updates whose minibatches are ``indices`` (B, R, J); returns how many, fewer at a bad gradient.

    Args:
        bound: what the model's gradient needs.
        state: the kernel's.
        momentum: of the state, or None.
        point: where the state wants its gradient, (R, n).
        points: the last points, (depth, R, n), by version modulo depth.
        staleness: of each update, (B,).
        indices: of the minibatches.
        coefficients: of the kernel's formula, a row an update, or one row for all.
        address: seed, chain, first repetition and version of the chain before the block.
        first: number of the first update in this execution, which versions in ``points`` are counted by.
        window: burn_in, thin, and where draws go: draws, norms, temperatures and their first entry.
        gradient: room for one, (R, n); at a bad gradient it holds it.
    """
    seed, chain, first_repeat, version = address
    burn_in, thin, draws, norms, temperatures, entry = window
    depth = points.shape[0]
    one_row = coefficients.shape[0] == 1
    for b in range(indices.shape[0]):
        wanted = points[(first + b - staleness[b]) % depth]
        if not gradient_of(bound, wanted, indices[b], gradient):  # type: ignore[no-untyped-call]
            return b
        if not all_finite(gradient):
            return b
        row = coefficients[0 if one_row else b]
        update(state, gradient, row, seed, chain, first_repeat, version + b)  # type: ignore[no-untyped-call]
        if depth > 1:
            points[(first + b + 1) % depth][...] = point
        past_burn_in = version + b + 1 - burn_in
        if past_burn_in > 0 and past_burn_in % thin == 0:
            keep(draws, norms, temperatures, entry, state.position, gradient, momentum)
            entry += 1
    return indices.shape[0]
