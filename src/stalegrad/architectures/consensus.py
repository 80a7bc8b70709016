"""Consensus Monte Carlo: every chain has a shard of the data to itself, until the end (Scott et al., 2016)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from stalegrad.architectures.base import Architecture, Cost, Setting
from stalegrad.architectures.own_shards import shards_of
from stalegrad.draws import Thinning
from stalegrad.errors import ArgumentError
from stalegrad.kernels.base import Kernel
from stalegrad.potentials.base import Potential, Whose
from stalegrad.potentials.shards import given_sizes, shard_sizes
from stalegrad.potentials.wrapper import Wrapper
from stalegrad.trace import Trace
from stalegrad.types import Array


@dataclass(frozen=True)
class Consensus(Architecture):
    """Chain s samples the posterior of shard s, with the prior to the power N_s/N; ``run.consensus()`` combines them.

    The subset posteriors p(θ)^{N_s/N} Π_{i ∈ shard s} p(d_i | θ) have the posterior as their product. Their potentials
    have the gradient (N_s/N) g̃, where g̃ is taken on a minibatch of shard s: g̃ scales J data up to N and has the whole
    prior. Nothing is exchanged while the chains run, so there is no cheaper way to use many machines. The price is in
    the end: see :func:`stalegrad.estimates.consensus_draws`.

    ``run.draws`` are those of the subset posteriors, chain by chain.

    Args:
        shards: sizes of the shards, one a server; None for as equal as can be.
    """

    shards: Sequence[int] | None = None

    one_law = False

    def __post_init__(self) -> None:
        if self.shards is not None:
            object.__setattr__(self, "shards", given_sizes(self.shards))

    def refuse(self, setting: Setting) -> None:
        """Shards that do not fit the data or the servers."""
        if setting.servers < 2:
            problem = "leaves nobody to agree with"
            raise ArgumentError("servers", setting.servers, problem, "Give as many servers as shards, two or more.")
        self.work(setting.potential, setting.kernels, setting.workers)

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """Each chain with its shard."""
        sizes = shard_sizes(self.shards or True, potential.n_data, len(kernels))
        assert sizes is not None
        return SubsetPosteriors(potential, sizes)

    def cost(self, trace: Trace) -> Cost:
        """The draws that are kept travel once."""
        thinning = Thinning(trace.burn_in, trace.thin)
        return Cost(
            sum(len(chain) for chain in trace.chains), sum(thinning.draws(chain.steps) for chain in trace.chains)
        )


class SubsetPosteriors(Wrapper):
    """A model whose chains have a shard of the data each.

    Args:
        potential: the model.
        sizes: N_s of every chain.
    """

    addressed: ClassVar[bool] = True

    def __init__(self, potential: Potential, sizes: tuple[int, ...]) -> None:
        super().__init__(potential)
        self._shards = shards_of(potential, sizes)
        self._shares = [potential.dtype.type(size / potential.n_data) for size in sizes]

    def answer(self, points: Array, whose: Whose, out: Array) -> None:
        """(N_s/N) g̃ on a minibatch of the chain's shard."""
        self.potential.gradients(points, self._shards.draw_from(whose.chain, whose, len(points)), out)
        out *= self._shares[whose.chain]
