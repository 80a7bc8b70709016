"""Control variates at a mode: minibatch gradients whose noise vanishes there."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import finite_array
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of, gradient_with
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.traced import Traced, TracedGradient
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.potentials.wrappers.variance import VarianceReport, measure_variance


def control_variates(
    potential: Potential, mode: Any = None, *, passes: int = 200, progress: bool = True
) -> "ControlVariates":
    """The same posterior with the gradients of :class:`ControlVariates`, anchored at its mode.

    Args:
        potential: the model.
        mode: θ̂; None to find it with :func:`find_mode`. It need not be exact: anywhere near the draws will do.
        passes: the most gradients on all data that finding it may take.
        progress: show a bar meanwhile, on standard error.

    >>> from stalegrad.potentials import Logistic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 3))
    >>> y = rng.random(1000) < 1 / (1 + np.exp(-X.sum(axis=1)))
    >>> model = control_variates(Logistic(X, y, batch_size=10, dtype=np.float64), progress=False)
    >>> model.variance_report(model.anchor + 0.1).factor > 100
    True
    """
    refuse_addressed(potential)
    anchor = find_mode(potential, passes=passes, progress=progress) if mode is None else mode
    return ControlVariates(potential, anchor)


class ControlVariates(Wrapper):
    """g(θ) = ∇U(θ̂) + g̃(θ) − g̃(θ̂), both g̃ on the same minibatch (Baker, Fearnhead, Fox and Nemeth 2019).

    It has the mean ∇U(θ) whatever the anchor θ̂ is, and a variance that falls with |θ − θ̂|² in place of one that stays:
    where posterior standard deviations are of the order of 1/√N, the noise is that of a minibatch N times as large, up
    to a constant. Far from the anchor, as before a chain that starts there has come near, it may be noisier than g̃.

    A gradient takes 2J gradients of a datum in place of J. Those at the anchor could be kept, N·n numbers; but on data
    of the shape of a9a, whose rows are sparse, adding up J of them took longer than computing them anew.

    The anchor is part of the model and never changes, so a gradient is a function of θ and the minibatch alone, however
    stale it is, and replays are exact on every engine. Machines whose arithmetic differs may find another θ̂ in its last
    bits; to replay a run on another machine, keep ``anchor`` and give it as ``mode``.

    Args:
        potential: the model.
        anchor: θ̂.
        anchor_gradient: ∇U(θ̂), where it is known; None to compute it.
    """

    def __init__(self, potential: Potential, anchor: Any, anchor_gradient: Array | None = None) -> None:
        super().__init__(potential)
        self.anchor = finite_array("mode", anchor, potential.dtype)
        if self.anchor.shape != (potential.size,):
            problem = f"has shape {self.anchor.shape}"
            raise ArgumentError("mode", anchor, problem, f"Give shape ({potential.size},), or None to have it found.")
        known = potential.full_gradient(self.anchor) if anchor_gradient is None else anchor_gradient
        self.anchor_gradient: Array = np.ascontiguousarray(known, potential.dtype)
        """∇U(θ̂)."""
        if potential.bound is not None:
            self.bound = _Bound(potential.bound, self.anchor, self.anchor_gradient)

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g at one θ on the data ``indices``."""
        at_anchor = self.potential.gradient(self.anchor, indices)
        return np.asarray(self.potential.gradient(theta, indices) - at_anchor + self.anchor_gradient, self.dtype)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g for R repetitions at once, each row with the bits that ``gradient`` gives."""
        at_anchor = np.empty_like(out)
        self.potential.gradients(np.repeat(self.anchor[None], len(theta), axis=0), indices, at_anchor)
        self.potential.gradients(theta, indices, out)
        out -= at_anchor
        out += self.anchor_gradient

    @property
    def traced(self) -> Traced | None:
        """The same of a model that JAX can follow."""
        inner = self.potential.traced
        if inner is None or type(self).gradients is not ControlVariates.gradients:
            return None
        data = inner.data, self.anchor, self.anchor_gradient
        return Traced(_TracedDifference(inner.gradient), data, inner.programs)

    def variance_report(self, points: Any, *, batches: int = 64, seed: int = 0) -> VarianceReport:
        """The measured variance of the gradient without and with control variates, and what each costs.

        Args:
            points: where to measure, (point, n), such as some draws of a run.
            batches: pairs of minibatches at each.
            seed: of the minibatches.
        """
        at = np.atleast_2d(finite_array("points", points, self.dtype))
        return measure_variance(
            self.potential, at, lambda k, indices: self.gradient(at[k], indices), 2 * self.batch_size,
            batches=batches, seed=seed,
        )  # fmt: skip


def refuse_addressed(potential: Potential) -> None:
    """Refuse a model whose workers' answers are more than its gradient on a minibatch."""
    if potential.addressed:
        problem = f"is a {type(potential).__name__}, whose workers do more than take gradients on minibatches"
        raise ArgumentError("potential", potential, problem, "Give the model inside it.")


@dataclass(frozen=True)
class _TracedDifference:
    """g of a model's g̃, for JAX."""

    inner: TracedGradient

    def __call__(self, theta: Any, indices: Any, data: Any) -> Any:
        within, anchor, anchor_gradient = data
        return self.inner(theta, indices, within) - self.inner(anchor, indices, within) + anchor_gradient


class _Bound(NamedTuple):
    """What compiled blocks need, see :mod:`stalegrad.protocol.block`."""

    model: Any
    anchor: Any
    anchor_gradient: Any


@gradient_with(_Bound)
def _bound_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    anchors, at_anchor = np.empty_like(theta), np.empty_like(out)
    for r in range(theta.shape[0]):
        anchors[r] = bound.anchor
    sound = gradient_of(bound.model, anchors, indices, at_anchor)  # type: ignore[no-untyped-call]
    if not sound or not gradient_of(bound.model, theta, indices, out):  # type: ignore[no-untyped-call]
        return False
    for r in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            out[r, i] = out[r, i] - at_anchor[r, i] + bound.anchor_gradient[i]
    return True
