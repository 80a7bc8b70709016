"""What the checks look at: a run's draws and trace, and, where the model is at hand, fresh gradients at some draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.curvature import Curvature, largest_curvature, mean_curvature
from stalegrad.analysis.diagnostics.gradient_noise import GradientNoise, gradient_noise
from stalegrad.analysis.diagnostics.probes import Probes, probe
from stalegrad.kernels import Kernel, kernel_from_table
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.trace import Trace

MOST_PARAMETERS = 256
"""So many parameters, evenly chosen, are looked at one by one."""

MOST_DRAWS = 2048
"""So many draws of a chain, evenly chosen; fewer where there are more than eight chains."""

FEWEST_DRAWS = 20
"""With fewer draws of a chain its mean and standard error say nothing yet."""


class NotChecked(StalegradError):
    """A check that cannot be made; the message says why."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run as the checks see it.

    Args:
        draws: (chain, draw, n), an array or anything that can be sliced like one and turned into one.
        step_sizes: h of the update behind each draw, (chain, draw).
        kinetic_temperature: of each draw, (chain, draw), NaN without a momentum.
        trace: of the run.
        kernels: of each chain; empty if they are not known.
        potential: the model, or None.
        functions: values of test functions by name, each (chain, draw, …).
        gradients: how many minibatch gradients may be computed.
    """

    draws: Any
    step_sizes: Array
    kinetic_temperature: Array
    trace: Trace
    kernels: tuple[Kernel, ...] = ()
    potential: Potential | None = None
    functions: Mapping[str, Array] = field(default_factory=dict)
    gradients: int = 64

    @cached_property
    def parameters(self) -> tuple[Array, Array]:
        """Some draws of some parameters in float64, (chain, draw, parameter), and which parameters they are."""
        chains, draws, size = self.draws.shape
        most = max(FEWEST_DRAWS, MOST_DRAWS * 8 // max(chains, 8))
        every, each = -(-draws // most), -(-size // MOST_PARAMETERS)
        chosen = np.asarray(self.draws[:, ::every, ::each], np.float64)
        return chosen, np.arange(0, size, each)

    @property
    def steps(self) -> Array:
        """The mean step size of each chain's draws."""
        return np.asarray(self.step_sizes.mean(axis=1))

    def need_draws(self) -> None:
        """Refuse a run too short to say anything about."""
        if self.draws.shape[1] < FEWEST_DRAWS:
            raise NotChecked(f"the {self.draws.shape[1]} draws of a chain are fewer than {FEWEST_DRAWS}")

    def need_kernels(self) -> tuple[Kernel, ...]:
        """The kernels, known to the theory and at a temperature above 0."""
        if not self.kernels:
            raise NotChecked("the kernel is not known: give kernel=")
        if not all(kernel.has_theory() for kernel in self.kernels):
            raise NotChecked("there is no theory of this kernel here")
        if any(kernel.temperature == 0 for kernel in self.kernels):
            raise NotChecked("at temperature 0 nothing is sampled")
        return self.kernels

    @cached_property
    def probes(self) -> Probes:
        """Two minibatch gradients at each of some draws, for half of what may be spent."""
        return probe(self.model, self._sampled, self.gradients // 4, self.trace.seed)

    @cached_property
    def scale(self) -> Array | float:
        """√G of a metric that was learnt, or else 1: gradients and curvatures are measured in coordinates θ/√G."""
        kernel, *others = self.need_kernels()
        if any(other.learns_metric != kernel.learns_metric for other in others):
            raise NotChecked("some chains have learnt a metric and others have none")
        return kernel.metric_scale(self.probes.mean_squares, self.model.n_data) if kernel.learns_metric else 1.0

    @cached_property
    def noise(self) -> GradientNoise:
        """The minibatch covariance at the probes."""
        return gradient_noise(self.probes, self.scale)

    @cached_property
    def curvature(self) -> Curvature:
        """The largest curvature at some draws, for three eighths of what may be spent."""
        return largest_curvature(
            self.model, self._points, scale=self.scale, start=self.probes.steep(self.scale),
            gradients=3 * self.gradients // 8, seed=self.trace.seed,
        )  # fmt: skip

    @cached_property
    def mean_curvature(self) -> float:
        """The mean curvature at the same draws, for the last eighth."""
        return mean_curvature(self.model, self._points, gradients=self.gradients // 8, seed=self.trace.seed)

    @property
    def _points(self) -> Array:
        """The middle and the last draw of some chains."""
        chains, draws, _ = self.draws.shape
        chosen = range(0, chains, -(-chains // 2))
        return np.stack([np.asarray(self._sampled[s, index]) for s in chosen for index in (draws // 2, draws - 1)])

    @property
    def _sampled(self) -> Any:
        """The draws in the coordinates in which the chains ran: step sizes and curvatures belong to those."""
        coordinates = self.trace.coordinates
        return self.draws if coordinates is None else _Inverted(self.draws, coordinates)

    @property
    def model(self) -> Potential:
        """The potential, if it was given, in the coordinates in which the chains ran."""
        if self.potential is None:
            raise NotChecked("needs the model: give potential=")
        coordinates = self.trace.coordinates
        return self.potential if coordinates is None else InCoordinates(self.potential, coordinates)


class _Inverted:
    """Draws of θ, seen as draws of z: slices are turned when they are read."""

    def __init__(self, draws: Any, coordinates: Coordinates) -> None:
        self._draws, self._coordinates = draws, coordinates
        self.shape = draws.shape

    def __getitem__(self, key: Any) -> Array:
        return self._coordinates.inverse(np.asarray(self._draws[key]))


def described_kernels(trace: Trace, steps: Array) -> tuple[Kernel, ...]:
    """The kernels that a trace says it was made with, at these step sizes; none if it names none that is known.

    >>> described_kernels(Trace.constant_staleness(0, steps=3), np.array([0.1]))
    ()
    """
    if trace.record is None:
        return ()
    try:
        described = [{**table, "step_size": float(h)} for table, h in zip(trace.record.kernels, steps, strict=True)]
        return tuple(kernel_from_table(table) for table in described)
    except ArgumentError:  # one of the user's own, or a metric that no table can rebuild
        return ()
