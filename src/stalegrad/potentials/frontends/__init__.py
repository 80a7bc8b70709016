"""Models that users wrote elsewhere: JAX, NumPyro and torch models, plain functions, and data that workers load.

Each library is imported by its own file alone, when its function is first called. What lives here turns a model into a
:class:`~stalegrad.potentials.Potential`; no sampling, and nothing that a built-in model needs.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stalegrad._internal.errors import MissingExtra
from stalegrad.potentials.frontends.function import from_gradient
from stalegrad.potentials.frontends.loader import from_loader
from stalegrad.potentials.priors import Priors

if TYPE_CHECKING:
    from stalegrad.potentials.frontends.jax import JaxPotential
    from stalegrad.potentials.frontends.numpyro import NumpyroPotential
    from stalegrad.potentials.frontends.torch import TorchPotential

__all__ = ["from_gradient", "from_jax", "from_loader", "from_numpyro", "from_torch"]


def from_jax(
    log_prior: Callable[[Any], Any] | Priors,
    log_likelihood: Callable[[Any, Any], Any],
    data: Any,
    params: Any,
    batch_size: int | None = None,
    scheme: str = "subset",
    dtype: Any = None,
    *,
    predict: Callable[[Any, Any], Any] | None = None,
    sample: str | Sequence[str] | None = None,
    cache: bool | None = None,
    inputs: Callable[[Any], Any] | None = None,
    network: bool | None = None,
) -> "JaxPotential":
    """The potential U(θ) = −log p(θ) − Σ_i log p(d_i | θ) of a model written in JAX, differentiated by JAX.

    Args:
        log_prior: log p(θ), a function from the parameters to a scalar; or the scale of a normal, a prior of
            :mod:`stalegrad.potentials.priors`, or a mapping from names of leaves, in which * stands for any characters,
            to those. Names are paths, as ``layout`` has them: ``params["layer"]["bias"]`` is ``layer.bias``.
        log_likelihood: log p(d | θ), a function from the parameters and ONE datum to a scalar.
        data: a pytree of arrays whose first axes all have length N; a datum is the same pytree without that axis. NaN
            is left alone, since it may be your mark for a missing value.
        params: a pytree of floating-point arrays: the structure of the parameters and where chains start. Modules of
            Flax NNX and Equinox are such pytrees: functions among their leaves are left alone.
        batch_size: J; None for all data.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of the flat θ. None means float64 if any leaf of ``params`` is, which needs JAX's 64-bit mode.
        predict: what ``predictive(X)`` applies: a function from the parameters and ONE x to the probabilities of its
            classes, (K,), or to a pair (mean, variance of the noise).
        sample: the names of the leaves that are sampled, in which * stands for any characters, such as ``"head.*"``;
            None for all. The others are constants, of any type; ``unravel`` puts them back.
        cache: whether what the frozen leaves make of the data, before anything that is sampled has a say, is computed
            once and kept, so that a gradient costs what comes after it. None for doing so where it can be done and
            takes at most 1 GiB; ``model.frozen`` says what became of it. Gradients differ from those without in their
            last bits.
        inputs: from ONE datum to the x of it that ``predict`` takes; None for x of a pair (x, y), or the entry ``"x"``
            or ``"X"`` of a dict. For ``network`` alone.
        network: whether runs are judged by what the model predicts for some of its data, since its weights have no
            meaning of their own. None for whether it multiplies matrices, or convolves arrays, both of which depend on
            θ, as layers below the last do, and it is known what it predicts.

    Returns:
        A :class:`Potential` with ``predictive(X)`` and ``log_likelihood(theta)`` that has, besides, ``frozen`` and
        ``unravel(theta)``: the flat θ as a pytree like ``params``.

    >>> import jax.numpy as jnp
    >>> model = from_jax(
    ...     log_prior=lambda p: -0.5 * p["mean"] ** 2,
    ...     log_likelihood=lambda p, d: -0.5 * (d - p["mean"]) ** 2,
    ...     data=jnp.array([1.0, 2.0, 3.0]),
    ...     params={"mean": jnp.array(0.0)},
    ... )
    >>> model.full_gradient(model.initial())
    array([-6.], dtype=float32)
    """
    try:
        from stalegrad.potentials.frontends.jax import JaxPotential
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("jax", "jaxlib"):
            raise
        raise MissingExtra("from_jax", "jax") from error
    options = (predict, sample, cache, inputs, network)
    return JaxPotential(log_prior, log_likelihood, data, params, batch_size, scheme, dtype, *options)


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    init_strategy: Callable[..., Any] | None = None,
    scheme: str = "subset",
    dtype: Any = None,
    **kwargs: Any,
) -> "NumpyroPotential":
    """The potential of a NumPyro model in its unconstrained parameters, as NUTS has it, on minibatches.

    A model with ``plate(name, N, subsample_size=J)`` runs as it is: N/J scales the plate's likelihood, and which data a
    minibatch holds is a function of the run's seed, not of NumPyro's. Without such a plate each gradient takes all
    data, and ``n_data`` is 1: what is observed is one datum. θ holds the latent sites, transformed to the real line
    (the log-Jacobian is part of the potential); ``variables(draws)`` gives them back by name and on their own scale,
    with the deterministic sites outside the subsampled plate.

    Args:
        model: a NumPyro model. It may subsample one plate, which must hold no latent site. Latent sites are continuous.
        *args: of the model. Arrays are arguments of the compiled gradient, everything else is a constant of it; arrays
            too, where the model computes with their values in Python, say to count groups.
        init_strategy: where chains start, from ``numpyro.infer``; None for the origin of the unconstrained space.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of the flat θ. None means float64 if JAX is in its 64-bit mode.
        **kwargs: of the model.

    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(x, subsample_size=None):
    ...     scale = numpyro.sample("scale", dist.LogNormal())
    ...     with numpyro.plate("data", len(x), subsample_size=subsample_size) as batch:
    ...         numpyro.sample("x", dist.Normal(0.0, scale), obs=x[batch])
    >>> potential = from_numpyro(model, np.array([1.0, 2.0, 3.0]), subsample_size=2)
    >>> potential.full_gradient(np.zeros(1)), potential.gradient(np.zeros(1), np.array([0, 2]))
    (array([-11.], dtype=float32), array([-12.], dtype=float32))
    >>> potential.variables(np.zeros((4, 100, 1)))["scale"].shape
    (4, 100)
    """
    try:
        from stalegrad.potentials.frontends.numpyro import NumpyroPotential
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("jax", "jaxlib", "numpyro"):
            raise
        raise MissingExtra("from_numpyro", "numpyro") from error
    return NumpyroPotential(model, args, kwargs, init_strategy, scheme, dtype)


def from_torch(
    module: Any,
    loss: str | Callable[[Any, Any], Any],
    data: Any,
    prior: Priors = 1.0,
    batch_size: int | None = None,
    scheme: str = "subset",
    *,
    sample: str | Sequence[str] | None = None,
    noise_scale: float = 1.0,
    transform: Callable[[Any], Any] | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    autocast: Any = None,
    cache: bool | None = None,
    channels_last: bool | None = None,
    threads: int = 1,
) -> "TorchPotential":
    """The potential U(θ) = −log p(θ) − Σ_i log p(y_i | module(x_i)) of a PyTorch module, differentiated by torch.

    θ holds the parameters that are sampled, in the order of ``module.named_parameters()``. The module is copied as it
    is now, with its mode and its buffers; its parameters are where chains start. A layer whose output depends on the
    rest of the minibatch or on random numbers is refused: BatchNorm and Dropout must be in eval mode.

    Minibatches may be tensors, tuples or dicts of them, and outputs tensors or objects that have one as ``.logits``, so
    that Hugging Face's models and PEFT's adapters go in as they are. A tuple (x, …, y) is module(x, …) compared with y.
    A dict goes to the module by the names of its arguments, without its entry ``"labels"``, which is y; with a loss of
    your own all of it goes there, and the loss is a function of (outputs, batch). A tensor is both x and y.

    A datum is what the first axis counts. Of token models that is a sequence, log p of which is the sum over its tokens
    that count; those with the label −100 do not. The N/J of a minibatch's gradient then counts sequences, whatever
    their lengths: Σ over all tokens of J sequences, times N/J, is an unbiased estimate of that over all N. A mean over
    the tokens of a minibatch, as trainers take it, would not be one where lengths differ.

    Args:
        module: a ``torch.nn.Module``, on any device, whose sampled parameters are of float32 or float64.
        loss: ``"categorical"`` (outputs (J, K) are logits, y are classes; or (J, T, K) and (J, T) of tokens),
            ``"next_token"`` (outputs at each place are logits of the next token), ``"gaussian"`` (outputs are the means
            of y), or a function of (outputs, y) that returns the −log p of each datum or their sum, not the mean.
        data: a pair (X, y) of arrays or tensors, not copied if their types suit, or a tuple or dict of several; a data
            set with these attributes; a map-style torch Dataset or a list of items, which are fetched a minibatch at a
            time and collated, which is slow; or a DataLoader, of which its dataset, collate function and, if none is
            given here, its batch size are taken: it must not shuffle, for the run's seed says which data come when.
        prior: the scale of a normal, a prior of :mod:`stalegrad.potentials.priors`, or a mapping from names of
            parameters, in which * stands for any characters, to those. ``priors.Centred(0.1)`` has its centre where the
            module is now.
        batch_size: J; None for all data.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        sample: the names of the parameters that are sampled, in which * stands for any characters: ``"head.*"``,
            ``"*lora_*"``, ``["*.bias", "head.*"]``. None for those that require a gradient. All others are constants.
        noise_scale: σ of ``"gaussian"``.
        transform: applied to the x of every minibatch, a tensor (J, …), or tuple or dict, before the module. With one
            that scales them, pixels can stay bytes in memory.
        collate: from a list of a Dataset's items to a minibatch; None for torch's own rules, or the DataLoader's.
        autocast: ``"bfloat16"`` for applying the module in it, by torch's autocast. θ, the gradient and the chain stay
            as they are.
        cache: whether what comes before the part of the module that is sampled is computed once for all data and kept,
            so that a gradient costs what the last part does. None for doing so where it can be done and takes at most
            1 GiB; ``model.frozen`` says what became of it. Gradients differ from those without in their last bits.
        channels_last: lay the images (J, C, H, W) out with channels last, which is faster on the CPU; None for doing so
            if the module has two-dimensional convolutions.
        threads: how many threads torch uses in one gradient, on whatever engine. The last bits of a gradient depend on
            it, so it belongs to the model: a replay computes with as many as the workers did.

    Returns:
        A :class:`Potential` with ``predictive(X)`` and ``log_likelihood(theta)`` that has, besides,
        ``predict(theta, X)``, ``potential(theta)``, ``module_at(theta)`` and ``frozen``.

    >>> import torch
    >>> line = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    >>> x, y = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2.0, 4.0, 6.0])
    >>> model = from_torch(line, "gaussian", (x, y), prior=10.0)
    >>> model.layout
    {'weight': (1, 1)}
    >>> model.full_gradient([2.0])
    array([0.02])
    """
    try:
        from stalegrad.potentials.frontends.torch import TorchPotential
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise MissingExtra("from_torch", "torch") from error
    return TorchPotential(
        module, loss, data, prior, batch_size, scheme, noise_scale, transform, channels_last, threads, sample, collate,
        autocast, cache,
    )  # fmt: skip
