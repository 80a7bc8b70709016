"""How uncertain predictions of classes are, whether that tells strange inputs from others, and what abstaining gains.

Everywhere p_ik is the predicted probability that row i is of class k, averaged over draws, and u_i is how uncertain the
row is: its entropy, its mutual information, or anything else that is larger where less is known.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, real_number
from stalegrad.analysis.estimates.scores import checked_classes, checked_probabilities

_FLOAT64 = np.dtype(np.float64)


def entropy(probabilities: npt.ArrayLike) -> Array:
    """H(p_i) = −Σ_k p_ik log p_ik of every row, in nats, from 0 for certain to log K; 0 log 0 is 0.

    >>> entropy([[1.0, 0.0], [0.5, 0.5]]).round(4)
    array([0.    , 0.6931])
    """
    return entropies(checked_probabilities(probabilities))


def entropies(p: Array) -> Array:
    """:func:`entropy` of probabilities that have been checked."""
    safe = np.where(p > 0, p, 1.0)
    return np.asarray(np.maximum(-(safe * np.log(safe)).sum(axis=-1), 0.0))


def auroc(inside: npt.ArrayLike, outside: npt.ArrayLike) -> float:
    """The probability that an input from outside is more uncertain than one from inside; of equal ones half counts.

    It is the area under the receiver operating characteristic of "u_i is above a threshold" as a test for inputs that
    are out of distribution: 1 where it tells all of them, ½ where it tells nothing.

    Args:
        inside: u_i of inputs like those of the training.
        outside: u_i of inputs that are not.

    >>> auroc([0.1, 0.2, 0.3], [0.25, 0.9])  # 5 of 6 pairs are in order
    0.8333333333333334
    """
    low, high = _two("inside", inside), _two("outside", outside)
    ordered = np.sort(low)
    below = np.searchsorted(ordered, high, side="left")
    not_above = np.searchsorted(ordered, high, side="right")
    return float((below + not_above).mean() / (2 * len(low)))


def false_positive_rate(inside: npt.ArrayLike, outside: npt.ArrayLike, *, detected: float = 0.95) -> float:
    """FPR at 95 % TPR: the share of ``inside`` that is taken for strange where ``detected`` of the strange are.

    The threshold is the largest at which at least that share of ``outside`` is at or above it.

    Args:
        inside: u_i of inputs like those of the training.
        outside: u_i of inputs that are not.
        detected: the share of ``outside`` that is to be found.

    >>> false_positive_rate([0.1, 0.2, 0.3, 0.4], [0.25, 0.5, 0.6, 0.9], detected=0.75)
    0.0
    """
    low, high = _two("inside", inside), np.sort(_two("outside", outside))[::-1]
    share = real_number("detected", detected, above=0)
    if share > 1:
        raise ArgumentError("detected", detected, "is not a share", "Give a number in (0, 1].")
    wanted = int(np.ceil(share * len(high) - 1e-9))
    return float((low >= high[wanted - 1]).mean())


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """What is gained by answering only where one is sure (El-Yaniv and Wiener, 2010).

    Args:
        coverage: shares of the rows that are answered, the surest first, (1/n, 2/n, …, 1).
        risk: mean loss of those rows.
    """

    coverage: Array
    risk: Array

    @property
    def area(self) -> float:
        """AURC, the mean risk over all coverages; small is good. Where sureness says nothing it is the risk itself."""
        return float(self.risk.mean())

    def at(self, coverage: float) -> float:
        """The risk where at least this share of the rows is answered."""
        share = real_number("coverage", coverage, above=0)
        if share > 1:
            raise ArgumentError("coverage", coverage, "is not a share", "Give a number in (0, 1].")
        return float(self.risk[int(np.ceil(share * len(self.risk) - 1e-9)) - 1])


def risk_coverage(
    probabilities: npt.ArrayLike, y: npt.ArrayLike, uncertainty: npt.ArrayLike | None = None
) -> RiskCoverage:
    """The error rate of the named classes, at every share of rows that are answered, the surest first.

    Rows that are equally uncertain are answered together: each has the mean loss of all of them, so that their order is
    no matter.

    Args:
        probabilities: p_ik, (n, K).
        y: the n classes.
        uncertainty: u_i; by default 1 − max_k p_ik.

    >>> risk_coverage([[0.9, 0.1], [0.6, 0.4]], [0, 1]).risk
    array([0. , 0.5])
    """
    p = checked_probabilities(probabilities)
    wrong = (p.argmax(axis=1) != checked_classes(p, y)).astype(np.float64)
    u = 1 - p.max(axis=1) if uncertainty is None else finite_array("uncertainty", uncertainty, _FLOAT64)
    if u.shape != wrong.shape:
        raise ArgumentError(
            "uncertainty", uncertainty, f"has shape {u.shape}", f"Give one number a row, {wrong.shape}."
        )
    _, group = np.unique(u, return_inverse=True)
    shared = (np.bincount(group, wrong) / np.bincount(group))[group]
    answered = np.arange(1, len(wrong) + 1)
    return RiskCoverage(answered / len(wrong), np.cumsum(shared[np.argsort(u, kind="stable")]) / answered)


def _two(name: str, values: npt.ArrayLike) -> Array:
    array = finite_array(name, values, _FLOAT64)
    if array.ndim != 1 or not len(array):
        raise ArgumentError(name, values, f"has shape {array.shape}", "Give one number an input, in one dimension.")
    return array
