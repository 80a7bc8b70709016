"""The same run once more with half the step size: what an estimate gains by it is what the step size costs it."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import Estimate, estimate
from stalegrad.kernels import Kernel
from stalegrad.kernels.noise import MAX_SEED
from stalegrad.kernels.schedules import Schedule
from stalegrad.potentials import Potential
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.architectures.stale_gradients import Compensated
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.executor import execute
from stalegrad.protocol.trace import Trace

Functions = Mapping[str, Callable[[Array], Any]]


class Halved(NamedTuple):
    """A test function at two step sizes; every field has the shape of one φ.

    >>> import stalegrad as sg
    >>> model, kernel = sg.testing.small_model(), sg.SGLD(step_size=0.02)
    >>> run = sg.sample(model, kernel, steps=2000, burn_in=200, engine="inline", progress=False)
    >>> found = step_halving(run.draws, run.trace, model, (kernel,), {"θ₀": lambda theta: theta[0]})["θ₀"]
    >>> found.full.value.shape, bool(abs(found.full.value - found.half.value) < found.spread)
    ((), True)
    """

    full: Estimate
    """φ̂ at h."""
    half: Estimate
    """φ̂ at h/2."""
    spread: Array
    """The standard deviation of φ over the draws at h/2."""

    @property
    def difference(self) -> Array:
        """φ̂ at h minus φ̂ at h/2."""
        return np.asarray(self.full.value - self.half.value)

    @property
    def bias(self) -> Array:
        """Of φ̂ at h, in standard deviations of φ: twice the difference, for a bias proportional to h."""
        return self._relative(2 * self.difference)

    @property
    def bias_error(self) -> Array:
        """The standard error of ``bias``: the two runs share no randomness."""
        return self._relative(2 * np.hypot(self.full.standard_error, self.half.standard_error))

    def _relative(self, values: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.spread > 0, values / self.spread, 0.0)


def step_halving(
    draws: Any,
    trace: Trace,
    potential: Potential,
    kernels: tuple[Kernel, ...],
    functions: Functions,
    *,
    most_draws: int = 1000,
) -> dict[str, Halved]:
    """Run all chains again at half the step size for the same time T, and compare averages of test functions.

    A run of L updates at h becomes one of 2L updates at h/2, with the same law of staleness (in updates, since it is a
    matter of how many workers there are), from the same start, with burn-in and draws at the same times and with noise
    and minibatches of its own. It is executed in this thread and takes twice the gradients of the run.

    A bias of order h, as stale and noisy gradients and Euler's scheme have it, is φ̂_h − φ̄ ≈ 2(φ̂_h − φ̂_{h/2}). For a
    second-order scheme with exact, fresh gradients it is 4/3 of the difference in place of twice.

    Args:
        draws: of the run, (chain, draw, n).
        trace: of the run.
        potential: the model, in the coordinates in which the chains ran.
        kernels: of each chain.
        functions: name to test function of one draw.
        most_draws: of each chain on which functions are evaluated.

    >>> import stalegrad as sg
    >>> model, kernel = sg.testing.small_model(), sg.SGLD(step_size=0.01)
    >>> run = sg.sample(model, kernel, steps=2000, burn_in=200, workers=4, engine="inline", progress=False)
    >>> mean, _ = model.posterior()
    >>> functions = {"spread": lambda theta: float(np.square(theta - mean).sum())}
    >>> found = step_halving(run.draws, run.trace, model, (kernel,), functions)["spread"]
    >>> bool(found.full.value > found.half.value)  # the shorter step has the smaller bias
    True
    """
    count = draws.shape[1]
    every = -(-count // most_draws)
    chosen = np.arange(every - 1, count, every)
    at = trace.thinning.updates_of(chosen)
    steps = [np.asarray(chain.updates().step_size) for chain in trace.chains]
    full: dict[str, list[list[Any]]] = {name: [] for name in functions}
    half: dict[str, list[list[Any]]] = {name: [] for name in functions}
    for s in range(len(trace.chains)):
        rerun = _halved_draws(trace, s, potential, kernels[s], at)
        for name, phi in functions.items():
            full[name].append([phi(np.asarray(draws[s, index])) for index in chosen])
            half[name].append([phi(theta) for theta in rerun])
    weights = [h[at] for h in steps]
    return {
        name: Halved(
            estimate(np.array(full[name], np.float64), step_sizes=weights),
            estimate(np.array(half[name], np.float64), step_sizes=weights),
            np.array(half[name], np.float64).std(axis=(0, 1)),
        )
        for name in functions
    }


def _halved_draws(trace: Trace, s: int, potential: Potential, kernel: Kernel, at: Array) -> Array:
    """The draws of chain s at half the step size, (draw, n), at the times of the updates ``at`` of the run."""
    updates = trace.chains[s].updates()
    step = np.arange(2 * len(updates), dtype=np.int64)
    sizes = np.repeat(np.asarray(updates.step_size), 2) / 2
    halved = ChainTrace(
        worker=np.zeros(len(step), np.int32),
        count=step,
        staleness=np.minimum(np.tile(updates.staleness, 2), step).astype(np.int32),
        accepted=np.ones(len(step), bool),
        step_size=sizes,
    )
    start = potential.initial() if trace.initial is None else trace.initial[s]
    kernel = kernel.for_model(potential.n_data, potential.batch_size).with_step_size(_schedule(sizes))
    place = Place(np.asarray(start, potential.dtype)[None], (trace.seed + 1) % MAX_SEED, s)
    architecture = _on_all_data(trace.architecture)
    chain = architecture.chain(kernel, place, trace.workers)
    places = {2 * int(update) + 1: index for index, update in enumerate(at)}
    kept = np.empty((len(at), potential.size), potential.dtype)

    def record(update: int, chain: Chain, gradient: Array) -> None:
        if update in places:
            kept[places[update]] = chain.position[0]

    execute(halved.head(2 * int(at[-1]) + 2), architecture.work(potential, [kernel], trace.workers), chain, record)
    return kept if trace.coordinates is None else trace.coordinates.original(kept)


def _on_all_data(architecture: Architecture) -> StaleGradients:
    """What the server makes of stale gradients, from workers that all see all data."""
    if not isinstance(architecture, Compensated):
        return StaleGradients()
    return StaleGradients(**{option.name: getattr(architecture, option.name) for option in fields(Compensated)})


def _schedule(sizes: Array) -> float | Schedule:
    if np.all(sizes == sizes[0]):
        return float(sizes[0])
    return lambda update: float(sizes[min(update, len(sizes) - 1)])
