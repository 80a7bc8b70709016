"""What is sent between the processes of a run on Ray, and how: the model, points, and where modules are."""

import logging
import os
import pickle
import sys
from typing import Any

import ray

from stalegrad._internal.types import Array
from stalegrad.engines.model_transport import store_model
from stalegrad.engines.ray.call_link import Point
from stalegrad.potentials.base import Potential

_STORED = 100 << 10  # bytes: Ray sends smaller values by themselves, without the object store
_LARGE = 64 << 20  # bytes of a model that had better not be sent to every worker

log = logging.getLogger("stalegrad")


def pack_model(potential: Potential) -> tuple[bytes, list[bytes]]:
    """The model as bytes, and apart from them its arrays."""
    body, arrays = store_model(potential)
    size = len(body) + sum(array.nbytes for array in arrays)
    if size > _LARGE:
        log.warning(
            "the model is %d MB large and is sent to every worker: let each load its data itself, with "
            "sg.potentials.from_loader", size >> 20,
        )  # fmt: skip
    return body, [bytes(array) for array in arrays]


def unpack_model(model: tuple[bytes, list[bytes]], path: list[str]) -> Potential:
    """The model, with arrays of its own that it may write to."""
    extend_path(path)
    body, arrays = model
    potential: Potential = pickle.loads(body, buffers=[bytearray(array) for array in arrays])
    return potential


def pack_point(point: Point) -> Any:
    """What is sent of a point: its values; but a large one that several workers read is stored once for all of them.

    A reference costs its reader another round trip, so a point with one reader goes by value.
    """
    if len(point.readers) < 2 or point.values.nbytes < _STORED:
        return point.values
    if point.packed is None:
        point.packed = ray.put(point.values)
    return point.packed


def unpack_point(packed: Any, timeout: float) -> Array:
    """A point that was sent by value, or lies in the object store, maybe on a node that is cut off by now."""
    point: Array = ray.get(packed, timeout=timeout) if isinstance(packed, ray.ObjectRef) else packed
    return point


def extend_path(path: list[str]) -> None:
    """Where the user's process looks for modules, as far as those places are here, too."""
    sys.path.extend(entry for entry in path if entry not in sys.path and os.path.exists(entry))


def in_a_line(error: BaseException) -> str:
    """An error's text without line breaks: Ray's are long."""
    return " ".join(str(error).split())
