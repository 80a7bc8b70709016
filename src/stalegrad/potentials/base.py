"""What the rest of stalegrad needs of a model: the gradient of its potential on a minibatch.

The potential of a posterior is U(θ) = −log p(θ) − Σ_i log p(d_i | θ), over N data. A worker needs its unbiased
estimate from a minibatch of J data,

    g̃(θ) = −∇log p(θ) − (N/J) Σ_{i ∈ batch} ∇log p(d_i | θ).

θ is always one flat vector. Engines, servers and kernels use nothing else of a model.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive, no_likelihood, no_prediction
from stalegrad.potentials.traced import Traced
from stalegrad.potentials.wire.formats import EXACT, WireFormat


class Potential(ABC):
    """A model as the workers see it. Subclass it, or wrap a function with :func:`from_gradient`.

    Args:
        size: n, the number of parameters.
        minibatches: which data the k-th gradient of each worker is computed on; it has N and J.
        dtype: float32 or float64, of θ and of the gradient.
    """

    fork_safe = False
    """Whether a process that has computed this gradient may be forked: true if it starts no threads."""

    addressed: bool = False
    """Whether the answer of a worker depends on its address beyond its minibatch: true where :meth:`answer` is
    overridden. The execution of a trace then calls it, and :meth:`gradients` otherwise."""

    epoch: int = 1
    """How many answers of a worker belong together, the first of them at a multiple of this number, because what it
    remembers of that one goes into the others. A worker that was replaced, or whose answer was lost, goes on with the
    next multiple, so that whatever a trace holds of an epoch is its beginning."""

    wire: WireFormat = EXACT
    """How points and answers travel between its workers and their server."""

    bound: Any = None
    """What compiled callers need of the model, see :mod:`stalegrad.potentials.compiled`; None if only Python can call
    its gradient."""

    def __init__(self, size: int, minibatches: Minibatches, dtype: np.dtype[Any]) -> None:
        self.size = size
        self.minibatches = minibatches
        self.dtype = dtype

    @property
    def n_data(self) -> int:
        """N, the number of data."""
        return self.minibatches.n_data

    @property
    def batch_size(self) -> int:
        """J, the number of data behind one gradient."""
        return self.minibatches.batch_size

    @property
    def traced(self) -> Traced | None:
        """The gradient as JAX can follow it, for programs of many updates; None where it cannot."""
        return None

    @abstractmethod
    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃(θ) on the data ``indices``: a vector of ``size`` entries of ``dtype``."""

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ for R repetitions at once: ``theta`` (R, n) and int64 ``indices`` (R, J) fill ``out`` (R, n).

        Row r must get exactly the bits that ``gradient(theta[r], indices[r])`` gives. Compiled potentials override
        this loop; it is what makes many repetitions of one trace cheap. All three arrays are C-contiguous.
        """
        for row in range(theta.shape[0]):
            gradient = self.gradient(theta[row], indices[row])
            if np.shape(gradient) != (self.size,):
                raise GradientError(f"the gradient has shape {np.shape(gradient)}; wanted is ({self.size},)")
            out[row] = gradient

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """What a worker answers when it is sent ``points`` (R, n): by default g̃ on its minibatch, into ``out`` (R, n).

        It must be a function of the points and of the address, as everything is that a replay has to find again.
        """
        seed, chain, worker, count, first = address
        if len(points) == 1:  # the way of all real workers, without the checks of many addresses
            indices = self.minibatches.draw(seed, chain, worker, count, first)[None]
        else:
            indices = self.minibatches.draw_many(seed, chain, [worker], [count], len(points), first)[0]
        self.gradients(points, indices, out)

    def gradient_numbers(self, seed: int, chain: int, worker: int, count: int) -> range:
        """The minibatches of a worker that go into its answer number ``count``: one, unless it makes several steps."""
        return range(count, count + 1)

    def for_worker(self) -> "Potential":
        """The model for one worker, or one execution of a trace: itself, or a copy where it keeps former answers."""
        return self

    def full_gradient(self, theta: Array) -> Array:
        """∇U(θ) on all data, exactly: for checks, references and diagnostics."""
        return self.gradient(np.ascontiguousarray(theta, self.dtype), np.arange(self.n_data))

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """The named pieces of the flat θ, in order, with their shapes. One vector ``theta`` by default."""
        return {"theta": (self.size,)}

    def variables(self, draws: Array) -> dict[str, Array]:
        """Draws of θ, (…, n), as named variables, each (…, its shape). Models with constrained parameters transform."""
        return split(draws, self.layout)

    @property
    def is_network(self) -> bool:
        """Whether its weights have no meaning of their own, so that it is judged by its :meth:`predictions`."""
        return False

    def predictions(self, rows: int) -> Callable[[Array], Array] | None:
        """What the model predicts for at most so many of its own data, as a function of θ; None if it does not say.

        A network says it: its weights have no meaning of their own, so a run of it is judged by what it predicts. The
        coefficients of a regression do have one, and are judged themselves.
        """
        return None

    def predictive(self, *args: Any, **kwargs: Any) -> Predictive:
        """The function of θ that says what it predicts for some inputs, see :mod:`stalegrad.potentials.prediction`.

        ``run.predict(potential.predictive(X))`` averages it over a posterior.
        """
        raise no_prediction(self)

    def log_likelihood(self, theta: Array) -> Array:
        """log p(d_i | θ) of each of the model's own data, (N,), in float64.

        Unlike U it has all its constants: ``run.to_arviz(log_likelihood=potential)`` hands it to ArviZ, whose
        leave-one-out cross-validation compares models by it.
        """
        raise no_likelihood(self)

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float | None:
        """The mean of −log p(d_i | θ) over some data, up to a constant, for displays; None if it does not say."""
        return None

    def initial(self) -> Array:
        """Where a chain starts unless the user says otherwise: a fresh copy. The origin by default."""
        return np.zeros(self.size, self.dtype)


def split(draws: Array, layout: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Cut the last axis of ``draws`` into the named pieces of a layout.

    >>> pieces = split(np.arange(6.0)[None], {"weights": (2, 2), "bias": (2,)})
    >>> pieces["weights"].shape, pieces["bias"].tolist()
    ((1, 2, 2), [[4.0, 5.0]])
    """
    ends = np.cumsum([math.prod(shape) for shape in layout.values()])
    pieces = np.split(draws, ends[:-1], axis=-1)
    shapes = layout.values()
    return {name: p.reshape(p.shape[:-1] + s) for name, p, s in zip(layout, pieces, shapes, strict=True)}
