"""What a data set is to its users."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stalegrad.types import Array, IntArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and labels, split as the data set's authors did.

    Args:
        name: what it is called here.
        X: training inputs, the data along the first axis.
        y: their labels.
        X_test: test inputs.
        y_test: their labels.
        classes: names of the labels, in the order of their values.
        page: where it comes from, with its licence and how to cite it.
    """

    name: str
    X: Any
    y: IntArray
    X_test: Any
    y_test: IntArray
    classes: tuple[str, ...]
    page: str

    def __repr__(self) -> str:
        shapes = (" × ".join(f"{side:,}" for side in part.shape) for part in (self.X, self.X_test))
        return f"Dataset({self.name}: train {next(shapes)}, test {next(shapes)}, {len(self.classes)} classes)"


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix in compressed sparse row form, which the models of :mod:`stalegrad.potentials` take as it is.

    Row i has the entries data[k] in the columns indices[k], for indptr[i] ≤ k < indptr[i + 1]. The names are SciPy's:
    ``scipy.sparse.csr_matrix((X.data, X.indices, X.indptr), X.shape)`` is the same matrix.

    >>> SparseRows(np.ones(3), np.array([0, 2, 1]), np.array([0, 2, 3]), (2, 3)).toarray()
    array([[1., 0., 1.], [0., 1., 0.]])
    """

    data: Array
    indices: IntArray
    indptr: IntArray
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def tocsr(self) -> "SparseRows":
        """Itself: how sparse matrices are known to each other."""
        return self

    def toarray(self) -> Array:
        """The same matrix with its zeros."""
        dense = np.zeros(self.shape, self.data.dtype)
        dense[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.indices] = self.data
        return dense
