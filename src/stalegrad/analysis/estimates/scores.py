"""How good predicted probabilities of classes are: accuracy, log-likelihood, Brier score and calibration.

Everywhere p_ik is the predicted probability that row i is of class k, and y_i ∈ {0, …, K−1} is what it was. The
confidence of a row is c_i = max_k p_ik, the probability of the class that would be named.
"""

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import finite_array, whole_number

_FLOAT64 = np.dtype(np.float64)
_SUM_TOLERANCE = 1e-4  # of Σ_k p_ik: wide enough for float32 and thousands of classes

DEFAULT_BINS = 10

Bins = int | npt.ArrayLike
"""A number of bins of equal width on [0, 1], or their edges 0 = e_0 < e_1 < … < e_B = 1."""


def accuracy(probabilities: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """(1/n) Σ_i [argmax_k p_ik = y_i]; of equal probabilities the first class is named.

    >>> accuracy([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]], [0, 1, 0])
    0.6666666666666666
    """
    return _accuracy(*_checked(probabilities, y))


def mean_log_likelihood(probabilities: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """(1/n) Σ_i log p_{i y_i}: minus the cross-entropy. It is −∞ where something happened that was held impossible.

    >>> mean_log_likelihood([[0.5, 0.5], [0.25, 0.75]], [0, 0])  # (log ½ + log ¼)/2
    -1.0397207708399179
    """
    return _mean_log_likelihood(*_checked(probabilities, y))


def brier_score(probabilities: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """(1/n) Σ_i Σ_k (p_ik − [y_i = k])², from 0 for perfect to 2 for certain and wrong (Brier, 1950).

    >>> brier_score([[0.5, 0.5], [0.0, 1.0]], [0, 0])  # (½ + 2)/2
    1.25
    """
    return _brier_score(*_checked(probabilities, y))


def calibration_error(probabilities: npt.ArrayLike, y: npt.ArrayLike, bins: Bins = DEFAULT_BINS) -> float:
    """Expected calibration error, ECE = Σ_b (n_b/n) |accuracy_b − confidence_b| (Guo et al., ICML 2017).

    The bins and what is averaged in them are those of :func:`reliability_curve`. Calibrated predictions do not score 0:
    chance alone leaves about Σ_b √(n_b)/n · √(2 a_b (1 − a_b)/π), a_b the accuracy of bin b.

    >>> calibration_error([[0.8, 0.2]] * 4, [0, 0, 0, 1])  # named with 0.8, right in 3 of 4
    0.05
    """
    return reliability_curve(probabilities, y, bins).error


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often predictions of each confidence were right.

    Args:
        edges: e_0, …, e_B.
        count: n_b, rows with a confidence in (e_{b−1}, e_b].
        confidence: mean c_i of those rows; NaN where there are none.
        accuracy: share of those rows whose class was named; NaN where there are none.
    """

    edges: Array
    count: IntArray
    confidence: Array
    accuracy: Array

    @property
    def error(self) -> float:
        """Σ_b (n_b/n) |accuracy_b − confidence_b|, see :func:`calibration_error`."""
        full = self.count > 0
        gap = np.abs(self.accuracy[full] - self.confidence[full])
        return float(self.count[full] @ gap / self.count.sum())

    def __add__(self, other: object) -> "Reliability":
        """The curve of both sets of predictions together; over the same bins."""
        if not isinstance(other, Reliability):
            return NotImplemented
        if not np.array_equal(self.edges, other.edges):
            raise ArgumentError("other", other, "has other bins", "Add curves with the same edges.")
        count = self.count + other.count
        with np.errstate(invalid="ignore"):
            confidence, accuracy = (
                (self.count * np.nan_to_num(mine) + other.count * np.nan_to_num(theirs)) / count
                for mine, theirs in ((self.confidence, other.confidence), (self.accuracy, other.accuracy))
            )
        return Reliability(self.edges, count, confidence, accuracy)


def reliability_curve(probabilities: npt.ArrayLike, y: npt.ArrayLike, bins: Bins = DEFAULT_BINS) -> Reliability:
    """Rows sorted into bins by their confidence c_i, with the mean confidence and the accuracy in each.

    Bin b is (e_{b−1}, e_b]. With K classes no confidence is below 1/K, so the first bins may be empty.

    Args:
        probabilities: p_ik, (n, K).
        y: the n classes.
        bins: a number of bins of equal width, or their edges from 0 to 1.

    >>> curve = reliability_curve([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]], [0, 1, 1], bins=[0, 0.8, 1])
    >>> curve.count, curve.confidence.round(2), curve.accuracy
    (array([2, 1]), array([0.65, 0.9 ]), array([0.5, 1. ]))
    """
    return _reliability(*_checked(probabilities, y), _edges(bins))


@dataclass(frozen=True)
class Scores:
    """The four scores of one set of predictions."""

    accuracy: float
    mean_log_likelihood: float
    brier_score: float
    calibration_error: float

    @property
    def nll(self) -> float:
        """The negative log-likelihood of a row, −``mean_log_likelihood``: the cross-entropy, small is good."""
        return -self.mean_log_likelihood

    def as_dict(self) -> dict[str, float]:
        """Name and value of each."""
        return asdict(self)


def score(probabilities: npt.ArrayLike, y: npt.ArrayLike, bins: Bins = DEFAULT_BINS) -> Scores:
    """All four at once.

    >>> score([[0.5, 0.5], [0.5, 0.5]], [0, 1]).accuracy
    0.5
    """
    p, classes = _checked(probabilities, y)
    error = _reliability(p, classes, _edges(bins)).error
    return Scores(_accuracy(p, classes), _mean_log_likelihood(p, classes), _brier_score(p, classes), error)


def _accuracy(p: Array, classes: IntArray) -> float:
    return float((p.argmax(axis=1) == classes).mean())


def _mean_log_likelihood(p: Array, classes: IntArray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(p[np.arange(len(p)), classes]).mean())


def _brier_score(p: Array, classes: IntArray) -> float:
    truth = np.zeros_like(p)
    truth[np.arange(len(p)), classes] = 1
    return float(np.square(p - truth).sum(axis=1).mean())


def _reliability(p: Array, classes: IntArray, edges: Array) -> Reliability:
    confidence, right = np.minimum(p.max(axis=1), 1.0), p.argmax(axis=1) == classes
    index = np.searchsorted(edges[1:-1], confidence, side="left")
    size = edges.size - 1
    count = np.bincount(index, minlength=size)
    sums = (np.bincount(index, weights=of, minlength=size) for of in (confidence, right))
    with np.errstate(invalid="ignore"):
        means = [total / count for total in sums]
    return Reliability(edges, count, *means)


def checked_probabilities(value: npt.ArrayLike) -> Array:
    """(n, K) in float64, every row a probability distribution."""
    p = finite_array("probabilities", value, _FLOAT64, ndim=2)
    if p.shape[0] < 1 or p.shape[1] < 2:
        problem = f"has shape {p.shape}"
        raise ArgumentError(
            "probabilities", value, problem, "Give a row per datum and a column for each of ≥ 2 classes."
        )
    if p.min() < 0 or np.abs(p.sum(axis=1) - 1).max() > _SUM_TOLERANCE:
        problem = "has negative entries, or rows that do not add up to 1"
        raise ArgumentError("probabilities", value, problem, "Give probabilities, not logits or log-probabilities.")
    return p


def _checked(probabilities: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Array, IntArray]:
    p = checked_probabilities(probabilities)
    return p, checked_classes(p, y)


def checked_classes(p: Array, y: npt.ArrayLike) -> IntArray:
    """The classes of rows whose probabilities have been checked."""
    values = finite_array("y", y, _FLOAT64, ndim=1)
    classes = values.astype(np.int64)
    if values.size != len(p):
        raise ArgumentError("y", y, f"has {values.size} entries for {len(p)} rows of probabilities", "Give one a row.")
    if np.any(classes != values) or classes.min() < 0 or classes.max() >= p.shape[1]:
        remedy = f"Give whole numbers from 0 to {p.shape[1] - 1}, one column of probabilities each."
        raise ArgumentError("y", y, "holds values that are not classes", remedy)
    return classes


def _edges(bins: Bins) -> Array:
    if np.ndim(bins) == 0:
        return np.linspace(0, 1, whole_number("bins", bins, least=1) + 1)
    edges = finite_array("bins", bins, _FLOAT64, ndim=1)
    if edges.size < 2 or edges[0] != 0 or edges[-1] != 1 or np.any(np.diff(edges) <= 0):
        raise ArgumentError(
            "bins", bins, "is not an increasing list from 0 to 1", "Give edges such as [0, 0.5, 0.9, 1]."
        )
    return edges
