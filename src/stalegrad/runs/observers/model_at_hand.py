"""What whoever has the model can say of a stored run: the loss at its draws, and the curvature that steps must stand.

Looking at a run imports nothing that it names, so that a model comes from whoever looks, and only if they say so.
"""

from math import nan

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.curvature import largest_curvature
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.run_record import ModelFacts

GRADIENTS = 64
"""That are spent on the largest curvature, once."""


class ModelAtHand:
    """The model of a stored run.

    Args:
        potential: the model.
        facts: of the model that the run was made with.
        coordinates: of the run, if they are not those of the model.

    Raises:
        ArgumentError: it is another model.
    """

    def __init__(self, potential: Potential, facts: ModelFacts, coordinates: Coordinates | None = None) -> None:
        for name in ("size", "dtype", "n_data", "batch_size"):
            given, was = getattr(ModelFacts.of(potential), name), getattr(facts, name)
            if given != was:
                problem = f"is not the model of the run: {name} is {given}, and was {was}"
                raise ArgumentError("model", type(potential).__name__, problem, "Give what the run was made with.")
        self._potential, self._coordinates = potential, coordinates

    @property
    def says_its_loss(self) -> bool:
        """Whether the model has one."""
        theta = np.ascontiguousarray(self._potential.initial(), self._potential.dtype)
        return self._potential.minibatch_loss(theta, self._potential.minibatches.draw_outside_run(0, 0)) is not None

    def loss(self, draw: Array, number: int) -> float:
        """Of a minibatch, another for every number, at a draw; NaN if the model does not say."""
        indices = self._potential.minibatches.draw_outside_run(0, number)
        found = self._potential.minibatch_loss(np.ascontiguousarray(draw, self._potential.dtype), indices)
        return nan if found is None else float(found)

    def curvature(self, draw: Array) -> float:
        """λ at a draw, in the coordinates of the run."""
        point, target = np.asarray(draw, self._potential.dtype)[None], self._potential
        if self._coordinates is not None:
            point, target = self._coordinates.inverse(point), InCoordinates(target, self._coordinates)
        return largest_curvature(target, point, gradients=GRADIENTS).value
