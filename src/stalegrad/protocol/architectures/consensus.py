"""Consensus Monte Carlo: every chain has a shard of the data to itself, until the end (Scott et al., 2016)."""

from collections.abc import Sequence
from dataclasses import dataclass

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Kernel
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.shards import given_sizes, shard_sizes
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures.base import ALL, Architecture, Cost, RunShape
from stalegrad.protocol.architectures.chain_shards import shards_of
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning


@dataclass(frozen=True)
class Consensus(Architecture):
    """Chain s samples the posterior of shard s, with the prior to the power N_s/N; ``run.consensus()`` combines them.

    The subset posteriors p(θ)^{N_s/N} Π_{i ∈ shard s} p(d_i | θ) have the posterior as their product. Their potentials
    have the gradient (N_s/N) g̃, where g̃ is taken on a minibatch of shard s: g̃ scales J data up to N and has the whole
    prior. Nothing is exchanged while the chains run, so there is no cheaper way to use many machines. The price is in
    the end: see :func:`stalegrad.analysis.estimates.consensus_draws`.

    ``run.draws`` are those of the subset posteriors, chain by chain.

    Args:
        shards: sizes of the shards, one a server; None for as equal as can be.

    >>> import stalegrad as sg
    >>> model = sg.testing.small_model()
    >>> settings = {"servers": 2, "engine": "inline", "progress": False}
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, architecture=sg.Consensus(), **settings)
    >>> run.consensus().shape
    (100, 5)
    """

    shards: Sequence[int] | None = None

    one_law = False

    def __post_init__(self) -> None:
        if self.shards is not None:
            object.__setattr__(self, "shards", given_sizes(self.shards))

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Shards that do not fit the data or the servers."""
        if run.servers < 2:
            problem = "leaves no other chain to agree with"
            raise ArgumentError("servers", run.servers, problem, "Give as many servers as shards, two or more.")
        self.work(potential, kernels, run.workers)

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """Each chain with its shard."""
        return SubsetPosteriors(potential, shard_sizes(self.shards, potential.n_data, len(kernels)))

    def cost(self, chains: Sequence[ChainTrace], *, seed: int = 0, thinning: Thinning = ALL) -> Cost:
        """The draws that are kept travel once."""
        return Cost(sum(len(chain) for chain in chains), sum(thinning.draws(chain.steps) for chain in chains))


class SubsetPosteriors(Wrapper):
    """A model whose chains have a shard of the data each.

    Args:
        potential: the model.
        sizes: N_s of every chain.
    """

    addressed = True

    def __init__(self, potential: Potential, sizes: tuple[int, ...]) -> None:
        super().__init__(potential)
        self._shards = shards_of(potential, sizes)
        self._shares = [potential.dtype.type(size / potential.n_data) for size in sizes]

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """(N_s/N) g̃ on a minibatch of the chain's shard."""
        self.potential.gradients(points, self._shards.draw_from(address.chain, address, len(points)), out)
        out *= self._shares[address.chain]
