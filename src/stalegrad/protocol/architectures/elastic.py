"""Elastic averaging: a chain at every worker, tied to a centre (Zhang, Choromanska and LeCun, NeurIPS 2015)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any, Literal

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad._internal.validation import one_of, real_number, whole_number
from stalegrad.kernels.base import Address, Kernel
from stalegrad.kernels.noise import TILE, Stream, fill_tile, scratch
from stalegrad.kernels.push import Push
from stalegrad.potentials.base import Potential
from stalegrad.protocol.architectures.base import ALL, Architecture, Cost, Place, RunShape, constant_step
from stalegrad.protocol.architectures.local_steps import LocalSteps
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning

_CENTRE = int(Stream.CENTRE)


@dataclass(frozen=True)
class Elastic(Architecture):
    r"""W chains x_1 … x_W, one a worker, each tied to a common centre c by a spring of strength ρ.

    It samples the joint law

    .. math:: π(x_1, …, x_W, c) ∝ \prod_w \exp\bigl(−U(x_w) − \tfrac ρ2 |x_w − c|^2\bigr)

    and nothing else. The server keeps all of it. Worker w is sent x_w and answers with a gradient there; only its
    answers move x_w, so that its gradient is never stale, however slow it is. When it comes, x_w makes a step of the
    sampler with the gradient g + ρ (x_w − c), and the centre is refreshed given all x,

    .. math:: c ← x̄ + (1−α)(c − x̄) + \sqrt{(1 − (1−α)^2)/(Wρ)}\;ζ,

    which leaves its conditional law N(x̄, I/(Wρ)) as it is for every α, after any worker's step. So speeds and order of
    the workers do not matter for the law: with small h it is π.

    What that means for the posterior, where U is quadratic with curvature λ (in every eigendirection): all means are
    the posterior's, and

    .. math::
        \operatorname{Var} x_w = \frac1λ \cdot \frac{λ + ρ/W}{λ + ρ}, \qquad
        \operatorname{Var} c = \frac1W \Bigl(\frac1λ + \frac1ρ\Bigr).

    So the worker chains have the posterior's law only as ρ → 0, where they are independent chains, and with W = 1. With
    ``divide=True`` every worker has U/W in place of U. Then

    .. math::
        \operatorname{Var} x_w = \frac1λ \cdot \frac{λ + ρ}{λ/W + ρ}, \qquad
        \operatorname{Var} c = \frac1λ + \frac1{Wρ},

    and worker chains and centre have the posterior's law as ρ → ∞. All variances are multiplied by the temperature.

    With n_push > 1 workers make so many steps of SGLD on U before they answer with the change of x_w, and the server
    then lets the spring act for as long, x_w ← c + e^{−ρ n h} (x_w − c): a splitting whose error is of order n h, for
    fewer messages. Otherwise any sampler will do, each x_w with auxiliary variables of its own.

    Args:
        rho: ρ.
        alpha: α in (0, 1], how much of the centre is renewed at each update; 1 draws it afresh.
        divide: share U among the workers.
        draws: what the run keeps, the x_w that was just moved (``"workers"``) or the ``"centre"``.
        n_push: n, local steps between messages.

    >>> import stalegrad as sg
    >>> model, settings = sg.testing.small_model(), {"workers": 4, "engine": "inline", "progress": False}
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, architecture=Elastic(rho=1.0), **settings)
    >>> run.draws.shape
    (1, 100, 5)
    """

    rho: float
    alpha: float = 1.0
    divide: bool = False
    draws: Literal["workers", "centre"] = "workers"
    n_push: int = 1

    fixed_workers = True

    def __post_init__(self) -> None:
        real_number("rho", self.rho, above=0)
        if not 0 < real_number("alpha", self.alpha) <= 1:
            raise ArgumentError("alpha", self.alpha, "is out of range", "Give α in (0, 1]; 1 draws the centre afresh.")
        one_of("draws", self.draws, ("workers", "centre"))
        whole_number("n_push", self.n_push, least=1)

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Every worker must be there, and nothing of it may be dropped."""
        if run.max_staleness is not None:
            problem = "does not go with elastic averaging, where no gradient is stale"
            raise ArgumentError("max_staleness", run.max_staleness, problem, "Leave it out.")
        if not even:
            problem = "needs as many workers at every server, from the start to the end"
            remedy = "Start a multiple of the number of servers as workers, none of which come and go."
            raise ArgumentError("architecture", self, problem, remedy)
        for kernel in kernels:
            constant_step(kernel)
            if self.n_push > 1 and not kernel.is_plain_langevin:
                problem = f"does not go with {type(kernel).__name__}: its local steps are those of SGLD"
                raise ArgumentError("n_push", self.n_push, problem, "Use SGLD, or n_push=1.")

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """The model itself for n_push = 1, else one that answers with the change of n_push local steps."""
        return potential if self.n_push == 1 else LocalSteps(potential, kernels, self.n_push, self._share(workers))

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """All x_w and the centre."""
        if self.n_push == 1:
            return ElasticChain(kernel, *place, elastic=self, workers=workers, share=self._share(workers))
        push = Push(step_size=kernel.step_size, temperature=kernel.temperature)
        return ElasticChain(
            push, *place, elastic=self, workers=workers, keep=exp(-self.rho * self.n_push * constant_step(kernel))
        )

    def cost(self, chains: Sequence[ChainTrace], *, seed: int = 0, thinning: Thinning = ALL) -> Cost:
        """Every answer of n gradients needs a point and is sent back."""
        answers = sum(len(chain) for chain in chains)
        return Cost(self.n_push * answers, 2 * answers)

    def _share(self, workers: int) -> float:
        return 1 / workers if self.divide else 1.0


class ElasticChain(Chain):
    """The chains of all workers and their centre.

    Args:
        *place, **named: as for :class:`Chain`; all chains start at ``position``.
        elastic: the coupling.
        workers: W.
        share: of U that each worker has.
        keep: what the spring leaves of x_w − c after an answer, where answers are changes; None where they are
            gradients.
    """

    per_worker_points = True
    needs_all = True

    def __init__(
        self, *place: Any, elastic: Elastic, workers: int, share: float = 1.0, keep: float | None = None, **named: Any
    ) -> None:
        super().__init__(*place, **named)
        self._elastic, self._share, self._keep = elastic, share, keep
        start, number = self.position, self.position.dtype.type
        addresses = [
            Address.of_worker(self.seed, self.chain, worker, 0, self.first_repeat) for worker in range(workers)
        ]
        states = [self.kernel.start(start.copy(), address) for address in addresses]
        self._names, kind = self.state._fields, type(self.state)
        self._stacks = [None if parts[0] is None else np.stack(parts) for parts in zip(*states, strict=True)]
        self._states = [
            kind(*(None if stack is None else stack[worker] for stack in self._stacks)) for worker in range(workers)
        ]
        self._centre, self._force = start.copy(), np.empty_like(start)
        left = 1 - elastic.alpha
        spread = sqrt((1 - left**2) * self.kernel.temperature / (workers * elastic.rho))
        self._refreshing = number(left), number(spread)
        self._pulling = number(share), number(elastic.rho), number(1.0 if keep is None else keep)
        self._show(0)

    def point_for(self, worker: int, current: Array) -> Array:
        """x_w, or where its sampler wants the gradient."""
        return self.kernel.point(self._states[worker])

    def advance(self, gradient: Array, step_size: float | None = None, worker: int = 0) -> float:
        """Move x_w, then the centre."""
        h = self._choose_coefficients(step_size)
        state, address, split = self._states[worker], self._address(), self._split
        share, rho, keep = self._pulling
        force, point, centre, positions = self._force, self.kernel.point(state), self._centre, self._stacks[0]
        n = centre.shape[1]
        if self._keep is None:
            split(lambda start, stop: _pull(gradient, point, centre, share, rho, force, start, stop), n)
            self.kernel.advance(state, force, self._coefficients, address, split)
        else:
            self.kernel.advance(state, gradient, self._coefficients, address, split)
            split(lambda start, stop: _contract(point, centre, keep, start, stop), n)
        seed, chain, update, first = address
        left, spread = self._refreshing
        split(lambda start, stop: _refresh(centre, positions, left, spread, seed, chain, first, update, start, stop), n)
        self.version += 1
        self._show(worker)
        return h

    def _show(self, worker: int) -> None:
        """Let those who look at the chain see the one that has just moved."""
        self.state = self._states[worker]
        self.point = self.kernel.point(self.state)
        self.position = self._centre if self._elastic.draws == "centre" else self.state[0]

    def _arrays(self) -> dict[str, Array]:
        stacks = {name: stack for name, stack in zip(self._names, self._stacks, strict=True) if stack is not None}
        return {**stacks, "centre": self._centre}

    def _arguments(self) -> dict[str, Any]:
        own = {"elastic": self._elastic, "workers": len(self._states), "share": self._share, "keep": self._keep}
        return {**super()._arguments(), **own}


@compiled
def _pull(g, point, centre, share, rho, out, start, stop):  # type: ignore[no-untyped-def]
    """out ← share · g + ρ (x − c)."""
    for r in range(g.shape[0]):
        d, x, c, o = g[r, start:stop], point[r, start:stop], centre[r, start:stop], out[r, start:stop]
        for i in range(d.shape[0]):
            o[i] = share * d[i] + rho * (x[i] - c[i])


@compiled
def _contract(position, centre, keep, start, stop):  # type: ignore[no-untyped-def]
    """x ← c + keep (x − c)."""
    for r in range(position.shape[0]):
        x, c = position[r, start:stop], centre[r, start:stop]
        for i in range(x.shape[0]):
            x[i] = c[i] + keep * (x[i] - c[i])


@compiled
def _refresh(  # type: ignore[no-untyped-def]
    centre, positions, left, spread, seed, chain, first_repeat, update, start, stop
):
    """c ← x̄ + left (c − x̄) + spread ζ."""
    z, words = scratch(centre)
    mean = np.empty_like(z)
    share = centre.dtype.type(1.0 / positions.shape[0])
    for r in range(centre.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            if spread != 0:
                fill_tile(z, words, seed, _CENTRE, chain, first_repeat + r, update, low // TILE, n)
            mean[:] = 0
            for w in range(positions.shape[0]):
                x = positions[w, r, low : low + n]
                for i in range(n):
                    mean[i] += x[i]
            c = centre[r, low : low + n]
            for i in range(n):
                average = share * mean[i]
                c[i] = average + left * (c[i] - average) + spread * z[i]
