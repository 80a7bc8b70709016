"""What is found out by applying a module to two data before anything depends on it."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials.frontends.torch.data import Data, TensorData
from stalegrad.potentials.frontends.torch.loss import Loss


def try_out(
    module: nn.Module, data: Data, inputs: Callable[[torch.Tensor], torch.Tensor], loss: Loss, dtype: torch.dtype
) -> None:
    """Raise unless module, data and loss go together, and the output depends on parameters and data alone.

    Args:
        module: with parameters that require a gradient.
        data: two of them are tried; their responses are all looked at where they are in memory.
        inputs: what becomes of a minibatch before the module gets it.
        loss: the likelihood.
        dtype: of the parameters.
    """
    x, y = data.batch(np.arange(2) % len(data))
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    random = torch.get_rng_state()
    with torch.inference_mode(False), torch.enable_grad():
        output, again = (_apply(module, inputs, x) for _ in range(2))
        y = loss.convert(y, dtype)
        loss.check(output, data.y if isinstance(data, TensorData) and len(data) > 1 else y)
        total = loss.total(output, y)
    if not total.requires_grad:
        problem = "does not depend on the parameters: it has no gradient"
        raise ArgumentError("module", module, problem, "Compute output and loss with torch, without detach or no_grad.")
    if not torch.equal(random, torch.get_rng_state()) or not torch.equal(output, again):
        problem = "draws random numbers, so that a run could not be replayed"
        raise ArgumentError("module", module, problem, "Switch that off, with module.eval() or in its code.")
    for name, buffer in module.named_buffers():
        if not torch.equal(buffers[name], buffer):
            problem = f"changes its buffer {name!r} when it is applied"
            remedy = "Freeze it, with module.eval() or in its code: the loss must depend on θ and the data alone."
            raise ArgumentError("module", module, problem, remedy)


def _apply(module: nn.Module, inputs: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    try:
        output = module(inputs(x))
    except Exception as error:
        problem = f"cannot be applied to data of shape {tuple(x.shape)} and type {x.dtype} ({error})"
        remedy = "The first axis counts the data. Give X as the module wants it, or a transform that makes it so."
        raise ArgumentError("module", module, problem, remedy) from error
    if not isinstance(output, torch.Tensor) or output.shape[:1] != x.shape[:1]:
        given = f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else f"a {type(output).__name__}"
        problem = f"gives {given} for data of shape {tuple(x.shape)}"
        raise ArgumentError("module", module, problem, "Return one tensor whose first axis counts the data.")
    return output
