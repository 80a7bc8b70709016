"""Minibatches of any form: a tensor, a tuple or a dict of tensors, and what of them is a module's input."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from stalegrad._internal.errors import ArgumentError

Raw = torch.Tensor | tuple[torch.Tensor, ...] | dict[str, torch.Tensor]
"""A minibatch as its data have it: every tensor's first axis counts the data."""

LABELS = "labels"
"""The entry of a dict that holds the responses, as Hugging Face's models have it."""


class Batch(NamedTuple):
    """A minibatch as a likelihood sees it."""

    inputs: Any
    """What the module is applied to: a tensor, a tuple of several, or a dict by the names of its arguments."""
    target: Any
    """What the loss compares outputs with: a tensor, or the whole batch."""


def split(raw: Raw, named: bool) -> Batch:
    """Inputs and target of a minibatch.

    Of a tuple the last entry is the target and all others are inputs; a tensor is both. Of a dict the entry "labels" is
    the target of a loss that is ``named``, and is not given to the module; a loss of the user's own sees all of it, and
    so does the module.
    """
    if isinstance(raw, torch.Tensor):
        return Batch(raw, raw)
    if isinstance(raw, tuple):
        if len(raw) == 1:
            return Batch(raw[0], raw[0])
        return Batch(raw[0] if len(raw) == 2 else raw[:-1], raw[-1])
    if not named:
        return Batch(raw, raw)
    if LABELS not in raw:
        problem = f"has batches with the entries {', '.join(map(repr, raw))}"
        remedy = f"Name the responses {LABELS!r}, or give a loss of your own: a function of (outputs, batch)."
        raise ArgumentError("data", "a dict", problem, remedy)
    return Batch(inputs_of(raw), raw[LABELS])


def inputs_of(batch: Any) -> Any:
    """A dict without its labels; anything else as it is."""
    return {k: v for k, v in batch.items() if k != LABELS} if isinstance(batch, dict) else batch


def apply(module: nn.Module, inputs: Any) -> Any:
    """The module's output for a minibatch."""
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


def mapped(function: Callable[[torch.Tensor], Any], batch: Any) -> Any:
    """The same minibatch with a function of every tensor in place of it."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: mapped(function, value) for key, value in batch.items()}
    return tuple(mapped(function, value) for value in batch)


def tensors_of(thing: Any) -> list[torch.Tensor]:
    """All tensors of a minibatch, or of what a module gives: a tensor, an object with a few of them, or their like."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, Mapping):
        return [tensor for value in thing.values() for tensor in tensors_of(value)]
    if isinstance(thing, tuple | list):
        return [tensor for value in thing for tensor in tensors_of(value)]
    return [t for t in (getattr(thing, "logits", None), getattr(thing, "loss", None)) if isinstance(t, torch.Tensor)]


def shapes_of(batch: Any) -> str:
    """The form of a minibatch in words."""
    if isinstance(batch, Mapping):
        return "{" + ", ".join(f"{key}: {shapes_of(value)}" for key, value in batch.items()) + "}"
    if isinstance(batch, torch.Tensor):
        return f"{tuple(batch.shape)} and type {batch.dtype}"
    return ", ".join(map(shapes_of, batch))


def logits_of(output: Any) -> Any:
    """The tensor of an output that is one, or of an object that has it as ``.logits``; else the output as it is."""
    if isinstance(output, torch.Tensor):
        return output
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    return logits if isinstance(logits, torch.Tensor) else output


def length(batch: Any) -> int:
    """How many data a minibatch holds."""
    return int(tensors_of(batch)[0].shape[0])


def blocks_of(batch: Any, size: int) -> list[Any]:
    """A minibatch cut into some of at most ``size`` data."""
    count = length(batch)
    return [mapped(lambda t, a=first: t[a : a + size], batch) for first in range(0, count, size)]  # type: ignore[misc]
