"""What becomes of a gradient once it is an update's turn, for compiled loops: the compiled form of ``Chain.apply``.

The executor's blocks (:mod:`stalegrad.protocol.block`) and the threads that update a chain themselves (the folder
``engines/threads``) both call this, so that what an update is stands here once.
"""

from typing import Any, NamedTuple

from stalegrad._internal.jit import lean
from stalegrad._internal.types import Array
from stalegrad.kernels.fused import has_compiled_update, loop_of, update
from stalegrad.potentials.base import Potential
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.draws import keep, sampled
from stalegrad.protocol.foresight import look_ahead, tame
from stalegrad.protocol.linear_part import LinearBound, add_linear


def compiles(potential: Potential, chain: Chain, record: Record) -> bool:
    """Whether model, kernel, chain and recorder are such that a compiled loop can do without Python."""
    return potential.bound is not None and not potential.addressed and chain_compiles(chain, record)


def chain_compiles(chain: Chain, record: Record) -> bool:
    """Whether that is so of kernel, chain and recorder: then Python is needed for gradients at most."""
    if not chain.runs_in_blocks or chain.wire.rounds or not has_compiled_update(chain.state):
        return False
    return record.window(chain.version, 1) is not None


class CompiledChain(NamedTuple):
    """What an update needs of a chain: see :func:`make_update`.

    ``elementwise`` if an update of a coordinate needs nothing of the other ones: :func:`make_section` can make it.
    """

    state: Any
    momentum: Any
    point: Array
    sent: Array
    linear: Any
    key: int
    chain: int
    first_repeat: int
    elementwise: bool

    @classmethod
    def of(cls, chain: Chain) -> "CompiledChain":
        """That of a chain that runs in compiled loops."""
        linear, _ = chain.foresight_rows(1)
        momentum = chain.kernel.momentum(chain.state)
        address = chain.key, chain.chain, chain.first_repeat
        mixes = linear is not None and (linear.rows.size or linear.dense.size)
        elementwise = loop_of(chain.state).row is None and not mixes
        return cls(chain.state, momentum, chain.present_point, chain.point, linear, *address, elementwise)


@lean
def make_update(  # type: ignore[no-untyped-def]
    state, momentum, point, sent, linear, ahead, gradient, coefficients, seed, chain, first_repeat, number
):
    """Update number ``number`` of a chain, and the point that workers are sent after it.

    Args:
        state: the kernel's.
        momentum: of the state, or None.
        point: where the state wants its gradient, (R, n).
        sent: what workers are sent, (R, n): the same array, or another if they are sent ahead of it.
        linear: A, the curvature that the server owns, or None.
        ahead: α and c of α θ + c q, the point that is sent after the update, c = 0 if it is ``point``; and s of the
            tamed gradient, 0 if it is not.
        gradient: (R, n); afterwards it is as it was used, tamed and with Aθ.
        coefficients: of the kernel's formula.
        seed: of the run; with the next three it is the address of the noise.
        chain: the chain.
        first_repeat: number of the first repetition.
        number: of the update.
    """
    if ahead[2] != 0:
        tame(gradient, ahead[2])
    if linear is not None:
        add_linear(gradient, linear, point, 1)
    n = gradient.shape[1]
    update(state, gradient, coefficients, seed, chain, first_repeat, number, 0, n)  # type: ignore[no-untyped-call]
    if momentum is not None and ahead[1] != 0:
        look_ahead(sent, point, momentum, ahead[0], ahead[1])


@lean
def make_section(chain, ahead, gradient, coefficients, number, start, stop):  # type: ignore[no-untyped-def]
    """:func:`make_update` of coordinates from ``start``, a multiple of TILE, to before ``stop``, with the same bits.

    Args:
        chain: a :class:`CompiledChain` that is ``elementwise``.
        ahead: as there.
        gradient: as there, but tamed already.
        coefficients: as there.
        number: as there.
        start: of the first coordinate.
        stop: of the one after the last.
    """
    _add_diagonal(gradient, chain.linear, chain.point, start, stop)
    update(  # type: ignore[no-untyped-call]
        chain.state, gradient, coefficients, chain.key, chain.chain, chain.first_repeat, number, start, stop
    )
    _look_ahead(chain.sent, chain.point, chain.momentum, ahead, start, stop)


@lean
def _add_diagonal(gradient, linear, point, start, stop):  # type: ignore[no-untyped-def]
    if linear is not None:  # of an argument, so that numba leaves the rest away where it is
        diagonal, rows, columns, dense = linear
        own = LinearBound(diagonal if diagonal.shape[0] == 1 else diagonal[start:stop], rows, columns, dense)
        add_linear(gradient[:, start:stop], own, point[:, start:stop], 1)


@lean
def _look_ahead(sent, point, momentum, ahead, start, stop):  # type: ignore[no-untyped-def]
    if momentum is not None and ahead[1] != 0:
        look_ahead(sent[:, start:stop], point[:, start:stop], momentum[:, start:stop], ahead[0], ahead[1])


@lean
def is_due(window, version):  # type: ignore[no-untyped-def]
    """Whether the draw that the update to ``version`` makes is kept."""
    burn_in, thin, cycle, explore, _, _, _, _ = window
    past_burn_in = version - burn_in
    if explore != 0:
        if (version - 1) % cycle < explore:
            return False
        past_burn_in = sampled(version, cycle, explore) - sampled(burn_in, cycle, explore)
    return past_burn_in > 0 and past_burn_in % thin == 0


@lean
def keep_if_due(window, entry, version, position, gradient, momentum):  # type: ignore[no-untyped-def]
    """Keep the draw that the update to ``version`` has made as entry ``entry``, if one is due; the next entry."""
    if not is_due(window, version):
        return entry
    _, _, _, _, draws, norms, temperatures, _ = window
    keep(draws, norms, temperatures, entry, position, gradient, momentum)
    return entry + 1
