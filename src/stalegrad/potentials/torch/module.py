"""A module as a function of one flat θ: its parameters are views into a vector, its gradients into a buffer."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from stalegrad import checks
from stalegrad.errors import ArgumentError
from stalegrad.priors import FlatPrior
from stalegrad.types import Array

_TYPES: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are sampled, by name: those that require a gradient. Shared ones count once."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


class FlatModule:
    """A copy of a module, with the memory that one gradient at a time needs.

    The likelihood's gradient is accumulated onto the prior's, which is in the buffer before. Where the module is not
    on the CPU, θ and the gradient pass through arrays on the host; on the CPU these are the same memory.

    Args:
        module: is copied.
        staged: whether the host's arrays are apart; None for what the device needs.
    """

    def __init__(self, module: nn.Module, staged: bool | None = None) -> None:
        self.module = copy.deepcopy(module)
        parameters = trainable(self.module).values()
        first = next(iter(parameters))
        self.theta = torch.empty(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        self.gradient = torch.zeros_like(self.theta)
        ends = np.cumsum([p.numel() for p in parameters])
        for parameter, end in zip(parameters, ends.tolist(), strict=True):
            piece = slice(end - parameter.numel(), end)
            self.theta[piece] = parameter.detach().reshape(-1)
            parameter.data = self.theta[piece].view(parameter.shape)
            parameter.grad = self.gradient[piece].view(parameter.shape)
        self._staged = first.device.type != "cpu" if staged is None else staged
        self._host_theta, self._host_gradient = self.theta, self.gradient
        if self._staged:
            self._host_theta, self._host_gradient = (torch.empty_like(self.theta, device="cpu") for _ in range(2))
        self._theta, self._gradient = self._host_theta.numpy(), self._host_gradient.numpy()

    def load(self, theta: Array) -> None:
        """Give the module the parameters θ."""
        np.copyto(self._theta, theta)
        if self._staged:
            self.theta.copy_(self._host_theta)

    def differentiate(self, theta: Array, prior: FlatPrior, losses: Iterator[torch.Tensor], out: Array) -> None:
        """−∇log p(θ) plus the gradients of scalars that are computed from the module while they are asked for."""
        self.load(theta)
        prior.gradient(self._theta, self._gradient)
        if self._staged:
            self.gradient.copy_(self._host_gradient)
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
        if self._staged:
            self._host_gradient.copy_(self.gradient)
        np.copyto(out, self._gradient)


def check_module(module: Any) -> tuple[np.dtype[Any], torch.device]:
    """The type and device of a module's parameters, or an error that says why it cannot be used."""
    if not isinstance(module, nn.Module):
        raise ArgumentError("module", module, f"is a {type(module).__name__}", "Give a torch.nn.Module.")
    if any(isinstance(p, nn.parameter.UninitializedParameter) or p.is_meta for p in module.parameters()):
        remedy = "Apply the module to a minibatch once if it has lazy layers, and put it on a real device."
        raise ArgumentError("module", module, "has parameters without values or even a shape", remedy)
    parameters = trainable(module)
    if not sum(math.prod(p.shape) for p in parameters.values()):
        remedy = "Give a module with parameters that require a gradient: all others are constants to the sampler."
        raise ArgumentError("module", module, "has no parameters to sample", remedy)
    kinds = {(p.dtype, p.device) for p in parameters.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in _TYPES:
        found = ", ".join(sorted({f"{dtype} on {device}" for dtype, device in kinds}))
        remedy = "Bring all to one device and to float32 or float64, as module.float() does."
        raise ArgumentError("module", module, f"has parameters of {found}", remedy)
    for name, parameter in parameters.items():
        checks.finite_array(f"module.{name}", parameter.detach().cpu().numpy(), np.dtype(np.float64))
    _refuse_statistics_and_noise(module)
    ((dtype, device),) = kinds
    return _TYPES[dtype], device


def _refuse_statistics_and_noise(module: nn.Module) -> None:
    """Layers of torch by which a datum's loss would depend on its minibatch, or on random numbers."""
    for name, layer in module.named_modules():
        where = f"module.{name}" if name else "module"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None):
            problem = "normalises by its minibatch, so that no likelihood of single data is behind the loss"
            remedy = (
                "Freeze its statistics with module.eval() (they must be tracked: track_running_stats=True), or use "
                "GroupNorm or LayerNorm instead."
            )
            raise ArgumentError(where, layer, problem, remedy)
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p > 0:
            problem = "draws random numbers of its own, so that a run could not be replayed"
            raise ArgumentError(where, layer, problem, "Switch it off with module.eval(), or take it out.")
