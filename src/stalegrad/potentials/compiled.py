"""What the built-in models share: both ways to ask for a gradient lead to one compiled function that frees the GIL."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numba.extending import overload

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import lean
from stalegrad._internal.parts import PART
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential


class CompiledPotential(Potential):
    """A potential whose gradient is a compiled function of (R, n) parameters and (R, J) indices.

    A subclass sets ``_compiled``, a function of (theta, indices, out) and of what the model binds once, its arrays and
    constants, in ``bound``, a NamedTuple of its own, see :func:`gradient_with`. The function returns whether
    the arguments are as :func:`fits` wants them, and fills ``out`` if so.

    A class of a user's that is made of such a model, with a gradient of its own in Python, is no compiled model any
    more: its ``bound`` is None, so that compiled loops leave it alone. It may give ``gradient``, ``gradients`` or both.
    """

    fork_safe = True

    _compiled: ClassVar[Callable[..., bool]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "gradient" in vars(cls) and "gradients" not in vars(cls):
            cls.gradients = Potential.gradients  # type: ignore[method-assign]
        elif "gradients" in vars(cls) and "gradient" not in vars(cls):
            cls.gradient = _row_of_gradients  # type: ignore[method-assign]

    @property
    def bound(self) -> Any:
        """What compiled callers need of the model; None if its gradient is not the compiled one."""
        of, own = type(self), CompiledPotential
        inherited = of.gradient is own.gradient and of.gradients is own.gradients and of.answer is own.answer
        return self._bound if inherited else None

    @bound.setter
    def bound(self, bound: Any) -> None:
        self._bound = bound

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃(θ) on the data ``indices``."""
        return _one_row(self, self._fill, theta, indices)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ for R repetitions at once, each row with the bits that ``gradient`` gives."""
        self._fill(theta, indices, out)

    def _fill(self, theta: Array, indices: IntArray, out: Array) -> None:
        if not self._compiled(theta, indices, out, *self._bound):
            self._refuse(theta, indices, out)

    def _checked(self, theta: Array) -> Array:
        """One θ, in the layout and type of the computation."""
        array = np.ascontiguousarray(theta, self.dtype)
        if array.shape != (self.size,):
            raise ArgumentError("theta", theta, f"has shape {array.shape}", f"Give a vector of {self.size} entries.")
        return array

    def _normal_prior(self, deviation: Array, scale: float) -> float:
        """|deviation|² / 2 scale², the potential of a normal prior, in float64."""
        return float(np.square(np.asarray(deviation, np.float64)).sum()) / (2 * scale**2)

    def _refuse(self, theta: Array, indices: IntArray, out: Array) -> None:
        """Says what :func:`fits` found wrong."""
        if theta.shape[-1] != self.size:
            problem = f"has shape {theta.shape}, but the model has {self.size} parameters"
            raise ArgumentError("theta", theta, problem, f"Give {self.size} entries.")
        if out.shape != theta.shape:
            raise ArgumentError("out", out, f"has shape {out.shape}, but theta has shape {theta.shape}", "Match them.")
        if indices.shape[0] != theta.shape[0] or indices.shape[1] == 0:
            problem = f"has shape {indices.shape}, but theta has shape {theta.shape}"
            raise ArgumentError("indices", indices, problem, "Give a non-empty row of indices for each row of theta.")
        remedy = f"Give indices from 0 to {self.n_data - 1}."
        raise ArgumentError("indices", indices, "reaches outside the data", remedy)


def _one_row(of: CompiledPotential, fill: Callable[..., None], theta: Array, indices: IntArray) -> Array:
    """g̃(θ) on the data ``indices``, from a function that fills many rows."""
    indices = np.asarray(indices)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        problem = f"has shape {indices.shape} and type {indices.dtype}"
        raise ArgumentError("indices", indices, problem, "Give a vector of whole numbers.")
    out = np.empty((1, of.size), of.dtype)
    fill(of._checked(theta)[np.newaxis], np.ascontiguousarray(indices, np.int64)[np.newaxis], out)
    row: Array = out[0]
    return row


def _row_of_gradients(self: CompiledPotential, theta: Array, indices: IntArray) -> Array:
    """The ``gradient`` of a class that has ``gradients`` of its own."""
    return _one_row(self, self.gradients, theta, indices)


def gradient_of(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    """For compiled callers: the gradient of the model that ``bound`` belongs to, as its ``_compiled`` gives it."""
    raise NotImplementedError("only compiled code calls this")


_GRADIENTS: dict[type, Callable[..., bool]] = {}


def gradient_with(of: type) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Let :func:`gradient_of` know the function, of the same arguments, that goes with what a model binds."""

    def note(function: Callable[..., bool]) -> Callable[..., bool]:
        _GRADIENTS[of] = function
        return function

    return note


@overload(gradient_of, jit_options=PART)
def _choose_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    return _GRADIENTS.get(getattr(bound, "instance_class", None))  # type: ignore[arg-type]


@lean
def fits(theta, indices, out, size, n_data):  # type: ignore[no-untyped-def]
    """Whether shapes agree and all indices lie within the data: what keeps compiled code inside its arrays."""
    if theta.shape[1] != size or out.shape != theta.shape or indices.shape[0] != theta.shape[0]:
        return False
    inside = indices.shape[1] > 0
    for r in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            inside &= np.uint64(indices[r, j]) < np.uint64(n_data)  # a negative index becomes a huge one
    return inside
