"""The potential of a PyTorch module: minibatch, forward, backward, all in one flat vector."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.frontends.torch.batch import (
    Batch,
    Raw,
    apply,
    blocks_of,
    inputs_of,
    length,
    logits_of,
    mapped,
    split,
    tensors_of,
)
from stalegrad.potentials.frontends.torch.data import Collate, Data, TensorData, as_data, as_in_data, tensors
from stalegrad.potentials.frontends.torch.features import Body, find_head, why_not
from stalegrad.potentials.frontends.torch.loss import as_loss, joined
from stalegrad.potentials.frontends.torch.module import FlatModule, check_module, choose, copied, trainable
from stalegrad.potentials.frontends.torch.precision import as_autocast, autocast_as
from stalegrad.potentials.frontends.torch.threads import torch_threads, with_gradients
from stalegrad.potentials.frontends.torch.trial import try_out
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive, over_draws, own_data
from stalegrad.potentials.priors import FlatPrior, Priors

Transform = Callable[[Any], Any]

_BLOCK = 1000  # data in one pass where all are wanted
_BLOCK_OF_DICTS = 64  # the same of sequences, whose outputs are long
_MOST_FEATURES = 1 << 30  # bytes that are kept without being asked for


class TorchPotential(Potential):
    """See :func:`stalegrad.potentials.from_torch`, which makes it.

    Threads that ask at the same time each use a copy of the module of their own: copies are kept, and one that is not
    in use is taken before another is made.
    """

    frozen: str
    """What becomes of the part of the module that is not sampled, in words."""

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
        sample: Any,
        collate: Collate | None,
        autocast: Any,
        cache: bool | None,
    ) -> None:
        self._module = choose(copied(module), sample)
        dtype, device = check_module(self._module)
        self.threads = checks.whole_number("threads", threads, least=1)
        self._autocast = as_autocast(autocast)
        parameters = trainable(self._module)
        self._layout = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
        self._start = np.concatenate([p.detach().cpu().numpy().ravel() for p in parameters.values()])
        self._type, self._device = next(iter(parameters.values())).dtype, device
        self.prior = FlatPrior(prior, self._layout, dtype, self._start)
        self._loss = as_loss(loss, noise_scale)
        if transform is not None and not callable(transform):
            raise ArgumentError("transform", transform, "cannot be called", "Give a function of a minibatch of inputs.")
        self._transform = transform
        has_convolutions = any(isinstance(layer, nn.Conv2d) for layer in self._module.modules())
        self._channels_last = has_convolutions if channels_last is None else bool(channels_last)
        self._body: Body | None = None
        found, of_loader = as_data(data, device, collate)
        self._data = self._converted(found)
        size = of_loader if batch_size is None else batch_size
        super().__init__(self._start.size, Minibatches.of(len(self._data), size, scheme), dtype)
        self._head = self._module
        self._idle: list[FlatModule] = []
        two = self._parts(self._data.batch(np.arange(2) % len(self._data)))
        with self._workspace() as work, torch_threads(self.threads):
            try_out(work.module, self._output, two, self._loss, self._every_target(two.target))
            self.frozen = self._keep_features(work.module, two, cache)
        if self._body is not None:
            self._idle.clear()  # copies of the whole module, of which the head is enough now
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
        return self._differentiate(self._checked(theta), self._blocks(), np.empty(self.size, self.dtype))

    def potential(self, theta: Array) -> float:
        """U(θ) on all data, up to a constant."""
        with self._at(theta) as module:
            total = sum(self._total(module, self._data.batch(indices)).item() for indices in self._blocks())
        return float(total) - self.prior.log_density(self._checked(theta))

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float:
        """The mean of −log p(d_i | θ) over some data, up to a constant."""
        with self._at(theta) as module:
            return float(self._total(module, self._data.batch(indices)).item()) / len(indices)

    def predict(self, theta: Array, X: Any) -> Array:
        """What the module with parameters θ predicts for the rows of ``X``, in float64.

        With loss="categorical" these are the class probabilities (rows, K), softmax of the outputs; with "gaussian" the
        means; with a loss of your own the outputs as they are. ``X`` is given as it was in ``data``: the transform is
        applied. Rows are taken a thousand at a time, so that memory does not grow with their number.
        """
        with as_in_data(X), self._at(theta) as module:
            return np.asarray(joined([self._loss.predict(self._output(module, block)) for block in self._given(X)]))

    def predictive(self, X: Any, predict: Callable[[Any], Any] | None = None) -> Predictive:
        """The function θ ↦ what the module predicts for the rows of ``X``: :meth:`stalegrad.Run.predict` averages it.

        With loss="categorical" these are the class probabilities (rows, K), of sequences those of all their tokens one
        after the other; with "gaussian" the pair of the means, (rows,) where a row has one, and σ².

        Args:
            X: as it was in ``data``; looked at once, and passed through the frozen body, if there is one, once.
            predict: from the module's outputs for some rows to their probabilities (rows, K), or to a pair (mean,
                variance). A loss of your own needs it: it does not say what its outputs mean.
        """
        with as_in_data(X), self._at(self._start) as module:
            blocks = self._given(X)
            self._output(module, mapped(lambda t: t[:2], blocks[0]))  # what does not fit is refused now
        return self._predictive(blocks, self._loss.distribution if predict is None else predict)

    @property
    def is_network(self) -> bool:
        """Its weights may be permuted, and rescaled, without any change of what it says."""
        return True

    def predictions(self, rows: int) -> Callable[[Array], Array] | None:
        """What the module predicts for at most so many of its data, evenly chosen, as :meth:`predict` has it."""
        chosen = np.unique(np.linspace(0, self.n_data - 1, min(rows, self.n_data)).astype(np.int64))
        inputs, _ = self._parts(self._data.batch(chosen))
        return self._predictive(blocks_of(inputs, self._block), self._loss.predict)

    def log_likelihood(self, theta: Array, X: Any = None, y: Any = None) -> Array:
        """Each row's log p(y_i | x_i, θ), in float64: minus their mean over a test set is the test loss.

        Without X and y it is that of the model's own data. Where batches are dicts or single tensors X is all of one.
        """
        whole = X is not None and y is None and not issubclass(self._form, tuple)
        if not whole and own_data(X, y):
            batches = (self._parts(self._data.batch(indices)) for indices in self._blocks())
        else:
            raw = self._checked_pair(X, y) if not whole else tensors("X", X, self._device)
            batches = (self._featured(block) for block in blocks_of(raw, self._block))
        with self._at(theta) as module:
            parts = [
                self._loss.each(self._output(module, batch.inputs), batch.target, length(batch.inputs)).cpu().numpy()
                for batch in batches
            ]
        return np.concatenate(parts)

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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}

    def _differentiate(self, theta: Array, batches: Any, out: Array) -> Array:
        """g̃(θ) on the data of all ``batches`` together, into ``out``."""
        count = sum(indices.size for indices in batches)
        with self._workspace() as work:

            def losses() -> Iterator[torch.Tensor]:
                for indices in batches:
                    yield self._total(work.module, self._data.batch(indices))

            with torch_threads(self.threads), with_gradients(), autocast_as(None, self._device):
                work.differentiate(theta, self.prior, losses(), self.n_data / count, out)
        return out

    @contextmanager
    def _workspace(self) -> Iterator[FlatModule]:
        """A copy of the module that no other thread uses meanwhile. Taking from a list and appending are atomic."""
        try:
            work = self._idle.pop()
        except IndexError:
            with torch.inference_mode(False):
                work = FlatModule(self._head)
        try:
            yield work
        finally:
            self._idle.append(work)

    @contextmanager
    def _at(self, theta: Array) -> Iterator[nn.Module]:
        """The module with the parameters θ, for evaluation only."""
        outside = torch_threads(self.threads), torch.no_grad(), autocast_as(None, self._device)
        with self._workspace() as work, outside[0], outside[1], outside[2]:
            work.load(self._checked(theta))
            yield work.module

    # ------------------------------------------------------------------------------ from a minibatch to its loss

    def _parts(self, raw: Raw) -> Batch:
        """A minibatch of ``_data`` as the module, or its head, and the loss get it."""
        inputs, target = split(raw, self._loss.named)
        if self._body is None:
            inputs = self._inputs(inputs)
        return Batch(inputs, self._loss.convert(target, self._type))

    def _output(self, module: nn.Module, inputs: Any) -> Any:
        """The module's output: a tensor in the parameters' type for the losses here, whatever it is for others."""
        with autocast_as(self._autocast, self._device):
            output = apply(module, inputs)
        if self._loss.named:
            output = logits_of(output)
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            output = output.to(self._type)
        return output

    def _total(self, module: nn.Module, raw: Raw) -> torch.Tensor:
        inputs, target = self._parts(raw)
        return self._loss.total(self._output(module, inputs), target)

    def _inputs(self, inputs: Any) -> Any:
        """A minibatch as the module gets it: transformed, in the parameters' type, channels last for convolutions."""
        if self._transform is not None:
            inputs = self._transform(inputs)
        return mapped(self._input, inputs)

    def _input(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_floating_point():
            x = x.to(self._type)
            if self._channels_last and x.ndim == 4 and x.stride(1) != 1:
                # Not contiguous(): with one channel it would leave the strides, by which torch chooses, as they are.
                x = torch.empty_like(x, memory_format=torch.channels_last).copy_(x)
        return x

    # -------------------------------------------------------------------------------------- rows that are not data

    def _given(self, X: Any) -> list[Any]:
        """Rows that a user wants predictions for, in blocks, as the module or its head gets them."""
        raw = tensors("X", inputs_of(dict(X)) if isinstance(X, Mapping) and self._loss.named else X, self._device)
        with torch_threads(self.threads):
            return [self._features(self._inputs(block)) for block in blocks_of(raw, self._block)]

    def _featured(self, raw: Raw) -> Batch:
        inputs, target = split(raw, self._loss.named)
        return Batch(self._features(self._inputs(inputs)), self._loss.convert(target, self._type))

    def _features(self, inputs: Any) -> Any:
        """What the frozen body makes of inputs; themselves if there is none."""
        if self._body is None:
            return inputs
        with torch.no_grad(), autocast_as(self._autocast, self._device):
            return self._body(inputs).to(self._type)

    def _predictive(self, blocks: list[Any], read: Callable[[Any], Any]) -> Predictive:
        def predicted(theta: Array) -> Any:
            with self._at(theta) as module:
                return joined([read(self._output(module, inputs)) for inputs in blocks])

        return over_draws(predicted)

    def _checked_pair(self, X: Any, y: Any) -> Raw:
        inputs, responses = tensors("X", X, self._device), tensors("y", y, self._device)
        if length(inputs) != length(responses):
            problem = f"has {length(responses)} entries, but X has {length(inputs)} rows"
            raise ArgumentError("y", y, problem, "Give one entry for each row of X.")
        return (*(inputs if isinstance(inputs, tuple) else (inputs,)), *tensors_of(responses))

    # --------------------------------------------------------------------------------------------------- the data

    @property
    def _block(self) -> int:
        return _BLOCK_OF_DICTS if issubclass(self._form, dict) else _BLOCK

    def _blocks(self) -> list[IntArray]:
        size = self._block
        return [np.arange(first, min(first + size, self.n_data)) for first in range(0, self.n_data, size)]

    def _checked(self, theta: Array) -> Array:
        array = np.ascontiguousarray(theta, self.dtype)
        if array.shape != (self.size,):
            raise ArgumentError("theta", theta, f"has shape {array.shape}", f"Give a vector of {self.size} entries.")
        return array

    def _converted(self, data: Data) -> Data:
        """Data in memory in the types of the computation, once and for all."""
        self._form = type(data.batch(np.array([0])))  # and no more of it: it may be a view of all data
        if not isinstance(data, TensorData):
            return data
        inputs, target = split(data.fields, self._loss.named)
        target = self._loss.convert(target, self._type)
        inputs = mapped(lambda x: x.to(self._type) if x.is_floating_point() else x, inputs)
        finite = all(torch.isfinite(x).all() for x in tensors_of(inputs) if x.is_floating_point())
        if self._transform is None and not finite:
            problem = "holds NaN or infinite values"
            raise ArgumentError("X", "data", problem, "Clean the data, or give a transform that does.")
        if isinstance(data.fields, tuple):
            return TensorData((*(inputs if isinstance(inputs, tuple) else (inputs,)), target))
        return TensorData({**inputs, "labels": target} if isinstance(inputs, dict) and self._loss.named else inputs)

    def _every_target(self, of_two: Any) -> Any:
        if isinstance(self._data, TensorData) and len(self._data) > 1:
            return split(self._data.fields, self._loss.named).target
        return of_two

    def _keep_features(self, module: nn.Module, two: Batch, cache: bool | None) -> str:
        """Compute what the frozen body makes of the data once, if that can be done; says what has become of it."""
        reason, head = None, find_head(module)
        if all(parameter.requires_grad for parameter in module.parameters()):
            reason = "nothing is frozen"
        elif cache is False:
            reason = "cache=False"
        elif head is None:
            reason = "what is sampled is not in the last part of the module alone"
        elif not isinstance(two.target, torch.Tensor):
            reason = "the loss sees whole batches"
        else:
            with torch.inference_mode(False), torch.enable_grad(), autocast_as(self._autocast, self._device):
                reason = why_not(module, head, two.inputs)
        if reason is None and head is not None:
            body = Body(copy.deepcopy(self._module), head.name)
            size = body(two.inputs)[0].numel() * self.n_data * self._start.itemsize
            if cache or size <= _MOST_FEATURES:
                self._take_over(body)
                return f"computed once: what {head.name!r} is given of {self.n_data:,} data, {size / 1e6:.1f} MB"
            reason = f"what {head.name!r} is given would take {size / 1e9:.1f} GB; cache=True keeps it all the same"
        if cache:
            remedy = "Sample the last part of the module alone, such as sample='head.*', or leave cache out."
            raise ArgumentError("cache", cache, f"cannot be done: {reason}", remedy)
        return f"computed for every gradient: {reason}"

    def _take_over(self, body: Body) -> None:
        """Let the head alone be the module, and features be its data."""
        features, targets = [], []
        with torch.no_grad(), autocast_as(self._autocast, self._device):
            for indices in self._blocks():
                inputs, target = self._parts(self._data.batch(indices))
                features.append(body(inputs).to(self._type))
                targets.append(target)
        head = find_head(self._module)
        assert head is not None  # it was found before
        self._head, self._body = head.module, body
        self._data = TensorData((torch.cat(features).contiguous(), torch.cat(targets).contiguous()))
