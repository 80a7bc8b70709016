"""The potential of a PyTorch module: minibatch, forward, backward, all in one flat vector."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.frontends.torch.data import Data, TensorData, as_data, tensor
from stalegrad.potentials.frontends.torch.loss import as_loss, joined
from stalegrad.potentials.frontends.torch.module import FlatModule, check_module, trainable
from stalegrad.potentials.frontends.torch.threads import torch_threads, with_gradients
from stalegrad.potentials.frontends.torch.trial import try_out
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive, over_draws, own_data
from stalegrad.potentials.priors import FlatPrior, Priors

Transform = Callable[[torch.Tensor], torch.Tensor]

_BLOCK = 1000  # data in one pass where all are wanted


class TorchPotential(Potential):
    """See :func:`stalegrad.potentials.from_torch`, which makes it.

    Threads that ask at the same time each use a copy of the module of their own: copies are kept, and one that is not
    in use is taken before another is made.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Any,
        data: Any,
        prior: Priors,
        batch_size: int | None,
        scheme: str,
        noise_scale: float,
        transform: Transform | None,
        channels_last: bool | None,
        threads: int,
    ) -> None:
        dtype, device = check_module(module)
        self.threads = checks.whole_number("threads", threads, least=1)
        self._made_from = (loss, prior, noise_scale, transform, channels_last)
        self._module = _copied(module)
        parameters = trainable(self._module)
        self._layout = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
        self._start = np.concatenate([p.detach().cpu().numpy().ravel() for p in parameters.values()])
        self._type, self._device = next(iter(parameters.values())).dtype, device
        self.prior = FlatPrior(prior, self._layout, dtype)
        self._loss = as_loss(loss, noise_scale)
        if transform is not None and not callable(transform):
            raise ArgumentError("transform", transform, "cannot be called", "Give a function of a minibatch of inputs.")
        self._transform = transform
        has_convolutions = any(isinstance(layer, nn.Conv2d) for layer in module.modules())
        self._channels_last = has_convolutions if channels_last is None else bool(channels_last)
        self._data = self._converted(as_data(data, device))
        super().__init__(self._start.size, Minibatches.of(len(self._data), batch_size, scheme), dtype)
        self._idle: list[FlatModule] = []
        with self._workspace() as work, torch_threads(self.threads):
            try_out(work.module, self._data, self._inputs, self._loss, self._type)
        # With one thread torch starts none, and a process that has used it may be forked.
        self.fork_safe = self._data.shareable and self.threads == 1 and device.type == "cpu"

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃(θ) on the data ``indices``."""
        indices = np.asarray(indices)
        if indices.ndim != 1 or indices.size == 0 or indices.min() < 0 or indices.max() >= self.n_data:
            remedy = f"Give a vector of indices from 0 to {self.n_data - 1}."
            raise ArgumentError("indices", indices, "is empty or reaches outside the data", remedy)
        return self._differentiate(self._checked(theta), [indices], np.empty(self.size, self.dtype))

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ for R repetitions, one by one, each written straight into its row of ``out``."""
        if theta.ndim != 2 or theta.shape[1] != self.size or out.shape != theta.shape:
            problem = f"has shape {theta.shape} and out {out.shape}"
            raise ArgumentError("theta", theta, problem, f"Give both as (R, {self.size}).")
        for row in range(theta.shape[0]):
            self._differentiate(theta[row], [indices[row]], out[row])

    def full_gradient(self, theta: Array) -> Array:
        """∇U(θ) on all data, summed over blocks, so that memory does not grow with N."""
        return self._differentiate(self._checked(theta), _blocks(self.n_data), np.empty(self.size, self.dtype))

    def potential(self, theta: Array) -> float:
        """U(θ) on all data, up to a constant."""
        total = 0.0
        with self._at(theta) as module:
            for indices in _blocks(self.n_data):
                x, y = self._data.batch(indices)
                total += self._loss.total(module(self._inputs(x)), self._loss.convert(y, self._type)).item()
        return total - self.prior.log_density(self._checked(theta))

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float:
        """The mean of −log p(d_i | θ) over some data, up to a constant."""
        with self._at(theta) as module:
            x, y = self._data.batch(indices)
            total = self._loss.total(module(self._inputs(x)), self._loss.convert(y, self._type)).item()
        return float(total) / len(indices)

    def predict(self, theta: Array, X: Any) -> Array:
        """What the module with parameters θ predicts for the rows of ``X``, in float64.

        With loss="categorical" these are the class probabilities (rows, K), softmax of the outputs; with "gaussian" the
        means; with a loss of your own the outputs as they are. ``X`` is given as it was in ``data``: the transform is
        applied. Rows are taken a thousand at a time, so that memory does not grow with their number.

        Over many draws none of the predictions needs to be kept::

            average = PredictiveAverage()
            for theta, h in zip(run.draws[0], run.step_sizes[0]):
                average.add(model.predict(theta, X_test), weight=h)
        """
        inputs = tensor("X", X, self._device)
        with self._at(theta) as module:
            parts = [self._loss.predict(module(self._inputs(x))).cpu().numpy() for x in torch.split(inputs, _BLOCK)]
        return np.concatenate(parts)

    def predictive(self, X: Any, predict: Callable[[torch.Tensor], Any] | None = None) -> Predictive:
        """The function θ ↦ what the module predicts for the rows of ``X``: :meth:`stalegrad.Run.predict` averages it.

        With loss="categorical" these are the class probabilities (rows, K), with "gaussian" the pair of the means,
        (rows,) where a row has one, and σ².

        Args:
            X: as it was in ``data``; looked at once.
            predict: from the module's outputs for some rows to their probabilities (rows, K), or to a pair (mean,
                variance). A loss of your own needs it: it does not say what its outputs mean.
        """
        inputs = tensor("X", X, self._device)
        read = self._loss.distribution if predict is None else predict

        def predicted(theta: Array) -> Any:
            with self._at(theta) as module:
                return joined([read(module(self._inputs(x))) for x in torch.split(inputs, _BLOCK)])

        return over_draws(predicted)

    def predictions(self, rows: int) -> Callable[[Array], Array] | None:
        """What the module predicts for at most so many of its data, evenly chosen, as :meth:`predict` has it."""
        chosen = np.unique(np.linspace(0, self.n_data - 1, min(rows, self.n_data)).astype(np.int64))
        x, _ = self._data.batch(chosen)

        def predicted(theta: Array) -> Array:
            return self.predict(theta, x)

        return predicted

    def log_likelihood(self, theta: Array, X: Any = None, y: Any = None) -> Array:
        """Each row's log p(y_i | x_i, θ), in float64: minus their mean over a test set is the test loss.

        Without X and y it is that of the model's own data.
        """
        if own_data(X, y):
            with self._at(theta) as module:
                return np.concatenate([self._each(module, *self._data.batch(block)) for block in _blocks(self.n_data)])
        inputs, responses = tensor("X", X, self._device), tensor("y", y, self._device)
        if inputs.shape[:1] != responses.shape[:1]:
            problem = f"has {len(responses)} entries, but X has {len(inputs)} rows"
            raise ArgumentError("y", y, problem, "Give one entry for each row of X.")
        responses = self._loss.convert(responses, self._type)
        pairs = zip(torch.split(inputs, _BLOCK), torch.split(responses, _BLOCK), strict=True)
        with self._at(theta) as module:
            return np.concatenate([self._each(module, x, response) for x, response in pairs])

    def module_at(self, theta: Array) -> nn.Module:
        """A copy of the module with the parameters θ, which no other thread uses."""
        module = copy.deepcopy(self._module)
        with torch.no_grad():
            for name, values in self.variables(self._checked(theta)).items():
                module.get_parameter(name).copy_(torch.from_numpy(np.array(values)))
        return module

    def initial(self) -> Array:
        """The parameters that the module had when the potential was made."""
        return self._start.copy()

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """The module's own names and shapes, as in ``module.named_parameters()``."""
        return dict(self._layout)

    def __reduce__(self) -> tuple[Any, ...]:
        loss, prior, noise_scale, transform, channels_last = self._made_from
        batches = self.minibatches
        about_data = (self._data.given(), prior, batches.batch_size, batches.scheme)
        return TorchPotential, (self._module, loss, *about_data, noise_scale, transform, channels_last, self.threads)

    def _differentiate(self, theta: Array, batches: Any, out: Array) -> Array:
        """g̃(θ) on the data of all ``batches`` together, into ``out``."""
        count = sum(indices.size for indices in batches)
        with self._workspace() as work:

            def losses() -> Iterator[torch.Tensor]:
                for indices in batches:
                    x, y = self._data.batch(indices)
                    yield self._loss.total(work.module(self._inputs(x)), self._loss.convert(y, self._type))

            with torch_threads(self.threads), with_gradients():
                work.differentiate(theta, self.prior, losses(), self.n_data / count, out)
        return out

    @contextmanager
    def _workspace(self) -> Iterator[FlatModule]:
        """A copy of the module that no other thread uses meanwhile. Taking from a list and appending are atomic."""
        try:
            work = self._idle.pop()
        except IndexError:
            with torch.inference_mode(False):
                work = FlatModule(self._module)
        try:
            yield work
        finally:
            self._idle.append(work)

    @contextmanager
    def _at(self, theta: Array) -> Iterator[nn.Module]:
        """The module with the parameters θ, for evaluation only."""
        with self._workspace() as work, torch_threads(self.threads), torch.no_grad():
            work.load(self._checked(theta))
            yield work.module

    def _each(self, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Array:
        """log p(y_i | x_i, θ) of a block."""
        found: Array = self._loss.each(module(self._inputs(x)), self._loss.convert(y, self._type)).cpu().numpy()
        return found

    def _inputs(self, x: torch.Tensor) -> torch.Tensor:
        """A minibatch as the module gets it: transformed, in the parameters' type, channels last for convolutions."""
        if self._transform is not None:
            x = self._transform(x)
        if x.is_floating_point():
            x = x.to(self._type)
            if self._channels_last and x.ndim == 4 and x.stride(1) != 1:
                # Not contiguous(): with one channel it would leave the strides, by which torch chooses, as they are.
                x = torch.empty_like(x, memory_format=torch.channels_last).copy_(x)
        return x

    def _checked(self, theta: Array) -> Array:
        array = np.ascontiguousarray(theta, self.dtype)
        if array.shape != (self.size,):
            raise ArgumentError("theta", theta, f"has shape {array.shape}", f"Give a vector of {self.size} entries.")
        return array

    def _converted(self, data: Data) -> Data:
        """Data in memory in the types of the computation, once and for all."""
        if not isinstance(data, TensorData):
            return data
        x = data.x.to(self._type) if data.x.is_floating_point() else data.x
        if self._transform is None and not torch.isfinite(x).all():
            problem = "holds NaN or infinite values"
            raise ArgumentError("X", data.x, problem, "Clean the data, or give a transform that does.")
        return TensorData(x, self._loss.convert(data.y, self._type))


def _copied(module: nn.Module) -> nn.Module:
    """The module as it is now: what the user does with it afterwards is no matter to the sampler."""
    try:
        mine = copy.deepcopy(module)
    except Exception as error:
        problem = f"cannot be copied ({type(error).__name__}: {error})"
        raise ArgumentError("module", module, problem, "Give a module that copy.deepcopy can copy.") from error
    mine.zero_grad(set_to_none=True)
    return mine


def _blocks(n_data: int) -> list[IntArray]:
    return [np.arange(first, min(first + _BLOCK, n_data)) for first in range(0, n_data, _BLOCK)]
