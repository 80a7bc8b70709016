"""Two chains on one Brownian path, at a step size and at half of it: the bias of a step size for few gradients.

:func:`~stalegrad.analysis.diagnostics.step_halving.step_halving` compares runs that share no randomness, and what it
says of the bias has twice the Monte Carlo error of both together. Here every update at h uses the noise of the two
updates at h/2 that cover the same time, (ζ₁ + ζ₂)/√2. Along stiff directions, where the step size matters, both chains
forget where they were and follow their common noise, so that their difference is little else than what the step size
does.
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels import Kernel
from stalegrad.kernels.base import Address
from stalegrad.kernels.noise import Stream, normals
from stalegrad.potentials import Potential
from stalegrad.potentials.address import GradientAddress


class StepBias(NamedTuple):
    """What a step size does to E φ, in standard deviations of φ; a number for each φ.

    >>> bias = StepBias(value=np.array([0.3, 0.01]), error=np.array([0.05, 0.05]))
    >>> np.abs(bias.value) > 3 * bias.error
    array([ True, False])
    """

    value: Array
    """2(φ̂_h − φ̂_{h/2})/sd(φ), for a bias that is proportional to h. Infinite if a chain has overflowed."""
    error: Array
    """Standard error, from the rows."""


def coupled_halving(
    potential: Potential,
    kernel: Kernel,
    staleness: Array,
    start: Array,
    directions: Array,
    *,
    burn_in: int,
    steps: int,
    seed: int,
    chain: int = 0,
) -> StepBias:
    """The bias of E (dᵀ(θ − θ̄))² for some directions d, with θ̄ the mean of the chain at h/2.

    Args:
        potential: the model.
        kernel: with a constant step size h.
        staleness: the probabilities of τ = 0, 1, 2, …, in updates, at both step sizes.
        start: where R independent pairs of chains start, (R, n), at least two.
        directions: d, (φ, n).
        burn_in: updates at h before draws count.
        steps: updates at h in all.
        seed: of noise, minibatches and staleness.
        chain: names the noise and the minibatches as well.

    >>> import stalegrad as sg
    >>> model = sg.testing.small_model()
    >>> start = np.tile(model.initial(), (8, 1))
    >>> ages = np.array([0.0, 0.0, 1.0])  # every gradient is two updates old
    >>> settings = {"burn_in": 100, "steps": 400, "seed": 0}
    >>> bias = coupled_halving(model, sg.SGLD(step_size=0.02), ages, start, np.eye(5), **settings)
    >>> bias.value.shape, bool(bias.value.mean() > 0)
    ((5,), True)
    """
    h = float(kernel.schedule(0))
    ages = np.random.Generator(np.random.Philox(key=seed)).choice(len(staleness), size=2 * steps, p=staleness)
    coarse = _Path(potential, kernel, start, seed, chain, worker=0, depth=len(staleness))
    fine = _Path(potential, kernel.with_step_size(h / 2), start, seed, chain, worker=1, depth=len(staleness))
    kept = np.empty((2, steps - burn_in, len(directions), len(start)))
    noise = np.empty((2, *start.shape), start.dtype)
    root = start.dtype.type(np.sqrt(0.5))
    with np.errstate(over="ignore", invalid="ignore"):
        for update in range(steps):
            for half in (0, 1):
                normals(noise[half], seed, Stream.UPDATE, chain, 2 * update + half)
                fine.go(noise[half], ages[2 * update + half])
            coarse.go((noise[0] + noise[1]) * root, ages[2 * update])
            if update >= burn_in:
                kept[:, update - burn_in] = directions @ coarse.position.T, directions @ fine.position.T
        kept -= kept[1].mean(axis=(0, 2))[:, None]
        squares = np.square(kept)
        spread = squares[1].std(axis=(0, 2))
        by_row = 2 * (squares[0] - squares[1]).mean(axis=0) / spread[:, None]
    if not np.isfinite(by_row).all():
        return StepBias(np.full(len(directions), np.inf), np.zeros(len(directions)))
    return StepBias(by_row.mean(axis=1), by_row.std(axis=1, ddof=1) / np.sqrt(len(start)))


class _Path:
    """R chains at one step size."""

    def __init__(
        self, potential: Potential, kernel: Kernel, start: Array, seed: int, chain: int, *, worker: int, depth: int
    ) -> None:
        self._potential, self._kernel, self._h = potential.for_worker(), kernel, float(kernel.schedule(0))
        self._seed, self._chain, self._worker, self._count = seed, chain, worker, 0
        self._state = kernel.start(start, Address(seed, chain, 0))
        self._points = deque([np.ascontiguousarray(kernel.point(self._state))], maxlen=depth)
        self._gradient = np.empty_like(start)

    @property
    def position(self) -> Array:
        """θ of every row."""
        position: Array = self._state[0]
        return position

    def go(self, noise: Array, staleness: int) -> None:
        """One update, with a gradient that is so many updates old."""
        point = self._points[-1 - min(int(staleness), len(self._points) - 1)]
        address = GradientAddress(self._seed, self._chain, self._worker, self._count)
        self._potential.answer(point, address, self._gradient)
        self._state = self._kernel.step(self._state, self._gradient, noise, self._h)
        self._points.append(np.ascontiguousarray(self._kernel.point(self._state)))
        self._count += 1
