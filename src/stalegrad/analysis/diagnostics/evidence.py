"""What the checks look at: a run's draws and trace, and, where the model is at hand, fresh gradients at some draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.curvature import (
    AverageCurvature,
    Curvature,
    average_curvature,
    largest_curvature,
    mean_curvature,
)
from stalegrad.analysis.diagnostics.gradient_noise import GradientNoise, gradient_noise
from stalegrad.analysis.diagnostics.probes import Probes, probe
from stalegrad.analysis.estimates.arrival import FEWEST_DRAWS, Travel, travel
from stalegrad.kernels import Kernel, kernel_from_table
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.names import component_name, parameter_names
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.settings import Settings
from stalegrad.protocol.trace import Trace

MOST_PARAMETERS = 256
"""So many parameters, or predictions, evenly chosen, are looked at one by one."""

MOST_DRAWS = 2048
"""So many draws of a chain, evenly chosen; fewer where there are more than eight chains."""


MODEL_WANTED = "needs the model: give potential="
"""Why a check was not made of draws alone."""

PARAMETERS = "parameters"
PREDICTIONS = "predictions"
_MOST_AVERAGED = 64  # draws of all chains that curvature is averaged over
_LIVELY = 0.01  # of the largest standard deviation


class NotChecked(StalegradError):
    """A check that cannot be made; the message says why."""


class Quantities(NamedTuple):
    """Numbers of every draw that belong together."""

    kind: str
    """“parameters”, “predictions”, or the name of a test function."""
    names: list[str]
    values: Array
    """(chain, draw, quantity) in float64."""


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
        predictions: what the model predicts for some of its data, (chain, draw, …); None if it does not say.
        gradients: how many minibatch gradients may be computed.
        warmed: whether the chains ran in the coordinates of a warm-up.
    """

    draws: Any
    step_sizes: Array
    kinetic_temperature: Array
    trace: Trace
    kernels: tuple[Kernel, ...] = ()
    potential: Potential | None = None
    functions: Mapping[str, Array] = field(default_factory=dict)
    predictions: Array | None = None
    gradients: int = 64
    warmed: bool = False

    @cached_property
    def parameters(self) -> tuple[Array, Array]:
        """Some draws of some parameters in float64, (chain, draw, parameter), and which parameters they are."""
        size = self.draws.shape[2]
        each = -(-size // MOST_PARAMETERS)
        chosen = np.asarray(self.draws[:, :: self._every, ::each], np.float64)
        return chosen, np.arange(0, size, each)

    @property
    def _every(self) -> int:
        """How many draws there are to one that is looked at."""
        chains, draws, _ = self.draws.shape
        return -int(-draws // max(FEWEST_DRAWS, MOST_DRAWS * 8 // max(chains, 8)))

    @cached_property
    def weights(self) -> Quantities:
        """Those parameters under their names, of which the model or the trace knows the layout."""
        values, index = self.parameters
        return Quantities(PARAMETERS, parameter_names(self._layout, index.tolist()), values)

    @cached_property
    def judged(self) -> tuple[Quantities, ...]:
        """What decides whether the run is to be trusted: test functions and predictions, or else the parameters.

        The weights of a network may be permuted and rescaled without any change of what it says. So where it is known
        what the draws are for, weights are reported and not judged; and where it is not, because the model of a network
        is not at hand, nothing is.
        """
        if self.is_network and self.potential is None and not self.functions:
            raise NotChecked(f"weights of a network mean little, and to judge what it predicts {MODEL_WANTED}")
        found = []
        for name, phi in self.functions.items():
            flat = phi.reshape(*phi.shape[:2], -1)
            found.append(Quantities(name, [component_name(name, phi.shape[2:], k) for k in range(flat.shape[2])], flat))
        if self.predictions is not None:
            shape = self.predictions.shape[2:]
            flat = self.predictions.reshape(*self.predictions.shape[:2], -1)
            spread = flat.std(axis=(0, 1))
            lively = np.flatnonzero(spread >= _LIVELY * spread.max(initial=0.0))  # others hardly depend on θ
            lively = lively[:: -(-len(lively) // MOST_PARAMETERS)]
            names = [component_name("prediction", shape, int(k)) for k in lively]
            found.append(Quantities(PREDICTIONS, names, flat[:, :, lively]))
        return tuple(found) or (self.weights,)

    @property
    def judges_weights(self) -> bool:
        """Whether parameters are judged themselves."""
        return self.judged[0] is self.weights

    @property
    def is_network(self) -> bool:
        """Whether the model is known to be one whose weights have no meaning of their own."""
        record = self.trace.record
        return self.predictions is not None or (record is not None and record.model.is_network)

    def need_weights(self) -> Quantities:
        """The parameters, where they are judged and have arrived."""
        if not self.judges_weights:
            raise NotChecked("of weights, and this run is judged by what it predicts")
        return self.weights

    @cached_property
    def travels(self) -> tuple[Travel, ...]:
        """How far each of the judged quantities still travels."""
        return tuple(travel(group.values) for group in self.judged)

    @property
    def arrived(self) -> bool:
        """Whether no chain is known to be still on its way."""
        return self.draws.shape[1] < FEWEST_DRAWS or not any(np.any(each.travelling) for each in self.travels)

    def need_arrived(self) -> None:
        """Refuse chains that are still travelling, of which draws say nothing."""
        if not self.arrived:
            raise NotChecked("the chains have not arrived")

    @cached_property
    def settings(self) -> Settings:
        """Of the run, as far as its trace tells."""
        trace = self.trace
        steps = min(chain.steps for chain in trace.chains)
        if trace.record is not None:
            return replace(trace.record.settings, steps=max(steps, 1))
        return Settings(steps=max(steps, 1), servers=len(trace), workers=trace.workers)

    @property
    def _layout(self) -> Mapping[str, tuple[int, ...]]:
        if self.potential is not None:
            return self.potential.layout
        return {"theta": (self.draws.shape[2],)} if self.trace.record is None else self.trace.record.model.layout

    @property
    def steps(self) -> Array:
        """The mean step size of each chain's draws."""
        return mean_steps(self.step_sizes)

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

    def average_curvature_of(self, potential: Potential) -> AverageCurvature:
        """The largest curvature of another potential on average over draws, for half of what may be spent."""
        chains, draws, _ = self.draws.shape
        each = -(-_MOST_AVERAGED // chains)
        places = np.unique(np.linspace(draws - 1, 0, each).round().astype(int))
        points = np.stack([np.asarray(self._sampled[s, draw]) for draw in places for s in range(chains)])
        return average_curvature(
            potential, points, scale=self.scale, gradients=max(self.gradients // 2, 64), seed=self.trace.seed
        )

    def curvature_at(self, places: Sequence[tuple[Any, ...]]) -> Curvature:
        """The largest curvature at some (chain, draw) of :attr:`parameters`, for an eighth of what may be spent."""
        points = np.stack([np.asarray(self._sampled[int(s), int(draw) * self._every]) for s, draw in places])
        return largest_curvature(
            self.model, points, scale=self.scale, gradients=max(self.gradients // 8, 32), seed=self.trace.seed
        )

    @property
    def curvature_if_known(self) -> Curvature | None:
        """The same, or None where it cannot be measured, for checks that can do without."""
        try:
            return self.curvature
        except NotChecked:
            return None

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
            raise NotChecked(MODEL_WANTED)
        coordinates = self.trace.coordinates
        return self.potential if coordinates is None else InCoordinates(self.potential, coordinates)


class _Inverted:
    """Draws of θ, seen as draws of z: slices are turned when they are read."""

    def __init__(self, draws: Any, coordinates: Coordinates) -> None:
        self._draws, self._coordinates = draws, coordinates
        self.shape = draws.shape

    def __getitem__(self, key: Any) -> Array:
        return self._coordinates.inverse(np.asarray(self._draws[key]))


def mean_steps(step_sizes: Array) -> Array:
    """The mean step size of each chain's draws, (chain, draw), without rounding where they are all the same."""
    same = np.ptp(step_sizes, axis=1) == 0
    return np.asarray(np.where(same, step_sizes[:, 0], step_sizes.mean(axis=1)), np.float64)


def at_last_draw(trace: Trace, kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels at the temperature at which the last draw of each chain was made."""
    last = [max(0, trace.thinning.draws(chain.steps) - 1) for chain in trace.chains]
    return tuple(kernel.at(trace.thinning.update(draw)) for kernel, draw in zip(kernels, last, strict=True))


def described_kernels(trace: Trace, steps: Array) -> tuple[Kernel, ...]:
    """The kernels that a trace says it was made with, at these step sizes and the temperature of its last draws.

    None if it names none that is known.

    >>> described_kernels(Trace.constant_staleness(0, steps=3), np.array([0.1]))
    ()
    """
    if trace.record is None:
        return ()
    try:
        described = [{**table, "step_size": float(h)} for table, h in zip(trace.record.kernels, steps, strict=True)]
        return at_last_draw(trace, [kernel_from_table(table) for table in described])
    except ArgumentError:  # one of the user's own, or a metric that no table can rebuild
        return ()
