"""What a module's output says about its datum: −log p(y | output)."""

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials.frontends.torch.batch import logits_of, mapped

IGNORED = -100
"""The label of a token that does not count, as in torch and Hugging Face."""

LossFunction = Callable[[Any, Any], torch.Tensor]
"""From outputs and responses, or whole batches that are dicts, to the −log p of each datum, (J,), or to their sum."""


class Loss(Protocol):
    """A likelihood as the potential uses it."""

    named: bool
    """Whether it is one of those here, which take tensors; one of the user's own takes whatever the module gives."""

    def convert(self, target: Any, dtype: torch.dtype) -> Any:
        """Responses in the type that the loss wants; ``dtype`` is that of the parameters."""
        ...

    def check(self, output: Any, target: Any, twice: tuple[Any, Any]) -> None:
        """Raise unless the outputs of the first two data go with their responses, or those of all data.

        ``twice`` are output and responses of the same two data twice.
        """
        ...

    def total(self, output: Any, target: Any) -> torch.Tensor:
        """−Σ_i log p(y_i | output_i): a scalar, up to a constant."""
        ...

    def each(self, output: Any, target: Any, count: int) -> torch.Tensor:
        """log p(y_i | output_i) of each of ``count`` data, in float64."""
        ...

    def predict(self, output: Any) -> torch.Tensor:
        """What the output predicts, in float64."""
        ...

    def distribution(self, output: Any) -> Any:
        """The same as a distribution: probabilities (rows, K), or a pair of mean and variance."""
        ...


class Categorical:
    """p(y = k | output) ∝ exp(output_k): outputs (J, K) are logits, y are classes 0…K−1.

    Or of tokens: outputs (J, T, K) and y (J, T), in which −100 marks tokens that do not count. A datum is then a
    sequence, and log p of it the sum over those that do.
    """

    named = True
    name = "categorical"

    def convert(self, target: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Classes as int64; anything that is no whole number is refused."""
        if target.dtype == torch.int64:
            return target
        classes = target.to(torch.int64)
        if not torch.equal(classes.to(target.dtype), target):
            raise ArgumentError("y", target, "holds values that are not classes", "Give whole numbers 0, 1, ….")
        return classes

    def check(self, output: torch.Tensor, target: torch.Tensor, twice: tuple[Any, Any]) -> None:
        """Logits of two or more classes, and y among them."""
        self._refuse_shapes(output, target)
        counted = target[target != IGNORED] if target.ndim > 1 else target
        if not counted.numel() and len(target) <= 2:
            return  # not all data are at hand: others may count
        if not counted.numel():
            raise ArgumentError("y", target, "ignores every token", f"Give labels other than {IGNORED} as well.")
        low, high, classes = int(counted.min()), int(counted.max()), output.shape[-1]
        if low < 0 or high >= classes:
            problem = f"holds classes from {low} to {high}, but the module has {classes} outputs"
            ignored = f", or {IGNORED} for tokens that do not count" if target.ndim > 1 else ""
            raise ArgumentError("y", target, problem, f"Give whole numbers from 0 to {classes - 1}{ignored}.")

    def _refuse_shapes(self, output: torch.Tensor, target: torch.Tensor) -> None:
        if output.ndim < 2 or output.shape[-1] < 2 or output.shape[1:-1] != target.shape[1:]:
            problem = f"does not go with outputs of shape {tuple(output.shape)} for two data, and y "
            remedy = "Let the module give logits (J, K) of K ≥ 2 classes and y be (N,), or give a loss of your own."
            raise ArgumentError("loss", self.name, f"{problem}{tuple(target.shape)}", remedy)

    def aligned(self, output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (…, K) and the classes that they are of."""
        return output, target

    def total(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The cross-entropy, summed over the minibatch."""
        logits, classes = self.aligned(output, target)
        if logits.ndim > 2:
            logits, classes = logits.flatten(0, -2), classes.flatten()
        return F.cross_entropy(logits, classes, reduction="sum", ignore_index=IGNORED)

    def each(self, output: torch.Tensor, target: torch.Tensor, count: int) -> torch.Tensor:
        """Log softmax of the class, or of the classes of all tokens that count."""
        logits, classes = self.aligned(output.double(), target)
        flat = F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction="none", ignore_index=IGNORED)
        return -flat.reshape(count, -1).sum(1)

    def predict(self, output: torch.Tensor) -> torch.Tensor:
        """Probabilities of the classes, (J, K) or (J, T, K), in float64."""
        return torch.softmax(output.double(), dim=-1)

    def distribution(self, output: torch.Tensor) -> Any:
        """Likewise, the tokens of a sequence as rows."""
        return self.predict(output).flatten(0, -2)


class NextToken(Categorical):
    """Language models: outputs (J, T, K) at place t are logits of the token at t + 1; y are the tokens, (J, T).

    −100 marks tokens that are not predicted, though they are seen.
    """

    name = "next_token"

    def _refuse_shapes(self, output: torch.Tensor, target: torch.Tensor) -> None:
        if output.ndim != 3 or output.shape[-1] < 2 or output.shape[1:-1] != target.shape[1:] or target.shape[1] < 2:
            problem = f"does not go with outputs of shape {tuple(output.shape)} for two data, and y "
            remedy = (
                "Let the module give logits (J, T, K), and the tokens be (N, T) with T ≥ 2, −100 if they don't count."
            )
            raise ArgumentError("loss", self.name, f"{problem}{tuple(target.shape)}", remedy)

    def aligned(self, output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits of all places but the last, and the tokens after the first."""
        return output[:, :-1], target[:, 1:]


class Gaussian:
    """y ~ N(output, σ²), every entry.

    Args:
        noise_scale: σ.
    """

    named = True

    def __init__(self, noise_scale: float) -> None:
        self.noise_scale = checks.real_number("noise_scale", noise_scale, above=0)

    def convert(self, target: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """In the type of the parameters."""
        return target.to(dtype)

    def check(self, output: torch.Tensor, target: torch.Tensor, twice: tuple[Any, Any]) -> None:
        """One output for each entry of y, all finite."""
        if output[0].numel() != target[0].numel():
            problem = f"does not go with outputs of shape {tuple(output.shape)} for two data, and y "
            remedy = "Let the module give one output for each entry of y."
            raise ArgumentError("loss", "gaussian", f"{problem}{tuple(target.shape)}", remedy)
        if not torch.isfinite(target).all():
            remedy = "Clean the data: every entry must be finite."
            raise ArgumentError("y", target, "holds NaN or infinite values", remedy)

    def total(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Σ (output − y)² / 2σ²."""
        return (output - target.reshape(output.shape)).square().sum() * (0.5 / self.noise_scale**2)

    def each(self, output: torch.Tensor, target: torch.Tensor, count: int) -> torch.Tensor:
        """−|output − y|² / 2σ² − d log σ√(2π), with d entries a datum."""
        standardised = (output.double() - target.double().reshape(output.shape)).reshape(count, -1) / self.noise_scale
        constant = standardised.shape[1] * math.log(self.noise_scale * math.sqrt(2 * math.pi))
        return -0.5 * standardised.square().sum(1) - constant

    def predict(self, output: torch.Tensor) -> torch.Tensor:
        """The mean of y: the output in float64."""
        return output.double()

    def distribution(self, output: torch.Tensor) -> Any:
        """Mean, (J,) where a datum has one, and σ²."""
        mean = output.double()
        return mean.reshape(-1) if mean[:1].numel() == 1 else mean, self.noise_scale**2


class CustomLoss:
    """A loss function that the user gave: −log p of each datum, or their sum."""

    named = False

    def __init__(self, function: LossFunction) -> None:
        self.function = function

    def convert(self, target: Any, dtype: torch.dtype) -> Any:
        """As it is, floating-point numbers in the type of the parameters."""
        return mapped(lambda t: t.to(dtype) if t.is_floating_point() else t, target)

    def check(self, output: Any, target: Any, twice: tuple[Any, Any]) -> None:
        """A vector of J, or a scalar that is the sum and not the mean: the same data twice give twice as much."""
        values = self.function(output, mapped(lambda t: t[:2], target))
        if not isinstance(values, torch.Tensor) or values.shape not in ((2,), ()) or not values.is_floating_point():
            given = f"shape {tuple(values.shape)}" if isinstance(values, torch.Tensor) else f"a {type(values).__name__}"
            remedy = "Return −log p of each datum, a vector of J entries, or their sum: reduction='none' or 'sum'."
            raise ArgumentError("loss", self.function, f"returns {given} for two data", remedy)
        if values.ndim == 0:
            doubled = self.function(*twice)
            if not torch.isclose(doubled, 2 * values, rtol=1e-3):
                shown = f"{values.item():.6g} for two data and {doubled.item():.6g} for the same two data twice"
                remedy = (
                    "Return the sum over the data, not the mean: reduction='sum' or 'none'; outputs.loss of Hugging "
                    "Face's models is a mean, so multiply it by the number of labels that count."
                )
                raise ArgumentError("loss", self.function, f"returns {shown}", remedy)

    def total(self, output: Any, target: Any) -> torch.Tensor:
        """The sum of what the function gives."""
        return self.function(output, target).sum()

    def each(self, output: Any, target: Any, count: int) -> torch.Tensor:
        """Minus what the function gives for each datum."""
        values = self.function(output, target)
        if values.shape != (count,):
            remedy = "Return −log p of each datum, a vector, where the log-likelihood of each is wanted."
            raise ArgumentError("loss", self.function, f"returns shape {tuple(values.shape)}", remedy)
        return -values.double()

    def predict(self, output: Any) -> torch.Tensor:
        """The output as it is, or its logits."""
        found: torch.Tensor = logits_of(output).double()
        return found

    def distribution(self, output: Any) -> Any:
        """Not known: the loss is a function of the user's."""
        problem = "is a function, which does not say what the outputs mean"
        remedy = (
            "Say it: predictive(X, predict=...), from outputs to probabilities (rows, K) or a pair (mean, variance)."
        )
        raise ArgumentError("loss", self.function, problem, remedy)


def as_loss(loss: Any, noise_scale: float) -> Loss:
    """The loss that a user's word or function means."""
    if callable(loss):
        return CustomLoss(loss)
    match checks.one_of("loss", loss, ("categorical", "gaussian", "next_token")):
        case "categorical":
            return Categorical()
        case "next_token":
            return NextToken()
        case _:
            return Gaussian(noise_scale)


def joined(parts: list[Any]) -> Any:
    """The predictions of blocks of rows, tensors or pairs of them, as NumPy arrays of all rows, in float64."""
    if not isinstance(parts[0], tuple):
        return np.concatenate([_array(part) for part in parts])
    pairs = [np.broadcast_arrays(*map(_array, pair)) for pair in parts]
    return tuple(np.concatenate(column) for column in zip(*pairs, strict=True))


def _array(part: Any) -> Any:
    return np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part, np.float64)
