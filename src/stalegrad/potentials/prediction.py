"""What one draw of θ predicts: the functions that :meth:`stalegrad.Run.predict` averages, made once for some inputs.

Every model that predicts has ``predictive(X)``. It looks at X once, and gives a function of θ that says of every row of
X

- for classes their probabilities, (rows, classes), or
- for numbers a pair, the mean and the variance of the noise, (rows,) each, or one number for all rows.

The function takes one θ, (n,), or many, (draws, n), of which it gives predictions (draws, rows, …): ``run.predict``
with ``batch=`` calls it so.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array

Predictive = Callable[[Array], Any]
"""From θ, (n,) or (draws, n), to what it predicts."""


def over_draws(predict: Predictive) -> Predictive:
    """A function of one θ as one of one or many: predictions of many are made one by one, and stacked.

    >>> both = over_draws(lambda theta: (theta[0] * np.ones(3), 0.5))
    >>> mean, variance = both(np.array([[1.0], [2.0]]))
    >>> mean.shape, variance.tolist()
    ((2, 3), [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])
    """

    def predicted(theta: Array) -> Any:
        if np.ndim(theta) != 2:
            return predict(theta)
        made = [predict(row) for row in theta]
        if made and isinstance(made[0], tuple):
            pairs = [np.broadcast_arrays(*pair) for pair in made]
            return tuple(np.stack(column) for column in zip(*pairs, strict=True))
        return np.stack(made)

    return predicted


def own_data(X: Any, y: Any) -> bool:
    """Whether a call that may name other data means the model's own; refuses half of a pair."""
    if (X is None) != (y is None):
        given, missing = ("X", "y") if y is None else ("y", "X")
        remedy = "Give both, or neither for the model's own data."
        raise ArgumentError(missing, None, f"is missing beside {given}", remedy)
    return X is None


def no_prediction(potential: Any) -> ArgumentError:
    """Of a model that does not say what it predicts."""
    problem = f"is a {type(potential).__name__}, which does not say what it predicts"
    remedy = "Give run.predict a function of a draw that returns probabilities (rows, classes) or (mean, variance)."
    return ArgumentError("potential", potential, problem, remedy)


def no_likelihood(potential: Any) -> ArgumentError:
    """Of a model that does not say how likely single data are."""
    problem = f"is a {type(potential).__name__}, which does not say how likely each of its data is"
    remedy = "Give a function of a draw that returns log p(d_i | θ) of every datum, (N,)."
    return ArgumentError("potential", potential, problem, remedy)
