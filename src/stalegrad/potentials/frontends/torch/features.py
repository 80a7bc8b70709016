"""The frozen body of a module whose head alone is sampled: what it makes of the data is computed once and kept.

What the head is given does not depend on θ, if all that is sampled is in the head: a gradient needs the head alone.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from stalegrad.potentials.frontends.torch.batch import apply, logits_of


class Head(NamedTuple):
    """Where a module is cut."""

    name: str
    """Of the layer that gets the features."""
    module: nn.Module
    """What comes after them: a submodule, or the last layers of a Sequential."""
    last: str
    """The layer whose output is the module's."""


class _Reached(Exception):
    """The features have reached the head: the rest of the module need not be computed."""

    def __init__(self, features: torch.Tensor) -> None:
        super().__init__()
        self.features = features


def _stop(_layer: nn.Module, arguments: tuple[Any, ...]) -> None:
    raise _Reached(arguments[0])


class Body:
    """A module up to its head.

    Args:
        module: taken over, and stopped where the head begins.
        head: the name of the layer that gets the features.
    """

    def __init__(self, module: nn.Module, head: str) -> None:
        self.module = module.requires_grad_(False)
        self.module.get_submodule(head).register_forward_pre_hook(_stop)

    def __call__(self, inputs: Any) -> torch.Tensor:
        """The features of a minibatch."""
        try:
            apply(self.module, inputs)
        except _Reached as reached:
            return reached.features.detach()
        raise AssertionError("the head was not reached")


def find_head(module: nn.Module) -> Head | None:
    """The smallest part at the end of a module that holds all parameters that require a gradient; None if it is all."""
    owners = {
        name.rpartition(".")[0]
        for name, parameter in module.named_parameters(remove_duplicate=False)
        if parameter.requires_grad
    }
    if type(module) is nn.Sequential:
        children = dict(module.named_children())
        names, sampled = list(children), {owner.partition(".")[0] for owner in owners}
        first = next(place for place, name in enumerate(names) if name in sampled)
        if first == 0:
            return None
        tail = nn.Sequential()
        for name in names[first:]:
            tail.add_module(name, children[name])
        return Head(names[first], tail, names[-1])
    paths = [owner.split(".") for owner in owners]
    common = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    name = ".".join(common)
    return Head(name, module.get_submodule(name), name) if name else None


def why_not(module: nn.Module, head: Head, inputs: Any) -> str | None:
    """What speaks against keeping features, found by applying the module once; None if nothing does."""
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    made: list[Any] = []

    def before(_layer: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        given.append((arguments, named))

    def after(_layer: nn.Module, _arguments: Any, output: Any) -> None:
        made.append(output)

    hooks = [
        module.get_submodule(head.name).register_forward_pre_hook(before, with_kwargs=True),
        module.get_submodule(head.last).register_forward_hook(after),
    ]
    try:
        output = logits_of(apply(module, inputs))
    finally:
        for hook in hooks:
            hook.remove()
    if not given or not made:
        return f"what is sampled is spread over {head.name!r}, which is not applied as a whole"
    if len(given) > 1 or len(made) > 1:
        return f"{head.name!r} is applied {len(given)} times"
    arguments, named = given[0]
    if len(arguments) != 1 or named or not isinstance(arguments[0], torch.Tensor):
        return f"{head.name!r} is given more than one tensor"
    if arguments[0].requires_grad:
        return f"what {head.name!r} is given depends on parameters that are sampled"
    if output is not made[0]:
        return f"the module computes something with what {head.last!r} gives"
    if not isinstance(output, torch.Tensor) or arguments[0].shape[:1] != output.shape[:1]:
        return f"the first axis of what {head.name!r} is given does not count the data"
    return None
