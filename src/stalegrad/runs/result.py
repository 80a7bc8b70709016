"""What sampling gives: draws, their trace, and averages over them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import whole_number
from stalegrad.analysis.diagnostics import (
    LEAST_DRAWS,
    Findings,
    SteinDiscrepancy,
    diagnose,
    kernel_stein_discrepancy,
)
from stalegrad.analysis.diagnostics.evidence import described_kernels
from stalegrad.analysis.estimates import (
    Estimate,
    PredictiveAverage,
    PredictiveNormal,
    average_predictions,
    consensus_draws,
    estimate,
    running_average,
)
from stalegrad.analysis.estimates.arrival import arrived
from stalegrad.analysis.estimates.draw_blocks import draw_blocks
from stalegrad.engines import Event, Timing
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.draws import DrawStats
from stalegrad.protocol.staleness_counts import StalenessCounts
from stalegrad.protocol.trace import Trace
from stalegrad.runs.averages import Averaged
from stalegrad.runs.export import LogLikelihood, inference_data
from stalegrad.runs.warmup.record import WarmupRecord

if TYPE_CHECKING:
    from stalegrad.analysis.plots import Picture
    from stalegrad.runs.export import DataTree

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
        store: the folder that holds the run; ``draws`` are then read from there, slice by slice.
        variables: turns draws (…, n) into named variables, see :meth:`Potential.variables`.
        interrupted: whether it was stopped by Ctrl-C or SIGTERM before its end.
        averages: of the functions that were averaged while draws came, by name: a
            :class:`~stalegrad.analysis.estimates.PredictiveAverage`, a
            :class:`~stalegrad.analysis.estimates.PredictiveNormal` or an :class:`~stalegrad.Estimate`.

    >>> import stalegrad as sg
    >>> model = sg.testing.small_model()
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, workers=3, engine="inline", progress=False)
    >>> run
    Run(draws 1 × 100 × 5, mean staleness 1.97, max 2, dropped 0.0%)
    >>> run.draws.shape, run.staleness[0][:5].tolist()
    ((1, 100, 5), [0, 1, 2, 2, 2])
    """

    draws: Array
    trace: Trace
    stats: DrawStats
    chain_draws: tuple[Array, ...] = ()
    events: tuple[Event, ...] = ()
    timing: Timing | None = None
    variables: Callable[[Array], dict[str, Array]] = unnamed
    store: Path | None = None
    interrupted: bool = False
    averages: Mapping[str, Averaged] = field(default_factory=dict)

    @property
    def warmup(self) -> WarmupRecord | None:
        """What the warm-up has found and chosen; ``print`` it to read it. None for a run without one."""
        found = None if self.trace.record is None else self.trace.record.warmup
        return None if found is None else WarmupRecord.from_table(found)

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
        return np.stack([chain.steps_of(self._kept) for chain in self.trace.chains])

    def evaluate(self, phi: TestFunction, *, batched: bool = False) -> Array:
        """φ of every draw, (…, chain, draw) and then the shape of φ's value.

        Args:
            phi: the test function of one draw θ, or of an array (draw, parameter) of them if ``batched``.
            batched: whether phi takes many draws at once, which is faster.
        """
        if self._repeated:
            values = _values(phi, self.draws.reshape(-1, self.draws.shape[-1]), batched)
            return values.reshape(self.draws.shape[:-1] + values.shape[1:])
        return np.concatenate([_by_chain(phi, block, batched) for _, block in draw_blocks(self.draws)], axis=1)

    def estimate(self, phi: TestFunction, *, batched: bool = False) -> Estimate:
        """φ̂ = Σ_s (T_s/T) φ̂_s, where φ̂_s = Σ_l h_l φ(θ_l) / Σ_l h_l, with its Monte Carlo standard error.

        Where a chain is still on its way (:func:`~stalegrad.analysis.estimates.arrival.travel`) there is none, NaN,
        printed as “± ?”: the spread of such a chain is the way it has come. With ``repeats`` the estimate of every
        repetition is given.
        """
        values = self.evaluate(phi, batched=batched)
        if self._repeated:
            values = np.moveaxis(values, 0, 2)  # repetitions become part of φ's shape
        average = estimate(values, step_sizes=self.step_sizes)
        return replace(average, standard_error=np.where(arrived(values), average.standard_error, np.nan)[()])

    def running(self, phi: TestFunction, *, batched: bool = False) -> Array:
        """φ̂_s at every draw of every chain: the estimate as the run went on."""
        values = self.evaluate(phi, batched=batched)
        axis = 2 if self._repeated else 1
        weights = self.step_sizes.reshape(self.step_sizes.shape + (1,) * (values.ndim - axis - 1))
        return running_average(values, np.broadcast_to(weights, values.shape), axis=axis)

    @overload
    def predict(
        self, predict: Callable[[Array], Array], *, batch: int | None = None, thin: int = 1
    ) -> PredictiveAverage: ...
    @overload
    def predict(
        self, predict: Callable[[Array], tuple[Any, Any]], *, batch: int | None = None, thin: int = 1
    ) -> PredictiveNormal: ...
    def predict(
        self, predict: Callable[[Array], Any], *, batch: int | None = None, thin: int = 1
    ) -> PredictiveAverage | PredictiveNormal:
        """The posterior predictive distribution Σ_l h_l p(y | x, θ_l) / Σ_l h_l over the draws of all chains.

        Draws are read a few at a time, predicted with and forgotten: memory does not grow with their number, neither
        that of the predictions nor, where the draws are on disk, their own.

        Args:
            predict: from a draw θ, (n,), to what it predicts for each row of some data: the probabilities of the
                classes, (rows, classes), or for numbers a pair (mean, variance of the noise). ``model.predictive(X)``
                is such a function: of the built-in models, and of those from torch, JAX and NumPyro.
            batch: let predict take up to so many draws at once, (draw, n), and return predictions (draw, rows, …).
            thin: predict with every thin-th draw alone.

        Returns:
            For classes a :class:`~stalegrad.analysis.estimates.PredictiveAverage`, whose ``scores(y)`` are accuracy,
            log-likelihood, Brier score and calibration error. For numbers a
            :class:`~stalegrad.analysis.estimates.PredictiveNormal`, with error, log density, coverage and CRPS.
        """
        self._refuse_repeated("predict")
        return average_predictions(self.draws, self.step_sizes, predict, batch=batch, thin=thin)

    def consensus(self, *, weights: str = "full") -> Array:
        """Draws (draw, parameter) of the posterior from those of subset posteriors, of a run of ``sg.Consensus``.

        Exact for normal subset posteriors and wrong for others, see
        :func:`stalegrad.analysis.estimates.consensus_draws`.

        Args:
            weights: by ``"full"`` covariances of the chains, or by ``"diagonal"`` ones.
        """
        if self.trace.architecture.one_law:
            raise ArgumentError(
                "run", self, "has chains that all sample the posterior: there is nothing to combine",
                "Use run.draws, or sample with architecture=sg.Consensus().",
            )  # fmt: skip
        return consensus_draws(self.draws, weights=weights)

    def summary(self, parameters: Sequence[str] | None = None, *, most: int = 1_000) -> Any:
        """What the draws say of every parameter: a table by name, to print or to work with.

        Its columns are ``mean``, weighed by step sizes as in :meth:`estimate`; ``sd``, the standard deviation of the
        draws; ``mcse``, the Monte Carlo standard error of the mean; ``ess``, how many independent draws would have that
        error; and ``rhat``, which is above 1.01 where chains disagree. ``mcse`` and ``ess`` are NaN of a parameter
        whose chains have not arrived yet, and ``rhat`` is NaN of a single chain.

        Args:
            parameters: names such as ``"weights"`` or ``"weights[0, 3]"``; None for all.
            most: of a model with more parameters, so many are shown, evenly spaced, with a warning.

        Returns:
            A :class:`pandas.DataFrame` where pandas is installed, else a table that prints alike, with columns as
            dictionaries: ``run.summary()["mean"]["theta[0]"]`` works on both.
        """
        from stalegrad.runs.parameter_table import parameter_table

        self._refuse_repeated("summary")
        if self.draws.shape[1] < LEAST_DRAWS:
            problem = f"has {self.draws.shape[1]} draws of each chain"
            raise ArgumentError("run", self, problem, f"A summary needs {LEAST_DRAWS}: sample more.")
        return parameter_table(self, parameters, most)

    def to_arviz(
        self,
        *,
        variables: str | Iterable[str] | None = None,
        thin: int = 1,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
        log_likelihood: LogLikelihood | None = None,
    ) -> "DataTree":
        """The run as ArviZ reads it, for its summaries, diagnostics and plots: an :class:`xarray.DataTree`.

        The group ``posterior`` has the model's variables, (chain, draw, …), under their names, except that a
        slash becomes a dot, and ``chain`` and ``draw`` get an underscore. The group ``sample_stats`` has of every draw

        - ``step_size``, ``staleness`` and ``worker`` of the gradient that made it, and the ``time`` in seconds;
        - ``accepted``, the share of the gradients that arrived since the draw before it which were not dropped;
        - ``gradient_norm``, and ``kinetic_temperature`` where there is momentum (NaN in chains without).

        Attributes say how the run was made; ``max_staleness`` is missing if there was no bound, and ``kernels`` is
        JSON. ArviZ counts all draws alike. Where step sizes differ, the averages of :meth:`estimate` are those of
        ``tree.posterior.dataset.weighted(tree.sample_stats.step_size)``.

        The variables are copied, in their own precision: chains × draws × entries numbers. Of a large model take some
        ``variables`` or ``thin``; draws on disk are read a block at a time. It needs the extra ``arviz``.

        Args:
            variables: names of those to convert; None for all.
            thin: convert every thin-th draw, as if the run had kept no others.
            dims: names of axes after chain and draw, such as ``{"theta": ["feature"]}``.
            coords: labels along named axes, such as ``{"feature": ["age", "income"]}``.
            log_likelihood: the potential, of which :meth:`Potential.log_likelihood` is asked, or a function from one
                draw θ to log p(d_i | θ) of every datum, (N,). Its values are the group ``log_likelihood``, (chain,
                draw, datum) numbers, from which ``arviz_stats.loo`` estimates how well each datum is predicted from
                the others.
        """
        self._refuse_repeated("to_arviz")
        return inference_data(
            self.draws, self.trace, self.stats, self.variables, variables=variables, thin=thin, dims=dims,
            coords=coords, log_likelihood=log_likelihood,
        )  # fmt: skip

    def repetition(self, number: int) -> "Run":
        """One of the repetitions that ``repeats`` asked for, counted from 0, as a run of its own."""
        if not self._repeated:
            raise ArgumentError("number", number, "is of a run without repeats", "Use the run itself.")
        r = whole_number("number", number, most=self.draws.shape[0] - 1)
        stats = DrawStats(*(column[r] for column in self.stats))
        return replace(self, draws=self.draws[r], stats=stats, chain_draws=tuple(each[r] for each in self.chain_draws))

    def diagnose(
        self,
        potential: Potential | None = None,
        kernel: Kernel | Sequence[Kernel] | None = None,
        functions: Mapping[str, TestFunction] | None = None,
        *,
        gradients: int | None = None,
        step_halving: bool = False,
    ) -> Findings:
        """How far to trust the run: a finding for everything that is wrong, and one recommendation for all of them.

        From the draws and the trace alone: chains that have not arrived, a start that is among the draws, chains that
        sit in different modes or disagree, too few effective draws, funnels, heavy tails, scales that differ too much,
        the kinetic temperature, and dropped gradients. With the potential also the configurational temperature, the
        step size and the staleness against the largest curvature, and gradient noise against the injected noise.

        ``findings.recommendation`` is a call whose numbers suit all findings, and is printed below them;
        ``sg.sample(potential, **findings.recommendation.arguments)`` makes it.

        Args:
            potential: the model.
            kernel: the sampler, or one per chain; by default what the trace says it was.
            functions: test functions of one draw, by name, such as ``{"p": model.predictive(X)}``. With any, and with
                a network, which says itself what it predicts, the run is judged by them; parameters are reported only.
            gradients: how many minibatch gradients may be computed, 64 at least; by default a hundredth of the run's
                own, between 64 and 1,024.
            step_halving: also run everything again at half the step size, inline, and compare averages of the
                functions, or of squared deviations without any. Needs the potential.
        """
        self._refuse_repeated("diagnose")
        return diagnose(
            self.draws, self.trace, self.step_sizes, self.stats.kinetic_temperature, potential=potential, kernel=kernel,
            functions=functions, gradients=gradients, step_halving=step_halving,
        )  # fmt: skip

    def stein_discrepancy(self, potential: Potential, **options: Any) -> SteinDiscrepancy:
        """The kernel Stein discrepancy between draws and exact posterior, where full gradients are affordable.

        Options are those of :func:`stalegrad.analysis.diagnostics.kernel_stein_discrepancy`. The temperature is by
        default that of the kernel, and draws count by their step sizes.
        """
        self._refuse_repeated("stein_discrepancy")
        kernels = described_kernels(self.trace, self.step_sizes.mean(axis=1))
        temperature = kernels[0].temperature if kernels else 1.0
        defaults = {"step_sizes": self.step_sizes, "temperature": temperature}
        return kernel_stein_discrepancy(self.draws, potential, **{**defaults, **options})

    def plot(
        self, functions: Mapping[str, TestFunction | Array] | None = None, parameters: Sequence[str] | None = None
    ) -> "Picture":
        """A matplotlib figure of traces, running averages with errors, autocorrelations, staleness and throughput.

        Notebooks show it; elsewhere ``run.plot().savefig("run.png")``. :mod:`stalegrad.analysis.plots` has every panel
        alone.

        Args:
            functions: test functions of one draw by name, or their values as :meth:`evaluate` gives them.
            parameters: names such as ``"weights"`` or ``"weights[0, 3]"``. Without either, the parameters are shown
                that mix worst.
        """
        from stalegrad.analysis.plots import choose, overview  # matplotlib takes a while to import

        return overview(self, choose(self, functions, parameters).quantities)

    @property
    def _kept(self) -> IntArray:
        """Which updates became the draws that all chains have."""
        updates = self.trace.thinning.updates(min(chain.steps for chain in self.trace.chains))
        record = self.trace.record
        return updates if record is None else updates[record.settings.kept(len(updates))]

    @property
    def _repeated(self) -> bool:
        return self.draws.ndim == 4

    def _refuse_repeated(self, what: str) -> None:
        if self._repeated:
            problem, remedy = f"holds {self.draws.shape[0]} repetitions", f"Take one: run.repetition(0).{what}(...)."
            raise ArgumentError("run", self, problem, remedy)

    def _repr_html_(self) -> str:
        """What notebooks show: draws, staleness and faults, and what some parameters say."""
        from stalegrad.runs.observers.values import summary

        draws = f"draws of a chain, in {self.draws.shape[0]} repetitions" if self._repeated else "draws of a chain"
        card = self.trace.card("Run", (f"{self.draws.shape[-2]:,}", draws), (f"{self.draws.shape[-1]:,}", "parameters"))
        card.facts = [*card.facts, *([(f"{len(self.events):,}", "faults of workers")] if self.events else [])]
        card.notes = [("warning", "Interrupted before its end.")] if self.interrupted else []
        record = self.trace.record
        found = [] if self._repeated or record is None else summary(self.draws, record.model.layout)
        if found:
            card.headings = ("parameter", "mean", "Monte Carlo error", "R-hat", "effective draws")
            card.rows = [
                (p.name, f"{p.value:.4g}", _known(p.error, ".2g"), _known(p.rhat, ".3f"), _known(p.ess, ",.0f"))
                for p in found
            ]
            said = "run.diagnose(potential) says how far to trust it."
            part = f"{len(found)} of {self.draws.shape[-1]:,} parameters, from all over θ. "
            card.notes = [*card.notes, ("soft", part * (len(found) < self.draws.shape[-1]) + said)]
        return card.html()

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.draws.shape))
        counts = StalenessCounts.together(chain.staleness_counts for chain in self.trace.chains)
        dropped = 1 - counts.accepted / max(counts.arrived, 1)
        older = f" (up to {int(counts.tau.max())} old)" if dropped else ""
        text = f"mean staleness {counts.mean:.2f}, max {counts.largest}, dropped {dropped:.1%}{older}"
        return f"Run(draws {shape}, {text})"


def _known(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "–"


def _by_chain(phi: TestFunction, block: Array, batched: bool) -> Array:
    """φ of a block (chain, draw, parameter), (chain, draw, …)."""
    values = _values(phi, block.reshape(-1, block.shape[-1]), batched)
    return values.reshape(block.shape[:2] + values.shape[1:])


def _values(phi: TestFunction, rows: Array, batched: bool) -> Array:
    values = np.asarray(phi(rows)) if batched else np.array([phi(row) for row in rows])
    if values.shape[:1] != rows.shape[:1]:
        raise ArgumentError(
            "phi", phi, f"gave shape {values.shape} for {len(rows)} draws", "A batched phi returns one row a draw."
        )
    return values
