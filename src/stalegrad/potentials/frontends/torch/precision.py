"""Gradients in bfloat16 of parameters in float32: torch's autocast, and nothing of the caller's."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from stalegrad._internal.errors import ArgumentError


def as_autocast(autocast: Any) -> torch.dtype | None:
    """The type that a user's word means; None for none."""
    if autocast is None or autocast in ("bfloat16", torch.bfloat16):
        return None if autocast is None else torch.bfloat16
    problem = "is not known"
    if autocast in ("float16", torch.float16):
        problem = "has gradients that vanish below 6e-8 unless losses are scaled"
    raise ArgumentError("autocast", autocast, problem, "Give 'bfloat16', or None for the parameters' own type.")


def autocast_as(dtype: torch.dtype | None, device: torch.device) -> AbstractContextManager[object]:
    """Apply the module in this type inside, or in that of its parameters, whatever the caller has switched on.

    Casts of weights are not remembered: the memory of weights is written to between two gradients.
    """
    if dtype is None and not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None, cache_enabled=False)
