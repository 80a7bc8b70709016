"""What a data set is to its users."""

from dataclasses import dataclass
from typing import Any

from stalegrad._internal.types import IntArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and labels, split as the data set's authors did.

    Args:
        name: what it is called here.
        X: training inputs, the data along the first axis; also called X_train.
        y: their labels; also called y_train.
        X_test: test inputs.
        y_test: their labels.
        classes: names of the labels, in the order of their values.
        page: where it comes from, with its licence and how to cite it.

    >>> import numpy as np
    >>> X, y = np.zeros((100, 3)), np.zeros(100, int)
    >>> Dataset("coins", X[:80], y[:80], X[80:], y[80:], classes=("tails", "heads"), page="")
    Dataset(coins: train 80 × 3, test 20 × 3, 2 classes)
    """

    name: str
    X: Any
    y: IntArray
    X_test: Any
    y_test: IntArray
    classes: tuple[str, ...]
    page: str

    @property
    def X_train(self) -> Any:
        """The training inputs, :attr:`X`."""
        return self.X

    @property
    def y_train(self) -> IntArray:
        """The labels of the training inputs, :attr:`y`."""
        return self.y

    def __repr__(self) -> str:
        shapes = (" × ".join(f"{side:,}" for side in part.shape) for part in (self.X, self.X_test))
        return f"Dataset({self.name}: train {next(shapes)}, test {next(shapes)}, {len(self.classes)} classes)"
