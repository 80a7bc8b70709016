"""A module as a function of one flat θ: its parameters are views into a vector, its gradients into a buffer."""

import copy
import math
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from torch import nn

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.potentials.priors import FlatPrior

_TYPES: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are sampled, by name: those that require a gradient. Shared ones count once."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def copied(module: Any) -> nn.Module:
    """The module as it is now: what the user does with it afterwards is no matter to the sampler."""
    if not isinstance(module, nn.Module):
        raise ArgumentError("module", module, f"is a {type(module).__name__}", "Give a torch.nn.Module.")
    _refuse_without_values(module)
    try:
        mine = copy.deepcopy(module)
    except Exception as error:
        problem = f"cannot be copied ({type(error).__name__}: {error})"
        raise ArgumentError("module", module, problem, "Give a module that copy.deepcopy can copy.") from error
    mine.zero_grad(set_to_none=True)
    return mine


def choose(module: nn.Module, sample: Any) -> nn.Module:
    """Let the parameters whose names fit require a gradient, and no others; None leaves all as they are."""
    if sample is None:
        return module
    patterns = [sample] if isinstance(sample, str) else list(sample)
    names = dict(module.named_parameters())
    for pattern in patterns or [""]:
        if not isinstance(pattern, str) or not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(list(names)[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
            remedy = f"Give names, in which * stands for any characters. The parameters are: {known}."
            raise ArgumentError("sample", sample, f"has {pattern!r}, which fits no parameter", remedy)
    for name, parameter in names.items():
        parameter.requires_grad_(any(fnmatchcase(name, pattern) for pattern in patterns))
    return module


class FlatModule:
    """A copy of a module, with the memory that one gradient at a time needs.

    Its parameters are views into one vector, whose address has the alignment on which bits may depend, so that θ is
    copied once. Its gradients are views into the array where the gradient is wanted: the prior's is put there first and
    the likelihood's accumulated onto it. Engines want it in the same array every time, and the views stay as they are.

    Where the module is not on the CPU, both pass through arrays on the host instead.

    Args:
        module: is copied.
        staged: whether they pass through the host; None for what the device needs.
    """

    def __init__(self, module: nn.Module, staged: bool | None = None) -> None:
        self.module = copy.deepcopy(module)
        self._parameters = list(trainable(self.module).values())
        first, ends = self._parameters[0], np.cumsum([p.numel() for p in self._parameters]).tolist()
        self._pieces = [slice(end - p.numel(), end) for p, end in zip(self._parameters, ends, strict=True)]
        self.theta = torch.empty(ends[-1], dtype=first.dtype, device=first.device)
        for parameter, piece in zip(self._parameters, self._pieces, strict=True):
            self.theta[piece] = parameter.detach().reshape(-1)
            parameter.data = self.theta[piece].view(parameter.shape)
        self._staged = first.device.type != "cpu" if staged is None else staged
        self._host = torch.empty_like(self.theta, device="cpu") if self._staged else self.theta
        self._theta = self._host.numpy()
        self._address = 0  # of the array that holds the gradients now
        self._weight = 1.0, torch.ones((), dtype=first.dtype, device=first.device)
        if self._staged:
            self._gradient = torch.empty_like(self.theta)
            self._let_gradients_be_in(self._gradient)

    def load(self, theta: Array) -> None:
        """Give the module the parameters θ."""
        np.copyto(self._theta, theta)
        if self._staged:
            self.theta.copy_(self._host)

    def differentiate(
        self, theta: Array, prior: FlatPrior, losses: Iterator[torch.Tensor], weight: float, out: Array
    ) -> None:
        """−∇log p(θ) plus the weighted gradients of scalars, computed from the module while they are asked for."""
        self.load(theta)
        prior.gradient(self._theta, out)
        if self._staged:
            self._gradient.copy_(torch.from_numpy(out))
        elif self._address != (address := out.__array_interface__["data"][0]):
            self._let_gradients_be_in(torch.from_numpy(out))
            self._address = address
        if weight != self._weight[0]:
            self._weight = weight, torch.tensor(weight, dtype=self.theta.dtype, device=self.theta.device)
        for loss in losses:  # the weight as what is differentiated by: no product, nor its derivative
            torch.autograd.backward((loss,), (self._weight[1].to(loss.dtype),))
        if self._staged:
            torch.from_numpy(out).copy_(self._gradient)

    def _let_gradients_be_in(self, flat: torch.Tensor) -> None:
        for parameter, piece in zip(self._parameters, self._pieces, strict=True):
            parameter.grad = flat[piece].view(parameter.shape)


def _refuse_without_values(module: nn.Module) -> None:
    if any(isinstance(p, nn.parameter.UninitializedParameter) or p.is_meta for p in module.parameters()):
        remedy = "Apply the module to a minibatch once if it has lazy layers, and put it on a real device."
        raise ArgumentError("module", module, "has parameters without values or even a shape", remedy)


def check_module(module: nn.Module) -> tuple[np.dtype[Any], torch.device]:
    """The type and device of a module's parameters, or an error that says why it cannot be used."""
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
