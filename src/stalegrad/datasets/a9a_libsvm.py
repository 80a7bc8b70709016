"""a9a: the Adult census data as 123 binary features, for binary classification."""

from typing import TYPE_CHECKING

import numpy as np

from stalegrad._internal.types import IntArray
from stalegrad.datasets.base import Dataset
from stalegrad.datasets.files import Download, File, read

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
WIDTH = 123


def _file(name: str, sha256: str) -> File:
    return File(name, sha256, Download(name, sha256, (f"{PAGE.removesuffix('.html')}/{name}",)))


TRAIN = _file("a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906")
TEST = _file("a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9")


def a9a() -> Dataset:
    """a9a: 32,561 people for training and 16,281 for testing; who earns more than 50,000 dollars a year?

    ``X`` and ``X_test`` are :class:`scipy.sparse.csr_array` of 123 columns in float32, with 11 to 14 ones a row. Labels
    are −1 and +1, as in the file. Add the bias yourself: ``Logistic(..., intercept=True)``.
    """
    contents = read("a9a", (TRAIN, TEST))
    (X, y), (X_test, y_test) = (parse(contents[file.name], WIDTH) for file in (TRAIN, TEST))
    return Dataset("a9a", X, y, X_test, y_test, classes=("at most 50K", "more than 50K"), page=PAGE)


def parse(text: bytes, width: int) -> "tuple[csr_array[np.float32, tuple[int, int]], IntArray]":
    r"""Rows and labels of a LIBSVM file: in each line the label, then column:value pairs, with columns from 1 on.

    >>> X, y = parse(b"-1 1:1 3:0.5\n+1 2:1\n", width=3)
    >>> X.toarray(), y
    (array([[1. , 0. , 0.5], [0. , 1. , 0. ]], dtype=float32), array([-1,  1], dtype=int8))
    """
    from scipy.sparse import csr_array  # it takes a while to import

    starts = np.cumsum([0] + [line.count(b":") for line in text.splitlines()])
    numbers = np.array(text.replace(b":", b" ").split()).astype(np.float64)
    first = 2 * starts[:-1] + np.arange(starts.size - 1)  # of each line: its label
    pairs = np.delete(numbers, first).reshape(-1, 2)
    entries = pairs[:, 1].astype(np.float32), pairs[:, 0].astype(np.int32) - 1, starts
    return csr_array(entries, shape=(first.size, width)), numbers[first].astype(np.int8)
