"""A model on its way to other processes: a pickle made by cloudpickle, and its arrays apart from it."""

import pickle

import cloudpickle

from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials.base import Potential


def store_model(potential: Potential) -> tuple[bytes, list[memoryview]]:
    """The model as bytes, and apart from them its arrays, which all workers can then share."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = cloudpickle.dumps(potential, protocol=5, buffer_callback=buffers.append)
    except Exception as error:
        raise ArgumentError(
            "potential", potential, f"cannot be sent to other processes ({type(error).__name__}: {error})",
            "Make it picklable: open files, locks and the like inside the gradient; or use engine='threads'.",
        ) from error  # fmt: skip
    return body, [buffer.raw() for buffer in buffers]
