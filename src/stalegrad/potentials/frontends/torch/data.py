"""Where the data of a minibatch come from: tensors that hold all of them, or a Dataset that is asked for some."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset, default_collate

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import IntArray
from stalegrad.potentials.frontends.torch.batch import Raw, length, mapped, tensors_of

ALIGNMENT = 64
"""Bytes: MKL promises the same bits again for the same numbers only at addresses of the same alignment."""

Collate = Callable[[list[Any]], Any]
"""From the items of a minibatch to the minibatch."""


class Data(Protocol):
    """N data that can be fetched by their indices."""

    shareable: bool
    """Whether a process that has loaded them may be forked."""

    def __len__(self) -> int: ...

    def batch(self, indices: IntArray) -> Raw:
        """A tensor, tuple or dict of tensors (J, …)."""
        ...


class TensorData:
    """Tensors on the device of the model that hold all data. Pickled as NumPy arrays, which worker processes share.

    Args:
        fields: a tensor, tuple or dict of tensors (N, …).
    """

    shareable = True

    def __init__(self, fields: Raw) -> None:
        self.fields = fields

    def __len__(self) -> int:
        return length(self.fields)

    def batch(self, indices: IntArray) -> Raw:
        """Rows gathered; where they follow each other, views, unless one would start at an odd address."""
        first, last = int(indices[0]), int(indices[-1]) + 1
        adjacent = last - first == indices.size and np.array_equal(indices, np.arange(first, last))
        if adjacent and first >= 0 and last <= len(self):
            rows: Raw = mapped(lambda field: field[first:last], self.fields)
            if all(view.data_ptr() % ALIGNMENT == 0 for view in tensors_of(rows)):
                return rows
        places = torch.from_numpy(np.ascontiguousarray(indices, np.int64)).to(tensors_of(self.fields)[0].device)
        gathered: Raw = mapped(lambda field: field.index_select(0, places), self.fields)
        return gathered

    def __reduce__(self) -> tuple[Any, ...]:
        device = tensors_of(self.fields)[0].device
        return _from_arrays, (mapped(lambda field: field.cpu().numpy(), self.fields), device)


def _from_arrays(fields: Any, device: torch.device) -> TensorData:
    return TensorData(_each_array(fields, lambda name, array: tensor(name, array, device)))


class ItemData:
    """A map-style Dataset, asked for its data each time: slower than tensors, but it may hold more than memory.

    The items of a minibatch are fetched in one call where the Dataset has ``__getitems__``, and one by one elsewhere.
    """

    shareable = False  # it may have files open

    def __init__(self, dataset: Any, collate: Collate, device: torch.device) -> None:
        self.dataset, self.collate, self.device = dataset, collate, device

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: IntArray) -> Raw:
        """Fetched, collated and brought to the device."""
        places = [int(i) for i in indices]
        together = getattr(self.dataset, "__getitems__", None)
        items = [self.dataset[i] for i in places] if together is None else together(places)
        return _tensors_only(self.collate(items), self.device)


def as_data(data: Any, device: torch.device, collate: Collate | None) -> tuple[Data, int | None]:
    """The data that a user's arrays, data set, Dataset or DataLoader mean, and the batch size of a DataLoader."""
    if isinstance(data, DataLoader):
        _refuse_order(data)
        found, _ = as_data(data.dataset, device, collate or data.collate_fn)
        return found, data.batch_size
    if isinstance(data, IterableDataset):
        problem = "is an IterableDataset: minibatches are addressed by the numbers of their data, so that runs replay"
        remedy = "Give a map-style Dataset, with __len__ and __getitem__; list(dataset) is one if it fits into memory."
        raise ArgumentError("data", data, problem, remedy)
    if collate is not None and not callable(collate):
        raise ArgumentError("collate", collate, "cannot be called", "Give a function from a list of items to a batch.")
    if isinstance(data, TensorDataset) and len(data.tensors) > 1 and collate is None:
        data = data.tensors
    elif hasattr(data, "X") and hasattr(data, "y") and not hasattr(data, "__getitem__"):  # as in stalegrad.datasets
        data = data.X, data.y
    if _are_arrays(data):
        return _tensors(data, device), None
    if isinstance(data, tuple) or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        problem = f"is a {type(data).__name__}"
        remedy = (
            "Give a pair (X, y) of arrays or tensors, a dict of them, a data set with X and y, a map-style torch "
            "Dataset, or a DataLoader of one."
        )
        raise ArgumentError("data", data, problem, remedy)
    return _items(data, collate or default_collate, device), None


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


def tensors(name: str, value: Any, device: torch.device) -> Raw:
    """One array, a tuple or a dict of arrays, as tensors whose first axes are equally long."""
    fields: Raw = _each_array(value, lambda part, array: tensor(f"{name}{part}", array, device))
    found = tensors_of(fields)
    lengths = {t.shape[0] if t.ndim else 0 for t in found}
    if len(lengths) != 1 or 0 in lengths:
        shapes = " and ".join(str(tuple(t.shape)) for t in found)
        remedy = "Give arrays whose first axes, which count the data, are equally long and not empty."
        raise ArgumentError(name, type(value).__name__, f"has shapes {shapes}", remedy)
    return fields


@contextmanager
def as_in_data(X: Any) -> Iterator[None]:
    """Say of whatever a module cannot be applied to that it is X."""
    remedy = "Give inputs as they were in data, without y, in arrays or tensors whose first axis counts the rows."
    if isinstance(X, Dataset | DataLoader):
        made = "torch.stack([x for x, _ in dataset]) makes them of a Dataset of pairs."
        raise ArgumentError("X", X, f"is a {type(X).__name__}", f"{remedy} {made}")
    try:
        yield
    except ArgumentError:
        raise
    except Exception as error:
        problem = f"is nothing that the module can be applied to ({type(error).__name__}: {error})"
        raise ArgumentError("X", X, problem, remedy) from error


def _each_array(value: Any, convert: Callable[[str, Any], torch.Tensor]) -> Any:
    if isinstance(value, Mapping):
        return {key: convert(f"[{key!r}]", array) for key, array in value.items()}
    if isinstance(value, tuple | list) and _are_arrays(value):
        return tuple(convert(f"[{place}]", array) for place, array in enumerate(value))
    return convert("", value)


def _are_arrays(data: Any) -> bool:
    """Whether it holds all data: an array, or a tuple, list or dict of arrays. Lists of items are Datasets."""
    if isinstance(data, Mapping):
        return len(data) > 0 and all(_is_array(value) for value in data.values())
    if isinstance(data, tuple):
        return len(data) > 1 and all(isinstance(value, list) or _is_array(value) for value in data)
    if isinstance(data, list):
        return len(data) == 2 and all(_is_array(value) for value in data)
    return _is_array(data)


def _is_array(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (
        hasattr(value, "__array__") and not isinstance(value, Mapping) and np.ndim(value) > 0
    )


def _tensors(data: Any, device: torch.device) -> TensorData:
    if isinstance(data, tuple | list) and len(data) == 2:
        x, y = tensor("X", data[0], device), tensor("y", data[1], device)
        if x.ndim == 0 or y.ndim == 0 or x.shape[0] != y.shape[0] or x.shape[0] == 0:
            problem = f"has shapes {tuple(x.shape)} and {tuple(y.shape)}"
            remedy = "Give arrays whose first axes, which count the data, are equally long and not empty."
            raise ArgumentError("data", "(X, y)", problem, remedy)
        return TensorData((x, y))
    return TensorData(tensors("data", data, device))


def _items(dataset: Any, collate: Collate, device: torch.device) -> ItemData:
    data = ItemData(dataset, collate, device)
    if len(data) == 0:
        raise ArgumentError("data", dataset, "is empty", "Give at least one datum.")
    try:
        first, again = data.batch(np.array([0])), data.batch(np.array([0]))
    except Exception as error:
        problem = f"does not give pairs (x, y) of numbers, nor tuples or dicts ({type(error).__name__}: {error})"
        remedy = "Let each item be a pair, tuple or dict of tensors, arrays or numbers, or give collate=."
        raise ArgumentError("data", dataset, problem, remedy) from error
    if not all(map(torch.equal, tensors_of(first), tensors_of(again))):
        remedy = "Take random augmentation out: a run could not be replayed, and its target would not be a posterior."
        raise ArgumentError("data", dataset, "gives another datum 0 each time it is asked", remedy)
    return data


def _tensors_only(batch: Any, device: torch.device) -> Raw:
    """A collated minibatch on the device, or an error that says what of it is not a tensor."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    parts = dict(batch) if isinstance(batch, Mapping) else dict(enumerate(batch))
    for name, part in parts.items():
        if not isinstance(part, torch.Tensor):
            raise TypeError(f"the entry {name!r} of a minibatch is a {type(part).__name__}, not a tensor")
    moved: dict[Any, torch.Tensor] = {name: part.to(device) for name, part in parts.items()}
    return moved if isinstance(batch, Mapping) else tuple(moved.values())


def _refuse_order(loader: Any) -> None:
    """A DataLoader is its dataset, collate function and batch size; the order is not its own to choose."""
    if isinstance(loader.dataset, IterableDataset):
        return  # refused with its own reason
    problem = None
    if loader.batch_sampler is None or loader.batch_size is None:
        problem = "chooses its minibatches by a batch sampler of its own, or makes none"
    elif not isinstance(loader.sampler, SequentialSampler):
        problem = f"chooses its data by a {type(loader.sampler).__name__}"
    elif loader.drop_last:
        problem = "drops the last data of an epoch, which belong to the posterior"
    if problem is not None:
        problem += ", but which data a minibatch holds is a function of the run's seed here, so that runs replay"
        remedy = "Give DataLoader(dataset, batch_size=…, collate_fn=…) with neither, or its .dataset."
        raise ArgumentError("data", loader, problem, remedy)
