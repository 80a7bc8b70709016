"""The data of the logistic-regression benchmarks: a9a itself where it is at hand, else data of the same shape.

a9a is the Adult census data in 123 binary features: 14 questions, each answered by one of several categories, so
that a row holds at most 14 ones. With the intercept the design has 124 columns and 15 nonzeros a row.

Set ``STALEGRAD_DATA`` to a directory that holds ``a9a/a9a.gz`` and ``a9a/a9a.t.gz`` (the LIBSVM text files,
gzip-compressed) to use the real data. Timings hardly differ: what a step costs depends on N, J and the sparsity, which
are the same.
"""

import gzip
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

N_ROWS = 32_561
N_TEST = 16_281
CATEGORIES = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
"""Answers to each of the 14 questions, as a9a encodes them: 123 in all."""
N_FEATURES = sum(CATEGORIES)
POSITIVE_RATE = 0.24
"""Share of the label 1 in a9a."""


@dataclass(frozen=True)
class LogisticData:
    """A binary design with an intercept in the last column, in CSR form, and labels in {0, 1}."""

    source: str
    indptr: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    y: npt.NDArray[np.float32]
    n_columns: int = N_FEATURES + 1

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.y.size, self.n_columns

    @cached_property
    def dense(self) -> npt.NDArray[np.float32]:
        """The design as a dense float32 array."""
        X = np.zeros(self.shape, np.float32)
        X[np.repeat(np.arange(self.y.size), np.diff(self.indptr)), self.indices] = 1
        return X

    def csr(self) -> Any:
        """The design as a SciPy CSR matrix of float32."""
        from scipy.sparse import csr_matrix

        return csr_matrix((np.ones(self.indices.size, np.float32), self.indices, self.indptr), shape=self.shape)


def load(*, test: bool = False) -> LogisticData:
    """The real a9a from ``$STALEGRAD_DATA``, or synthetic data if that is not set: its training or its test set."""
    root = os.environ.get("STALEGRAD_DATA")
    if root:
        return read(Path(root) / "a9a" / ("a9a.t.gz" if test else "a9a.gz"))
    return synthetic(N_TEST, rows_seed=1) if test else synthetic()


def read(path: Path) -> LogisticData:
    """a9a from the LIBSVM text file: a label −1 or +1, then index:1 pairs with indices from 1 to 123."""
    labels, rows = [], []
    with gzip.open(path, "rt", encoding="ascii") as lines:
        for line in lines:
            label, *pairs = line.split()
            labels.append(float(label) > 0)
            rows.append([int(pair.partition(":")[0]) - 1 for pair in pairs] + [N_FEATURES])
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return LogisticData("a9a", indptr, np.concatenate(rows).astype(np.int32), np.array(labels, np.float32))


def synthetic(n_rows: int = N_ROWS, seed: int = 0, rows_seed: int = 0) -> LogisticData:
    """Data shaped like a9a: one answer to each question, some common and some rare, labels from a logistic model.

    ``seed`` gives the model, ``rows_seed`` the rows, so that a test set is another set of rows of the same model.
    """
    model, rng = np.random.default_rng(seed), np.random.default_rng([seed, rows_seed])
    columns, weights, first = [], [], 0
    for size in CATEGORIES:
        probability = model.permutation(1 / np.arange(1, size + 1))
        columns.append(first + rng.choice(size, n_rows, p=probability / probability.sum()))
        weights.append(model.normal(0, 0.7, size))
        first += size
    answers = np.stack(columns, axis=1)
    latent = np.concatenate(weights)[answers].sum(axis=1) + rng.logistic(size=n_rows)
    y = latent > np.quantile(latent, 1 - POSITIVE_RATE)
    indices = np.column_stack([answers, np.full(n_rows, N_FEATURES)])
    indptr = np.arange(n_rows + 1) * indices.shape[1]
    return LogisticData("synthetic", indptr.astype(np.int32), indices.ravel().astype(np.int32), y.astype(np.float32))


def logistic(batch_size: int = 50) -> Any:
    """Logistic regression on these data, for job files: ``function = "a9a_like:logistic"``."""
    from stalegrad.potentials import Logistic

    data = load()
    return Logistic(data.csr(), data.y, batch_size=batch_size)


def dataset() -> Any:
    """The same as a :class:`stalegrad.datasets.Dataset`: without the intercept, labels −1 and +1, and a test set."""
    from stalegrad.datasets import Dataset

    train, test = load(), load(test=True)
    X, X_test = (part.csr()[:, :N_FEATURES] for part in (train, test))
    y, y_test = ((2 * part.y - 1).astype(np.int64) for part in (train, test))
    return Dataset(train.source, X, y, X_test, y_test, ("-1", "+1"), "")
