"""How noisy minibatch gradients are in the sampler's coordinates, and whether control variates pay."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.gradient_noise import gradient_noise
from stalegrad.analysis.diagnostics.probes import probe
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.model import Counter, Fixed
from stalegrad.runs.warmup.options import Warmup

_PROBES = 48
_MATTERS = 0.2  # noise beyond this share of what the bias allows at a long step is worth an anchor
_GAIN = 2.0  # control variates double the cost of a gradient


class Noise(NamedTuple):
    """What was measured, and the coordinates to take."""

    coordinates: Coordinates
    largest: float
    """The variance of g̃ along the direction where it is largest, in these coordinates."""
    plain: float
    """The same without control variates."""

    @property
    def anchored(self) -> bool:
        """Whether gradients have control variates at the centre."""
        return self.coordinates.anchor_gradient is not None


def with_less_noise(
    potential: Potential, coordinates: Coordinates, draws: Array, options: Warmup, counter: Counter, seed: int
) -> Noise:
    """Measure the noise at some draws of the pilot, and anchor gradients at the centre where that takes it away.

    Args:
        potential: the model.
        coordinates: c and S.
        draws: (chain, draw, n), in z.
        options: what the user says.
        counter: is told what is spent.
        seed: of minibatches.
    """
    if potential.batch_size == potential.n_data and potential.minibatches.scheme != "replacement":
        return Noise(coordinates, 0.0, 0.0)
    plain = _largest(potential, coordinates, draws, counter, seed)
    if options.control_variates == "never":
        return Noise(coordinates, plain, plain)
    if options.control_variates == "auto" and plain < _MATTERS * 4 * options.bias:
        return Noise(coordinates, plain, plain)
    gradient = Fixed(potential, None, counter, seed).full_gradient(coordinates.centre)
    if not np.isfinite(gradient).all():
        return Noise(coordinates, plain, plain)
    anchored = replace(coordinates, anchor_gradient=gradient.astype(potential.dtype))
    less = _largest(potential, anchored, draws, counter, seed)
    if options.control_variates == "auto" and _GAIN * less > plain:
        return Noise(coordinates, plain, plain)
    return Noise(anchored, less, plain)


def _largest(potential: Potential, coordinates: Coordinates, draws: Array, counter: Counter, seed: int) -> float:
    counter.data += 2 * _PROBES * potential.batch_size
    noise = gradient_noise(probe(InCoordinates(potential, coordinates), draws, _PROBES, seed))
    return max(noise.largest, noise.mean)
