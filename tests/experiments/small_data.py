"""Small data like those of a9a."""

import numpy as np
from scipy.sparse import csr_array

from stalegrad.datasets import Dataset

GROUPS = (3, 4, 2)


def rows_of(count, rng):
    """One answer to each of three questions, encoded as a9a's; some rows leave the last one out."""
    starts = np.cumsum((0, *GROUPS[:-1]))
    answers = np.stack([rng.integers(group, size=count) for group in GROUPS], axis=1) + starts
    kept = np.ones(answers.shape, bool)
    kept[: count // 4, -1] = False
    indptr = np.concatenate(([0], np.cumsum(kept.sum(1))))
    entries = np.ones(indptr[-1], np.float32), answers[kept].astype(np.int32), indptr
    return csr_array(entries, shape=(count, sum(GROUPS)))


def small_data():
    """Some 2,000 rows to learn from, 301 to test with."""
    rng = np.random.Generator(np.random.Philox(key=5))
    weights = rng.standard_normal(sum(GROUPS))
    X, X_test = rows_of(2000, rng), rows_of(301, rng)
    y, y_test = (
        np.where(rng.random(part.shape[0]) < 1 / (1 + np.exp(-part.toarray() @ weights)), 1, -1) for part in (X, X_test)
    )
    return Dataset("small", X, y, X_test, y_test, ("no", "yes"), "made for a test")
