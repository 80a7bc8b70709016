"""What draws predict, one after the other: read in blocks, predicted, averaged, and forgotten."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.analysis.estimates.draw_blocks import draw_blocks, kept_draws
from stalegrad.analysis.estimates.normal_prediction import PredictiveNormal
from stalegrad.analysis.estimates.prediction import PredictiveAverage


class DrawPrediction(NamedTuple):
    """What one draw predicts for every row of some data.

    >>> draws, step_sizes = np.arange(6.0).reshape(2, 3, 1), np.full((2, 3), 0.1)
    >>> first = next(predictions(draws, step_sizes, lambda theta: np.array([theta[0], 1 - theta[0]])))
    >>> first.chain, first.draw, first.weight, first.prediction
    (0, 0, 0.1, array([0., 1.]))
    """

    chain: int
    draw: int
    """Counted among the draws that are kept."""
    theta: Array
    """The draw itself."""
    weight: float
    """h_l."""
    prediction: Any
    """Probabilities (rows, classes), or a pair (mean, variance)."""


def predictions(
    draws: Array, step_sizes: Array, predict: Callable[[Array], Any], *, batch: int | None = None, thin: int = 1
) -> Iterator[DrawPrediction]:
    """The predictions of all chains' first draws, then of their second ones, and so on.

    Args:
        draws: (chain, draw, parameter), read in blocks, see
            :func:`~stalegrad.analysis.estimates.draw_blocks.draw_blocks`.
        step_sizes: h_l, (chain, draw).
        predict: see :meth:`stalegrad.Run.predict`.
        batch: draws that predict gets at once.
        thin: predict with every thin-th draw.

    >>> draws, step_sizes = np.arange(6.0).reshape(2, 3, 1), np.full((2, 3), 0.1)
    >>> stream = predictions(draws, step_sizes, lambda theta: theta[0] + np.zeros(4), thin=2)
    >>> [(each.chain, each.draw, float(each.prediction[0])) for each in stream]
    [(0, 0, 1.0), (1, 0, 4.0)]
    """
    at_once = 1 if batch is None else whole_number("batch", batch, least=1)
    kept, chains = kept_draws(draws, thin), draws.shape[0]
    for where, block in draw_blocks(draws, thin):
        rows = block.swapaxes(0, 1).reshape(-1, block.shape[2])
        weights = step_sizes[:, kept[where].start : kept[where].stop : thin].T.ravel()
        for first in range(0, len(rows), at_once):
            some = rows[first : first + at_once]
            made = [predict(some[0])] if batch is None else _unstacked(predict(some), len(some), predict)
            for row, prediction in enumerate(made, first):
                draw, chain = divmod(row, chains)
                yield DrawPrediction(chain, where.start + draw, rows[row], float(weights[row]), prediction)


def average_predictions(
    draws: Array, step_sizes: Array, predict: Callable[[Array], Any], *, batch: int | None = None, thin: int = 1
) -> PredictiveAverage | PredictiveNormal:
    """All :func:`predictions` averaged with their weights; of normals, if they come as pairs (mean, variance).

    >>> draws, step_sizes = np.array([[[0.2], [0.4]]]), np.array([[0.1, 0.1]])
    >>> average = average_predictions(draws, step_sizes, lambda theta: np.array([[theta[0], 1 - theta[0]]]))
    >>> average.probabilities.round(2)
    array([[0.3, 0.7]])
    """
    classes, normals = PredictiveAverage(), PredictiveNormal()
    for each in predictions(draws, step_sizes, predict, batch=batch, thin=thin):
        if _is_pair(each.prediction):
            mean, variance = each.prediction
            normals.add(mean, variance, each.weight)
        else:
            classes.add(each.prediction, each.weight)
    if classes.count and normals.count:
        raise ArgumentError("predict", predict, "gave both probabilities and pairs", "Return one kind for all draws.")
    return normals if normals.count else classes


def _is_pair(prediction: Any) -> bool:
    """Whether a prediction is one of numbers; refuses what is neither that nor one of classes."""
    if isinstance(prediction, tuple) and len(prediction) == 2:
        return True
    if isinstance(prediction, tuple) or np.ndim(prediction) != 2:
        given = f"a tuple of {len(prediction)}" if isinstance(prediction, tuple) else f"shape {np.shape(prediction)}"
        remedy = "Return probabilities (rows, classes), or for numbers a pair (mean, variance) of each row."
        raise ArgumentError("prediction", prediction, f"is {given}", remedy)
    return False


def _unstacked(made: Any, count: int, predict: Callable[[Array], Any]) -> list[Any]:
    """The predictions of ``count`` draws one by one."""
    parts = [np.asarray(part) for part in (made if isinstance(made, tuple) else (made,))]
    if parts[0].shape[:1] != (count,):
        problem = f"gave shape {parts[0].shape} for {count} draws"
        raise ArgumentError("predict", predict, problem, "With batch=, it returns one prediction a draw.")
    if not isinstance(made, tuple):
        return list(parts[0])
    return list(zip(*np.broadcast_arrays(*parts), strict=True))
