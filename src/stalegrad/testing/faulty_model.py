"""A model that fails on request, for tests of what engines do about it."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials import Potential
from stalegrad.testing.promises import small_model


class FaultyModel(Potential):
    """:func:`small_model` with faults at given calls, counted over all workers and processes.

    Args:
        counter: a file whose length counts the calls.
        faults: call number to ``"raise"``, ``"nan"``, ``"kill"`` or ``"hang"``.
        seconds: how long a good gradient takes.

    >>> import tempfile
    >>> import stalegrad as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = FaultyModel(Path(folder) / "calls", {20: "raise", 40: "nan"}, seconds=0.0)
    ...     run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=60, workers=1, engine="threads", progress=False)
    >>> [event.kind for event in run.events]
    ['raised', 'refused']
    """

    def __init__(self, counter: Path, faults: Mapping[int, str], seconds: float = 0.001) -> None:
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._counter, self._faults, self._seconds = model, counter, dict(faults), seconds

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """The model's gradient, or a fault."""
        time.sleep(self._seconds)
        file = os.open(self._counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, b".")
            call = os.lseek(file, 0, os.SEEK_CUR)
        finally:
            os.close(file)
        result: Array = _FAULTS[self._faults.get(call, "none")](self._model.gradient(theta, indices))
        return result


def _raise(gradient: Array) -> Array:
    raise RuntimeError("injected fault")


def _kill(gradient: Array) -> Array:
    os.kill(os.getpid(), signal.SIGKILL)
    return gradient


def _hang(gradient: Array) -> Array:
    time.sleep(3600)
    return gradient


_FAULTS: dict[str, Callable[[Array], Any]] = {
    "none": lambda gradient: gradient,
    "nan": lambda gradient: gradient * np.float32(np.nan),
    "raise": _raise,
    "kill": _kill,
    "hang": _hang,
}
