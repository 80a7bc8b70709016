"""Where the data of a minibatch come from: tensors that hold all of them, or a Dataset that is asked for each."""

from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import TensorDataset, default_collate

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import IntArray

ALIGNMENT = 64
"""Bytes: MKL promises the same bits again for the same numbers only at addresses of the same alignment."""


class Data(Protocol):
    """N data that can be fetched by their indices."""

    shareable: bool
    """Whether a process that has loaded them may be forked."""

    def __len__(self) -> int: ...

    def batch(self, indices: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
        """x (J, …) and y (J, …)."""
        ...

    def given(self) -> Any:
        """What makes them again in another process."""
        ...


class TensorData:
    """x and y as two tensors on the device of the model. Pickled as NumPy arrays, which worker processes share."""

    shareable = True

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return self.x.shape[0]

    def batch(self, indices: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows gathered; where they follow each other, a view, unless it would start at an odd address."""
        first, last = int(indices[0]), int(indices[-1]) + 1
        adjacent = last - first == indices.size and np.array_equal(indices, np.arange(first, last))
        if adjacent and first >= 0 and last <= len(self):
            x, y = self.x[first:last], self.y[first:last]
            if x.data_ptr() % ALIGNMENT == y.data_ptr() % ALIGNMENT == 0:
                return x, y
        rows = torch.from_numpy(np.ascontiguousarray(indices, np.int64)).to(self.x.device)
        return self.x.index_select(0, rows), self.y.index_select(0, rows)

    def given(self) -> Any:
        """x and y as two NumPy arrays."""
        return self.x.cpu().numpy(), self.y.cpu().numpy()


class ItemData:
    """A map-style Dataset of pairs (x, y), asked for every datum each time: slow, but it may hold more than memory."""

    shareable = False  # it may have files open

    def __init__(self, dataset: Any, device: torch.device) -> None:
        self.dataset, self.device = dataset, device

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
        """Collated by torch's own rules."""
        x, y = default_collate([self.dataset[int(i)] for i in indices])
        return x.to(self.device), y.to(self.device)

    def given(self) -> Any:
        """The Dataset as it was given."""
        return self.dataset


def as_data(data: Any, device: torch.device) -> Data:
    """The data that a user's pair, data set or Dataset means."""
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        data = data.tensors
    elif hasattr(data, "X") and hasattr(data, "y") and not hasattr(data, "__getitem__"):  # as in stalegrad.datasets
        data = data.X, data.y
    if isinstance(data, tuple | list):
        if len(data) == 2:
            return _tensors(data[0], data[1], device)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _items(data, device)
    problem = f"is a {type(data).__name__}"
    remedy = "Give a pair (X, y) of arrays or tensors, a data set with X and y, or a map-style torch Dataset."
    raise ArgumentError("data", data, problem, remedy)


def tensor(name: str, value: Any, device: torch.device) -> torch.Tensor:
    """An array or tensor of numbers as a tensor without history, not copied where that can be avoided."""
    if not isinstance(value, torch.Tensor):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            problem = f"is not a numeric array (type {type(value).__name__})"
            raise ArgumentError(name, value, problem, "Give an array or tensor of real numbers.")
        writable = array.flags.writeable and all(stride >= 0 for stride in array.strides)
        value = torch.from_numpy(np.ascontiguousarray(array) if writable else array.copy())
    found: torch.Tensor = value.detach().to(device).contiguous()
    return found


def _tensors(x: Any, y: Any, device: torch.device) -> TensorData:
    x, y = tensor("X", x, device), tensor("y", y, device)
    if x.ndim == 0 or y.ndim == 0 or x.shape[0] != y.shape[0] or x.shape[0] == 0:
        problem = f"has shapes {tuple(x.shape)} and {tuple(y.shape)}"
        remedy = "Give arrays whose first axes, which count the data, are equally long and not empty."
        raise ArgumentError("data", "(X, y)", problem, remedy)
    return TensorData(x, y)


def _items(dataset: Any, device: torch.device) -> ItemData:
    data = ItemData(dataset, device)
    if len(data) == 0:
        raise ArgumentError("data", dataset, "is empty", "Give at least one datum.")
    try:
        (x, y), (x_again, y_again) = data.batch(np.array([0])), data.batch(np.array([0]))
    except Exception as error:
        problem = f"does not give pairs (x, y) of numbers ({type(error).__name__}: {error})"
        raise ArgumentError(
            "data", dataset, problem, "Let each item be a pair of tensors, arrays or numbers."
        ) from error
    if not torch.equal(x, x_again) or not torch.equal(y, y_again):
        remedy = "Take random augmentation out: a run could not be replayed, and its target would not be a posterior."
        raise ArgumentError("data", dataset, "gives another datum 0 each time it is asked", remedy)
    return data
