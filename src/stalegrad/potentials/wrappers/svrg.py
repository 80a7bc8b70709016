"""SVRG: control variates at an anchor that follows the chain."""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import TraceError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import finite_array, whole_number
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.potentials.wrappers.control_variates import refuse_addressed
from stalegrad.potentials.wrappers.variance import VarianceReport, measure_variance


def svrg(potential: Potential, refresh: int | None = None) -> "SVRG":
    """The same posterior with the gradients of :class:`SVRG`.

    Args:
        potential: the model.
        refresh: m, how many gradients a worker computes from one anchor to its next; None for ⌈N/J⌉, at which an
            anchor costs as much as the minibatches in between.

    >>> from stalegrad.potentials import GaussianMean
    >>> svrg(GaussianMean(np.zeros(1000), batch_size=30)).refresh
    34
    """
    refuse_addressed(potential)
    return SVRG(potential, -(-potential.n_data // potential.batch_size) if refresh is None else refresh)


class SVRG(Wrapper):
    """g(θ) = ∇U(θ̂) + g̃(θ) − g̃(θ̂), where θ̂ is a point that the chain was at not long ago.

    (Johnson and Zhang 2013; for Langevin dynamics Dubey et al. 2016.) Each worker has an anchor of its own. At its
    gradients number 0, m, 2m, … it takes the point that it was sent as θ̂ and answers with the exact ∇U(θ̂); at those in
    between it answers with g on their minibatches. So the anchor of a gradient is a function of its number k alone: the
    point that the worker was sent with number m⌊k/m⌋, at whatever version the chain was then. Anchors are never
    sent, and a trace says which they were.

    For that the trace must hold every gradient at which an anchor was taken. A worker that was replaced or whose
    gradient was unusable, and all workers of a run that is resumed, begin anew with the next multiple of m; late
    gradients must not be dropped; and a trace with a gap is refused. Shards are refused: full gradients need all data.

    Cost: 2J + (N − 2J)/m gradients of a datum on average, and one gradient in m takes as long as N/J others. Workers
    that all take their anchors at once make each other's gradients stale meanwhile.

    Diagnoses use the plain gradient of the model, without variance reduction.

    Args:
        potential: the model.
        refresh: m.
    """

    addressed = True

    def __init__(self, potential: Potential, refresh: int) -> None:
        super().__init__(potential)
        self.refresh = self.epoch = whole_number("refresh", refresh, least=1)
        self._anchors: dict[GradientAddress, _Anchor] = {}

    def for_worker(self) -> "SVRG":
        """The same model, without any anchors of other workers."""
        return SVRG(self.potential, self.refresh)

    def __reduce__(self) -> tuple[Any, ...]:
        return SVRG, (self.potential, self.refresh)

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """∇U where an anchor is taken, g in between."""
        number, place = divmod(address.count, self.refresh)
        owner = address._replace(count=0)
        if place == 0:
            for row, theta in enumerate(points):
                out[row] = self.potential.full_gradient(theta)
            self._anchors[owner] = _Anchor(number, points.copy(), out.copy())
            return
        anchor = self._anchors.get(owner)
        if anchor is None or anchor.number != number:
            first = number * self.refresh
            raise TraceError(
                f"gradient {address.count} of worker {address.worker} needs the anchor of its gradient {first}, which "
                "was not computed before it: with SVRG a trace must hold the beginning of every epoch of a worker"
            )
        super().answer(points, address, out)
        at_anchor = np.empty_like(out)
        super().answer(anchor.points, address, at_anchor)
        out -= at_anchor
        out += anchor.gradients

    def variance_report(self, points: Any, *, batches: int = 64, seed: int = 0) -> VarianceReport:
        """The measured variance of the gradient without and with SVRG, and what each costs.

        Args:
            points: where a worker was sent to, one after the other, (point, n): each m-th becomes the anchor of those
                that follow.
            batches: pairs of minibatches at each.
            seed: of the minibatches.
        """
        at = np.atleast_2d(finite_array("points", points, self.dtype))
        full = {k: self.potential.full_gradient(at[k]) for k in range(0, len(at), self.refresh)}

        def reduced(k: int, indices: IntArray) -> Array:
            anchor = k - k % self.refresh
            difference = self.potential.gradient(at[k], indices) - self.potential.gradient(at[anchor], indices)
            return np.asarray(difference + full[anchor])

        cost = 2 * self.batch_size + (self.n_data - 2 * self.batch_size) / self.refresh
        return measure_variance(self.potential, at, reduced, cost, batches=batches, seed=seed)


class _Anchor(NamedTuple):
    """What a worker keeps from one gradient to the next."""

    number: int
    """Which of its anchors it is."""
    points: Array
    """θ̂, (R, n)."""
    gradients: Array
    """∇U(θ̂), (R, n)."""
