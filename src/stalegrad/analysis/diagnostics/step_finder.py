"""A short calibration that picks a step size: as large as a target for its bias allows, at the staleness there will be.

Three things are measured where the chain goes: how narrow the posterior is along its narrowest direction (its largest
curvature λ), how noisy minibatch gradients are along it, and what halving the step size changes there. The first two
give, through the theory of Gaussian targets (:mod:`stalegrad.analysis.diagnostics.kernel_theory`), a step size that has
the bias asked for; the third says whether the model agrees, and corrects it if not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError, GradientError
from stalegrad._internal.progress_bar import Report, progress_bar
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import finite_array, real_number, whole_number
from stalegrad.analysis.diagnostics.checks.stiffness import Lag
from stalegrad.analysis.diagnostics.coupled_halving import StepBias, coupled_halving
from stalegrad.analysis.diagnostics.curvature import largest_curvature, mean_curvature
from stalegrad.analysis.diagnostics.gradient_noise import gradient_noise
from stalegrad.analysis.diagnostics.kernel_theory import relaxation, variance_error
from stalegrad.analysis.diagnostics.probes import probe
from stalegrad.kernels import SAMPLERS, Kernel
from stalegrad.kernels.noise import MAX_CHAINS, MAX_SEED
from stalegrad.potentials import Potential
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.executor import execute
from stalegrad.protocol.trace import Trace
from stalegrad.theory import Direction

LEAST_GRADIENTS = 1000
_CHAIN = MAX_CHAINS - 1  # noise and minibatches of a calibration are nobody else's
_LEGS = 4  # of the way from the start to where the chain goes, each with a step size of its own
_LEG_SHARE = 0.05  # of all gradients, for one leg
_SURVEY_SHARE = 0.02  # likewise, for looking around before it
_WALKING = 1.0  # the error of the variance that is allowed before the last leg: far from the mode gradients are noisy
_MOST_SURVEY = 1024
_LEAST_SURVEY = 64
_ROUNDS = 3  # of halving
_FEWEST_ROWS, _MOST_ROWS = 8, 64  # pairs of chains: with fewer, their standard error says little
_SURE = 3.0  # standard errors
_MOST_LAGS = 65  # that theory is asked about
_MOST_BYTES = 1 << 28  # of points that the chains of a round remember
_BURN_IN, _KEPT = 2.5, 5.0  # relaxation times of the narrowest direction
_TRIES = 6  # at a leg whose chain overflows
_HALVINGS = 8  # of a factor 2
_MARGIN = 1.5  # a chain must be stable with so many times its step size


@dataclass(frozen=True)
class FoundStepSize:
    """A step size with the reasons for it; ``print`` it to read them.

    Args:
        kernel: the sampler, with the step size.
        target: the bias asked for, in posterior standard deviations of φ.
        bias: what halving says it is at this step size; NaN if that could not be afforded.
        bias_error: its standard error.
        expected_bias: what theory says it is, for a Gaussian of the same curvature and noise.
        staleness: τ on average.
        curvature: λ, the largest.
        noise: the variance of the minibatch gradient along that direction.
        rounds: step size, bias and standard error of each round of halving.
        gradients: how many minibatch gradients it took.
    """

    kernel: Kernel
    target: float
    bias: float
    bias_error: float
    expected_bias: float
    staleness: float
    curvature: float
    noise: float
    rounds: tuple[tuple[float, float, float], ...]
    gradients: int

    @property
    def step_size(self) -> float:
        """h of the kernel's first update."""
        return float(self.kernel.schedule(0))

    def __str__(self) -> str:
        name, h = type(self.kernel).__name__, self.step_size
        lines = [
            f"step_size={h:.3g} for {name}, found with {self.gradients:,} gradients",
            f"  measured: largest curvature λ = {self.curvature:.3g}, gradient variance along it {self.noise:.3g}",
            f"  expected: gradients {self.staleness:.3g} updates old, which on a Gaussian of that curvature and noise "
            f"puts E φ off by {self.expected_bias:.2g}",
            "  (φ is the squared deviation along the narrowest direction; biases are in its standard deviations)",
        ]
        lines += [f"  halving: at h = {tried:.3g} the bias is {b:.2g} ± {e:.1g}" for tried, b, e in self.rounds]
        if not self.rounds:
            lines.append("  halving: not enough gradients to tell; the step size is theory's")
        elif self.rounds[-1][0] != h:
            lines.append(f"  so that at h = {h:.3g} it should be {self.bias:.2g} ± {self.bias_error:.1g}")
        return "\n".join([*lines, f"  target: {self.target:g}"])


def find_step_size(
    potential: Potential,
    kernel: Kernel,
    *,
    workers: int = 1,
    staleness: float | Sequence[float] | Array | None = None,
    bias: float = 0.1,
    gradients: int = 20_000,
    initial: Any = None,
    seed: int = 0,
    progress: bool = True,
) -> FoundStepSize:
    """The largest step size whose bias is within a target, at a given staleness. The same arguments give the same h.

    The bias is that of E φ for φ the squared deviation along the direction where the posterior is narrowest, in
    posterior standard deviations of φ: 0.1 is a variance along that direction that is 14 % too large, and other
    directions and smooth test functions fare better.

    A chain walks from the start towards where it belongs, in four legs, each at the step size that theory gives for
    the curvature and the gradient noise at its beginning. From its end pairs of chains with common noise run at h and
    h/2 (:mod:`~stalegrad.analysis.diagnostics.coupled_halving`). Where they tell, with three standard errors to spare,
    that the bias is above the target, or below half of it, h is changed in proportion and tried again, three times at
    most.

    Args:
        potential: the model.
        kernel: the sampler, one that has a theory (:mod:`stalegrad.kernels.declared`); its step size is not looked at
            and may be ``"auto"``.
        workers: W, of each server. Gradients are then W − 1 updates old, if workers are equally fast.
        staleness: τ in place of that, a mean, or the probabilities of τ = 0, 1, 2, …, such as those of a trace:
            ``np.bincount(run.trace.chains[0].staleness) / len(run.trace.chains[0])``.
        bias: the target.
        gradients: how many gradients on minibatches may be computed, at least 1000.
        initial: where the chain starts; None for the model's own start.
        seed: of everything random, which is not that of a run with the same seed.
        progress: show a bar on standard error.

    >>> from stalegrad.kernels import SGLD
    >>> from stalegrad.potentials import GaussianMean
    >>> model = GaussianMean(np.zeros((100, 2)), dtype=np.float64)
    >>> found = find_step_size(model, SGLD(step_size="auto"), workers=5, gradients=2000, progress=False)
    >>> found.curvature, found.staleness
    (101.0, 4.0)
    >>> 0.5 < found.step_size * 101 * 4.5 / (0.1 * 2**0.5) < 1.5  # about h λ (τ + ½) = √2 · 0.1
    True
    """
    if not (isinstance(kernel, Kernel) and kernel.has_theory()) or kernel.temperature == 0:
        problem = "is no sampler whose theory is known here, or has temperature 0"
        known = ", ".join(name for name, sampler in SAMPLERS.items() if sampler.has_theory())
        raise ArgumentError("kernel", kernel, problem, f"Give one of {known}, or choose the step yourself.")
    budget = whole_number("gradients", gradients, least=LEAST_GRADIENTS)
    target = real_number("bias", bias, above=0)
    seed = whole_number("seed", seed, most=MAX_SEED)
    law = _law(staleness, whole_number("workers", workers, least=1))
    start = potential.initial() if initial is None else finite_array("initial", initial, potential.dtype, ndim=1)
    kernel = kernel.for_model(potential.n_data, potential.batch_size)
    with progress_bar(shown=progress) as report, np.errstate(over="ignore", invalid="ignore"):
        return _Calibration(potential, kernel, law, target, budget, seed, report).run(start)


def _law(staleness: Any, workers: int) -> Array:
    """The probabilities of τ = 0, 1, 2, …; of a mean, those of the two whole numbers next to it."""
    if staleness is None or np.ndim(staleness) == 0:
        mean = workers - 1.0 if staleness is None else real_number("staleness", staleness, least=0)
        return np.asarray(np.maximum(0.0, 1 - np.abs(np.arange(int(mean) + 2) - mean)))
    law = finite_array("staleness", staleness, np.dtype(np.float64), ndim=1)
    if law.size == 0 or law.min() < 0 or not np.isclose(law.sum(), 1):
        remedy = "Give a mean, or the probabilities of τ = 0, 1, 2, …, which are ≥ 0 with sum 1."
        raise ArgumentError("staleness", staleness, "is not a law", remedy)
    return np.asarray(law / law.sum())


class _Survey(NamedTuple):
    """What was seen at some points."""

    direction: Direction
    directions: Array
    """Along which the posterior is narrowest, and along which gradients are noisiest: two vectors d with dᵀθ."""


class _Calibration:
    """The search, with what it has spent."""

    def __init__(
        self, potential: Potential, kernel: Kernel, law: Array, target: float, budget: int, seed: int, report: Report
    ) -> None:
        self._model, self._kernel, self._law, self._target = _Counted(potential), kernel, law, target
        self._mean = float(law @ np.arange(len(law)))
        self._lag = Lag(law) if len(law) <= _MOST_LAGS else Lag.of_mean(self._mean)  # as theory takes it
        self._budget, self._seed, self._report = budget, seed, report

    def run(self, start: Array) -> FoundStepSize:
        """From the start to a step size."""
        draws, h = np.repeat(start[None], 16, axis=0), inf
        for leg in range(_LEGS):
            self._show_progress("walking to where the chain goes")
            survey = self._measure(draws)
            h = min(self._by_theory(survey.direction, _WALKING if leg < _LEGS - 1 else None), h * 4)
            draws, h = self._walk(draws[-1], h, leg)
        survey = self._measure(draws)
        h = self._by_theory(survey.direction)
        rounds: list[tuple[float, float, float]] = []
        bias = error = np.nan
        for number in range(_ROUNDS):
            self._show_progress("halving the step size")
            measured = self._halve(h, survey, draws[-1], number)
            if measured is None:
                break
            worst = int(np.argmax(np.abs(measured.value) - _SURE * measured.error))
            bias, error = float(abs(measured.value[worst])), float(measured.error[worst])
            rounds.append((h, bias, error))
            factor = self._correction(bias, error)
            if factor == 1:
                break
            longest = self._by_theory(survey.direction, within=inf)
            factor = min(factor, longest / h) if factor > 1 else factor
            h, bias, error = factor * h, factor * bias, factor * error
            if not isfinite(bias):
                bias = error = np.nan
        return FoundStepSize(
            self._kernel.with_step_size(h), self._target, bias, error,
            abs(self._error(h, survey.direction)) / sqrt(2), self._mean, survey.direction.curvature,
            survey.direction.noise, tuple(rounds), self._model.spent,
        )  # fmt: skip

    def _show_progress(self, what: str) -> None:
        self._report(what, min(1.0, self._model.spent / self._budget))

    def _measure(self, draws: Array) -> _Survey:
        """Curvature and gradient noise at some draws, (draw, n)."""
        spend = int(np.clip(_SURVEY_SHARE * self._budget, _LEAST_SURVEY, _MOST_SURVEY))
        probes = probe(self._model, draws[None], spend // 4, self._seed)
        scale: Array | float = 1.0
        if self._kernel.learns_metric:
            scale = self._kernel.metric_scale(probes.mean_squares, self._model.n_data)
        noise = gradient_noise(probes, scale)
        steep = probes.steep(scale)
        points = draws[[len(draws) // 2, len(draws) - 1]]
        curvature = largest_curvature(
            self._model, points, scale=scale, start=steep, gradients=spend // 2, seed=self._seed
        )
        if not (curvature.value > 0 and isfinite(curvature.value)):
            raise ArgumentError(
                "step_size", "auto", "cannot be found: the potential does not curve upwards where the chain has come",
                "Give a step size, or an initial point nearer to a mode.",
            )  # fmt: skip
        thermostat = self._kernel.thermostat is not None
        mean = mean_curvature(self._model, points, gradients=max(2, spend // 4), seed=self._seed) if thermostat else 0.0
        direction = Direction(
            curvature.value, noise.along(curvature.direction), float(np.clip(mean, 0, curvature.value)),
            noise.mean if thermostat else 0.0,
        )  # fmt: skip
        return _Survey(direction, np.stack([curvature.direction, noise.direction]) / scale)

    def _walk(self, start: Array, h: float, leg: int) -> tuple[Array, float]:
        """The second half of the draws of a leg, and its step size: smaller where the chain overflowed."""
        steps = max(64, int(_LEG_SHARE * self._budget))
        law = Trace.random_staleness(self._law, steps, seed=(self._seed + leg) % MAX_SEED)
        keep = np.unique(np.linspace(steps // 2, steps - 1, 64).astype(int))
        kept = np.empty((len(keep), self._model.size), self._model.dtype)
        places = {int(update): place for place, update in enumerate(keep)}

        def record(update: int, chain: Chain, gradient: Array) -> None:
            if update in places:
                kept[places[update]] = chain.position[0]

        for attempt in range(_TRIES):
            chain = Chain(self._kernel.with_step_size(h), start[None], (self._seed + attempt) % MAX_SEED, _CHAIN)
            try:
                execute(law.chains[0], self._model, chain, record)
                if np.isfinite(kept).all():
                    return kept, h
            except GradientError:
                pass
            h /= 4
        raise GradientError(f"the chain overflows even with step_size={h:.3g}: a calibration cannot help it")

    def _by_theory(self, direction: Direction, within: float | None = None) -> float:
        """The largest step whose expected bias is within the target, and which is stable with some margin."""
        limit = sqrt(2) * self._target if within is None else within

        def fine(h: float) -> bool:
            return isfinite(self._error(_MARGIN * h, direction)) and abs(self._error(h, direction)) <= limit

        high = 4 / (sqrt(direction.curvature) if self._kernel.inertial else direction.curvature)
        low = high / 2
        while not fine(low):
            low, high = low / 2, low
        for _ in range(_HALVINGS):
            middle = sqrt(low * high)
            low, high = (middle, high) if fine(middle) else (low, middle)
        return low

    def _error(self, h: float, direction: Direction) -> float:
        try:
            kernel = self._kernel.with_step_size(h)
        except ArgumentError:  # Euler's momentum grows without bound
            return inf
        return variance_error(kernel, tuple(self._lag.law.tolist()), self._stretched(direction))

    def _stretched(self, direction: Direction) -> Direction:
        """For a law that was shortened."""
        return Direction(*(self._lag.stretch * number for number in direction))

    def _halve(self, h: float, survey: _Survey, start: Array, number: int) -> StepBias | None:
        """The bias at h, or None if there are too few gradients left."""
        kernel = self._kernel.with_step_size(h)
        time = relaxation(kernel, tuple(self._lag.law.tolist()), self._stretched(survey.direction))
        burn_in, kept = ceil(_BURN_IN * time), ceil(_KEPT * time)
        each, left = 3 * (burn_in + kept), self._budget - self._model.spent
        left = min(left, max(left // (_ROUNDS - number), _FEWEST_ROWS * each))
        rows = min(left // each, _MOST_BYTES // (2 * len(self._law) * start.nbytes), _MOST_ROWS)
        if rows < _FEWEST_ROWS:
            return None
        kept = max(kept, left // (3 * rows) - burn_in)
        return coupled_halving(
            self._model, kernel, self._law, np.repeat(start[None], rows, axis=0), survey.directions,
            burn_in=burn_in, steps=burn_in + kept, seed=(self._seed + number) % MAX_SEED, chain=_CHAIN,
        )  # fmt: skip

    def _correction(self, bias: float, error: float) -> float:
        """By what to multiply h, if the bias is proportional to it; 1 if the target is met as far as can be told."""
        if not isfinite(bias):
            return 0.25
        if bias - _SURE * error > self._target:
            return max(0.25, self._target / bias)
        if bias + _SURE * error < self._target / 2:
            return min(4.0, self._target / (bias + _SURE * error))
        return 1.0


class _Counted(Wrapper):
    """The model, counting the gradients that it is asked for, of the size of a minibatch."""

    def __init__(self, potential: Potential) -> None:
        super().__init__(potential.for_worker())
        self.addressed = potential.addressed
        self.epoch = potential.epoch
        self.spent = 0

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """The model's."""
        self.spent += ceil(len(indices) / self.batch_size)
        return self.potential.gradient(theta, indices)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """The model's."""
        self.spent += len(theta)
        self.potential.gradients(theta, indices, out)

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """The model's."""
        self.spent += len(points)
        self.potential.answer(points, address, out)
