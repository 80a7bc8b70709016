"""What sampling gives: draws, their trace, and averages over them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad.engines import Event, Timing
from stalegrad.errors import ArgumentError, StalegradError
from stalegrad.estimates import Estimate, estimate, running_average
from stalegrad.recorder import DrawStats, Thinning
from stalegrad.trace import ChainTrace, Trace
from stalegrad.types import Array, IntArray

if TYPE_CHECKING:
    from stalegrad.plots import Picture

TestFunction = Callable[[Array], Any]


def unnamed(draws: Array) -> dict[str, Array]:
    """All parameters as one variable, for want of better names."""
    return {"theta": draws}


@dataclass(frozen=True, eq=False)
class Run:
    """What sampling gives.

    Args:
        draws: (chain, draw, parameter), or (repetition, chain, draw, parameter) when ``repeats`` was given.
            Where a run ended early these are the draws that all chains have; ``chain_draws`` has all of each.
        trace: all that is needed to repeat the run bit for bit.
        stats: what was noted beside each draw, such as the norm of its gradient, in arrays (chain, draw).
        chain_draws: the draws of each chain, also those that the shortest chain does not have.
        events: what went wrong with workers, in order.
        timing: where the time went; None if it was virtual.
        variables: turns draws (…, n) into named variables, see :meth:`Potential.variables`.
        interrupted: whether it was stopped by Ctrl-C or SIGTERM before its end.
    """

    draws: Array
    trace: Trace
    stats: DrawStats
    chain_draws: tuple[Array, ...] = ()
    events: tuple[Event, ...] = ()
    timing: Timing | None = None
    variables: Callable[[Array], dict[str, Array]] = unnamed
    interrupted: bool = False

    @property
    def staleness(self) -> tuple[IntArray, ...]:
        """τ_l of every gradient that reached each chain, accepted or dropped."""
        return tuple(chain.staleness for chain in self.trace.chains)

    @property
    def accepted(self) -> tuple[Array, ...]:
        """Whether each of those gradients updated its chain."""
        return tuple(chain.accepted for chain in self.trace.chains)

    @property
    def step_sizes(self) -> Array:
        """h of the update behind each draw, (chain, draw): the weights of averages."""
        return np.stack([h[self._kept] for h in map(_steps, self.trace.chains)])

    def evaluate(self, phi: TestFunction, *, batched: bool = False) -> Array:
        """φ of every draw, (…, chain, draw) and then the shape of φ's value.

        Args:
            phi: the test function of one draw θ, or of an array (draw, parameter) of them if ``batched``.
            batched: whether phi takes many draws at once, which is faster.
        """
        rows = self.draws.reshape(-1, self.draws.shape[-1])
        values = np.asarray(phi(rows)) if batched else np.array([phi(row) for row in rows])
        if values.shape[:1] != rows.shape[:1]:
            raise ArgumentError(
                "phi", phi, f"gave shape {values.shape} for {len(rows)} draws", "A batched phi returns one row a draw."
            )
        return values.reshape(self.draws.shape[:-1] + values.shape[1:])

    def estimate(self, phi: TestFunction, *, batched: bool = False) -> Estimate:
        """φ̂ = Σ_s (T_s/T) φ̂_s, where φ̂_s = Σ_l h_l φ(θ_l) / Σ_l h_l, with its Monte Carlo standard error.

        With ``repeats`` the estimate of every repetition is given.
        """
        values = self.evaluate(phi, batched=batched)
        if self._repeated:
            values = np.moveaxis(values, 0, 2)  # repetitions become part of φ's shape
        return estimate(values, step_sizes=self.step_sizes)

    def running(self, phi: TestFunction, *, batched: bool = False) -> Array:
        """φ̂_s at every draw of every chain: the estimate as the run went on."""
        values = self.evaluate(phi, batched=batched)
        axis = 2 if self._repeated else 1
        weights = self.step_sizes.reshape(self.step_sizes.shape + (1,) * (values.ndim - axis - 1))
        return running_average(values, np.broadcast_to(weights, values.shape), axis=axis)

    def plot(
        self, functions: Mapping[str, TestFunction | Array] | None = None, parameters: Sequence[str] | None = None
    ) -> "Picture":
        """A matplotlib figure of traces, running averages with errors, autocorrelations, staleness and throughput.

        Notebooks show it; elsewhere ``run.plot().savefig("run.png")``. :mod:`stalegrad.plots` has every panel alone.

        Args:
            functions: test functions of one draw by name, or their values as :meth:`evaluate` gives them.
            parameters: names such as ``"weights"`` or ``"weights[0, 3]"``. Without either, the parameters are shown
                that mix worst.
        """
        from stalegrad.plots import choose, overview  # matplotlib takes a while to import

        return overview(self, choose(self, functions, parameters).quantities)

    @property
    def _kept(self) -> slice:
        """Which updates became the draws that all chains have."""
        return Thinning(self.trace.burn_in, self.trace.thin).updates(min(chain.steps for chain in self.trace.chains))

    @property
    def _repeated(self) -> bool:
        return self.draws.ndim == 4

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.draws.shape))
        tau = np.concatenate(self.staleness)
        dropped = 1 - np.concatenate(self.accepted).mean()
        return f"Run(draws {shape}, mean staleness {tau.mean():.2f}, max {tau.max()}, dropped {dropped:.1%})"


class RunFailed(StalegradError, RuntimeError):
    """A run that could not go on. ``run`` holds everything sampled until then."""

    def __init__(self, reason: str, run: Run) -> None:
        super().__init__(f"{reason}. All {run.draws.shape[-2]:,} draws so far are in the exception's .run")
        self.run = run


def _steps(chain: ChainTrace) -> Array:
    """The step sizes of the accepted updates."""
    assert chain.step_size is not None, "an executed trace has step sizes"
    used: Array = chain.step_size[np.asarray(chain.accepted, bool)]
    return used
