"""What is found out by applying a module to two data before anything depends on it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials.frontends.torch.batch import Batch, length, mapped, shapes_of, tensors_of
from stalegrad.potentials.frontends.torch.loss import Loss

Forward = Callable[[nn.Module, Any], Any]
"""From a module and its inputs to its output, as the loss wants it."""


def try_out(module: nn.Module, forward: Forward, batch: Batch, loss: Loss, every_target: Any) -> None:
    """Raise unless module, data and loss go together, and the output depends on parameters and data alone.

    Args:
        module: with parameters that require a gradient.
        forward: how it is applied.
        batch: two data.
        loss: the likelihood.
        every_target: the responses of all data where they are in memory, else of these two.
    """
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    random = torch.get_rng_state()
    with torch.inference_mode(False), torch.enable_grad():
        output, again = (_applied(module, forward, batch, loss.named) for _ in range(2))
        twice = Batch(*(mapped(lambda t: torch.cat([t, t]), part) for part in batch))
        loss.check(output, every_target, (_applied(module, forward, twice, loss.named), twice.target))
        total = loss.total(output, batch.target)
    if not total.requires_grad:
        problem = "does not depend on the parameters: it has no gradient"
        raise ArgumentError("module", module, problem, "Compute output and loss with torch, without detach or no_grad.")
    same = all(map(torch.equal, tensors_of(output), tensors_of(again)))
    if not torch.equal(random, torch.get_rng_state()) or not same:
        problem = "draws random numbers, so that a run could not be replayed"
        raise ArgumentError("module", module, problem, "Switch that off, with module.eval() or in its code.")
    for name, buffer in module.named_buffers():
        if not torch.equal(buffers[name], buffer):
            problem = f"changes its buffer {name!r} when it is applied"
            remedy = "Freeze it, with module.eval() or in its code: the loss must depend on θ and the data alone."
            raise ArgumentError("module", module, problem, remedy)


def _applied(module: nn.Module, forward: Forward, batch: Batch, named: bool) -> Any:
    shown = shapes_of(batch.inputs)
    try:
        output = forward(module, batch.inputs)
    except Exception as error:
        problem = f"cannot be applied to data of shape {shown} ({error})"
        remedy = "The first axis counts the data. Give X as the module wants it, or a transform that makes it so."
        raise ArgumentError("module", module, problem, remedy) from error
    is_tensor = isinstance(output, torch.Tensor)
    if (named and not is_tensor) or (is_tensor and output.shape[:1] != (length(batch.inputs),)):
        given = f"shape {tuple(output.shape)}" if is_tensor else f"a {type(output).__name__}"
        remedy = "Return one tensor whose first axis counts the data, or an object that has one as .logits."
        raise ArgumentError("module", module, f"gives {given} for data of shape {shown}", remedy)
    return output
