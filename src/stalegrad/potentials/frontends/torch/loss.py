"""What a module's output says about its datum: −log p(y | output)."""

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From outputs (J, …) and responses (J, …) to the −log p of each datum, (J,), or to their sum."""


class Loss(Protocol):
    """A likelihood as the potential uses it."""

    def convert(self, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Responses in the type that the loss wants; ``dtype`` is that of the parameters."""
        ...

    def check(self, output: torch.Tensor, y: torch.Tensor) -> None:
        """Raise unless the outputs of the first two data go with y, the responses of these two or of all data."""
        ...

    def total(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """−Σ_i log p(y_i | output_i): a scalar, up to a constant."""
        ...

    def each(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """log p(y_i | output_i) of each datum, (J,), in float64."""
        ...

    def predict(self, output: torch.Tensor) -> torch.Tensor:
        """What the output predicts, in float64."""
        ...

    def distribution(self, output: torch.Tensor) -> Any:
        """The same as a distribution: probabilities (J, K), or a pair of mean and variance."""
        ...


class Categorical:
    """p(y = k | output) ∝ exp(output_k): outputs (J, K) are logits, y are classes 0…K−1."""

    def convert(self, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Classes as int64; anything that is no whole number is refused."""
        if y.dtype == torch.int64:
            return y
        classes = y.to(torch.int64)
        if not torch.equal(classes.to(y.dtype), y):
            raise ArgumentError("y", y, "holds values that are not classes", "Give whole numbers 0, 1, ….")
        return classes

    def check(self, output: torch.Tensor, y: torch.Tensor) -> None:
        """Logits of two or more classes, and y among them."""
        if output.ndim != 2 or output.shape[1] < 2 or y.ndim != 1:
            problem = f"does not go with outputs of shape {tuple(output.shape)} for two data, and y {tuple(y.shape)}"
            remedy = "Let the module give logits (J, K) of K ≥ 2 classes and y be (N,), or give a loss of your own."
            raise ArgumentError("loss", "categorical", problem, remedy)
        low, high, classes = int(y.min()), int(y.max()), output.shape[1]
        if low < 0 or high >= classes:
            problem = f"holds classes from {low} to {high}, but the module has {classes} outputs"
            raise ArgumentError("y", y, problem, f"Give whole numbers from 0 to {classes - 1}.")

    def total(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The cross-entropy, summed over the minibatch."""
        return F.cross_entropy(output, y, reduction="sum")

    def each(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Log softmax of the class."""
        return -F.cross_entropy(output.double(), y, reduction="none")

    def predict(self, output: torch.Tensor) -> torch.Tensor:
        """Probabilities of the classes, (J, K), in float64."""
        return torch.softmax(output.double(), dim=1)

    def distribution(self, output: torch.Tensor) -> Any:
        """Likewise."""
        return self.predict(output)


class Gaussian:
    """y ~ N(output, σ²), every entry.

    Args:
        noise_scale: σ.
    """

    def __init__(self, noise_scale: float) -> None:
        self.noise_scale = checks.real_number("noise_scale", noise_scale, above=0)

    def convert(self, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """In the type of the parameters."""
        return y.to(dtype)

    def check(self, output: torch.Tensor, y: torch.Tensor) -> None:
        """One output for each entry of y, all finite."""
        if output[0].numel() != y[0].numel():
            problem = f"does not go with outputs of shape {tuple(output.shape)} for two data, and y {tuple(y.shape)}"
            raise ArgumentError("loss", "gaussian", problem, "Let the module give one output for each entry of y.")
        if not torch.isfinite(y).all():
            raise ArgumentError("y", y, "holds NaN or infinite values", "Clean the data: every entry must be finite.")

    def total(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Σ (output − y)² / 2σ²."""
        return (output - y.reshape(output.shape)).square().sum() * (0.5 / self.noise_scale**2)

    def each(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """−|output − y|² / 2σ² − d log σ√(2π), with d entries a datum."""
        standardised = (output.double() - y.double().reshape(output.shape)).flatten(1) / self.noise_scale
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

    def __init__(self, function: LossFunction) -> None:
        self.function = function

    def convert(self, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """As it is, floating-point numbers in the type of the parameters."""
        return y.to(dtype) if y.is_floating_point() else y

    def check(self, output: torch.Tensor, y: torch.Tensor) -> None:
        """A vector of J, or a scalar that is the sum and not the mean: the same data twice give twice as much."""
        y = y[:2]
        values = self.function(output, y)
        if not isinstance(values, torch.Tensor) or values.shape not in ((2,), ()) or not values.is_floating_point():
            given = f"shape {tuple(values.shape)}" if isinstance(values, torch.Tensor) else f"a {type(values).__name__}"
            remedy = "Return −log p of each datum, a vector of J entries, or their sum: reduction='none' or 'sum'."
            raise ArgumentError("loss", self.function, f"returns {given} for two data", remedy)
        if values.ndim == 0:
            twice = self.function(torch.cat([output, output]), torch.cat([y, y]))
            if not torch.isclose(twice, 2 * values, rtol=1e-3):
                problem = f"returns {values.item():.6g} for two data and {twice.item():.6g} for the same two data twice"
                remedy = "Return the sum over the data, not the mean: reduction='sum' or 'none'."
                raise ArgumentError("loss", self.function, problem, remedy)

    def total(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The sum of what the function gives."""
        return self.function(output, y).sum()

    def each(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Minus what the function gives for each datum."""
        values = self.function(output, y)
        if values.shape != output.shape[:1]:
            remedy = "Return −log p of each datum, a vector, where the log-likelihood of each is wanted."
            raise ArgumentError("loss", self.function, f"returns shape {tuple(values.shape)}", remedy)
        return -values.double()

    def predict(self, output: torch.Tensor) -> torch.Tensor:
        """The output as it is."""
        return output.double()

    def distribution(self, output: torch.Tensor) -> Any:
        """Not known."""
        problem = "is a function, which does not say what the outputs mean"
        remedy = (
            "Say it: predictive(X, predict=...), from outputs to probabilities (rows, K) or a pair (mean, variance)."
        )
        raise ArgumentError("loss", self.function, problem, remedy)


def as_loss(loss: Any, noise_scale: float) -> Loss:
    """The loss that a user's word or function means."""
    if callable(loss):
        return CustomLoss(loss)
    name = checks.one_of("loss", loss, ("categorical", "gaussian"))
    return Categorical() if name == "categorical" else Gaussian(noise_scale)


def joined(parts: list[Any]) -> Any:
    """The predictions of blocks of rows, tensors or pairs of them, as NumPy arrays of all rows, in float64."""
    if not isinstance(parts[0], tuple):
        return np.concatenate([_array(part) for part in parts])
    pairs = [np.broadcast_arrays(*map(_array, pair)) for pair in parts]
    return tuple(np.concatenate(column) for column in zip(*pairs, strict=True))


def _array(part: Any) -> Any:
    return np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part, np.float64)
