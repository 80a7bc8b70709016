"""SGHMC on networks by others: posteriors (PyTorch) and BlackJAX (JAX), each as fast as we know how to write it.

*posteriors* is written as its documentation has it: ``torch.func.functional_call``, the mean log-likelihood plus the
prior over N, temperature 1/N. A second case gives it channels-last weights and images and lets it update in place.

*BlackJAX*: its kernel runs a number of integration steps inside ``lax.scan``, where XLA's convolutions are some ten
times slower on a CPU than outside. Two ways around that are timed: its kernel with convolutions written as matrix
products, and its integrator called step by step from Python with XLA's convolutions. Pooling is written with slices,
whose gradient is faster than that of a windowed reduction.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import harness
from posteriors_peer import Chain, posteriors
from samplers import Sampler


def posteriors_log_posterior(module: Any, n_data: int) -> Callable[[Any, Any], Any]:
    """Of parameters by name and a minibatch (x, y)."""
    from torch import func
    from torch.nn.functional import cross_entropy

    log_prior = posteriors().diag_normal_log_prob

    def log_posterior(parameters: Any, batch: Any) -> Any:
        output = func.functional_call(module, parameters, batch[0])
        return log_prior(parameters) / n_data - cross_entropy(output, batch[1]), output

    return log_posterior


def posteriors_cases(
    network: Callable[[], Any], x: Any, y: Any, n_data: int, sampler: Sampler, steps: int
) -> list[harness.Case]:
    """posteriors' SGHMC as documented, and with channels last and in place.

    Args:
        network: makes the module.
        x: images (J, …), a tensor.
        y: classes (J,), a tensor.
        n_data: N.
        sampler: the numbers.
        steps: of one timed call.
    """
    import torch

    last = torch.channels_last

    def case(name: str, module: Any, images: Any, inplace: bool) -> harness.Case:
        chain = Chain(
            posteriors_log_posterior(module, n_data), dict(module.named_parameters()), lambda: (images, y), n_data,
            sampler, inplace=inplace,
        )  # fmt: skip
        return harness.Case(name, lambda: chain.run(steps), steps)

    x_last = torch.empty_like(x, memory_format=last).copy_(x)
    return [
        case("posteriors, documented", network(), x, False),
        case("posteriors, channels last, in place", network().to(memory_format=last), x_last, True),
    ]


def blackjax_cases(
    name: str, module: Any, x: Any, y: Any, n_data: int, sampler: Sampler, steps: int
) -> list[harness.Case]:
    """BlackJAX's kernel with matrix products, and its integrator with convolutions.

    Args:
        name: of the network, ``"lenet"`` or ``"cifar10_quick"``.
        module: the torch module whose weights are where it starts.
        x: images (J, channels, height, width), a tensor.
        y: classes (J,), a tensor.
        n_data: N.
        sampler: the numbers.
        steps: of one timed call; the kernel makes as many integration steps.
    """
    import blackjax
    import jax
    import jax.numpy as jnp

    start = jax_parameters(module)
    batch = jnp.asarray(x.permute(0, 2, 3, 1).numpy()), jnp.asarray(y.numpy())
    check_same_network(name, module, x, start, batch[0])
    by_products, by_convolutions = (log_gradient(name, c, n_data) for c in (matrix_products, convolution))
    friction = sampler.friction or 0.0
    kernel = blackjax.sghmc(by_products, num_integration_steps=steps, alpha=friction)
    step = integrator_step(by_convolutions, sampler)

    @jax.jit
    def many(key: Any, position: Any) -> Any:
        return kernel.step(key, position, batch, sampler.step_size)

    def run_kernel() -> None:
        jax.block_until_ready(many(jax.random.key(0), start))

    def run_integrator() -> None:
        state = jax.random.key(0), start, start
        for _ in range(steps):
            state = step(*state, batch)
        jax.block_until_ready(state[1])

    return [
        harness.Case("BlackJAX, its kernel, matrix products", run_kernel, steps),
        harness.Case("BlackJAX, its integrator, convolutions", run_integrator, steps),
    ]


def integrator_step(gradient: Callable[[Any, Any], Any], sampler: Sampler) -> Callable[..., Any]:
    """One compiled step of BlackJAX's integrator: (key, position, momentum, minibatch) to the next first three."""
    import jax
    from blackjax.sgmcmc import diffusions

    integrate = diffusions.sghmc(sampler.friction or 0.0, 0.0)

    @jax.jit
    def step(key: Any, position: Any, momentum: Any, batch: Any) -> Any:
        key, mine = jax.random.split(key)
        return key, *integrate(mine, position, momentum, gradient(position, batch), sampler.step_size, 1.0)

    return step


def log_gradient(name: str, convolve: Callable[..., Any], n_data: int) -> Callable[[Any, Any], Any]:
    """∇log p of the parameters on a minibatch (x, y)."""
    import jax
    import jax.numpy as jnp

    def log_posterior(parameters: Any, batch: Any) -> Any:
        images, classes = batch
        logits = jax.nn.log_softmax(NETWORKS[name](parameters, images, convolve))
        likelihood = jnp.take_along_axis(logits, classes[:, None], axis=1).sum()
        prior = -0.5 * sum(jnp.vdot(leaf, leaf) for leaf in parameters)
        return prior + (n_data / images.shape[0]) * likelihood

    return jax.grad(log_posterior)


def jax_parameters(module: Any) -> list[Any]:
    """A torch module's weights in JAX's order: convolutions (height, width, in, out), layers (in, out)."""
    import jax.numpy as jnp

    found, channels = [], 1
    for parameter in module.parameters():
        value = parameter.detach().numpy()
        if value.ndim == 4:
            channels = value.shape[0]
            value = value.transpose(2, 3, 1, 0)
        elif value.ndim == 2:
            if channels:  # the first layer after convolutions: from (channel, height, width) to channels last
                side = int(np.sqrt(value.shape[1] // channels))
                value = value.reshape(-1, channels, side, side).transpose(0, 2, 3, 1).reshape(value.shape)
                channels = 0
            value = value.T
        found.append(jnp.asarray(np.ascontiguousarray(value)))
    return found


def torch_vector(parameters: list[Any], module: Any) -> np.ndarray:
    """The inverse of :func:`jax_parameters`: all weights in the order of the torch module, in one vector."""
    found, channels = [], 1
    for value, like in zip(map(np.asarray, parameters), module.parameters(), strict=True):
        if value.ndim == 4:
            channels = value.shape[3]
            value = value.transpose(3, 2, 0, 1)
        elif value.ndim == 2:
            value = value.T
            if channels:
                side = int(np.sqrt(value.shape[1] // channels))
                value = value.reshape(-1, side, side, channels).transpose(0, 3, 1, 2)
                channels = 0
        found.append(value.reshape(like.shape).ravel())
    return np.concatenate(found)


def check_same_network(name: str, module: Any, x: Any, parameters: list[Any], images: Any) -> None:
    """The comparison is worth nothing unless both networks give the same logits."""
    import torch

    with torch.no_grad():
        wanted = module(x).numpy()
    given = np.concatenate([parameter.detach().numpy().ravel() for parameter in module.parameters()])
    np.testing.assert_array_equal(torch_vector(parameters, module), given)
    for convolve in (convolution, matrix_products):
        np.testing.assert_allclose(NETWORKS[name](parameters, images, convolve), wanted, rtol=1e-3, atol=1e-3)


def _lenet(parameters: Any, x: Any, convolve: Callable[..., Any]) -> Any:
    import jax

    conv1, bias1, conv2, bias2, ip1, bias3, ip2, bias4 = parameters
    x = _halved(convolve(x, conv1) + bias1)
    x = _halved(convolve(x, conv2) + bias2).reshape(x.shape[0], -1)
    return jax.nn.relu(x @ ip1 + bias3) @ ip2 + bias4


def _cifar10_quick(parameters: Any, x: Any, convolve: Callable[..., Any]) -> Any:
    from jax.nn import relu

    conv1, bias1, conv2, bias2, conv3, bias3, ip1, bias4, ip2, bias5 = parameters
    x = relu(_largest_of_nine(convolve(_padded(x), conv1) + bias1))
    x = _mean_of_nine(relu(convolve(_padded(x), conv2) + bias2))
    x = _mean_of_nine(relu(convolve(_padded(x), conv3) + bias3)).reshape(x.shape[0], -1)
    return (x @ ip1 + bias4) @ ip2 + bias5


NETWORKS: dict[str, Callable[..., Any]] = {"lenet": _lenet, "cifar10_quick": _cifar10_quick}


def convolution(x: Any, w: Any) -> Any:
    """By XLA."""
    from jax import lax

    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def matrix_products(x: Any, w: Any) -> Any:
    """As one product of a matrix of patches."""
    import jax.numpy as jnp

    side, _, channels, width = w.shape
    height = x.shape[1] - side + 1
    shifted = [x[:, i : i + height, j : j + height] for i in range(side) for j in range(side)]
    patches = jnp.concatenate(shifted, axis=-1).reshape(-1, side * side * channels)
    return (patches @ w.reshape(-1, width)).reshape(x.shape[0], height, height, width)


def _padded(x: Any, before: int = 2, after: int = 2, value: float = 0.0) -> Any:
    import jax.numpy as jnp

    return jnp.pad(x, ((0, 0), (before, after), (before, after), (0, 0)), constant_values=value)


def _halved(x: Any) -> Any:
    """The maximum over 2 × 2."""
    from jax.numpy import maximum

    count, height, width, channels = x.shape
    x = x.reshape(count, height // 2, 2, width // 2, 2, channels)
    rows = maximum(x[:, :, 0], x[:, :, 1])
    return maximum(rows[:, :, :, 0], rows[:, :, :, 1])


def _nine(x: Any, value: float) -> list[Any]:
    """The entries of windows of 3 × 3 with stride 2 on an even side, the last of which reach over the edge by one."""
    side = x.shape[1]
    x = _padded(x, 0, 1, value)
    return [x[:, i : i + side - 1 : 2, j : j + side - 1 : 2] for i in range(3) for j in range(3)]


def _largest_of_nine(x: Any) -> Any:
    from functools import reduce

    from jax.numpy import maximum

    return reduce(maximum, _nine(x, -np.inf))


def _mean_of_nine(x: Any) -> Any:
    """Over the entries that are there: at the edge 6 of them, in the corner 4."""
    inside = np.full(x.shape[1] // 2, 3.0, np.float32)
    inside[-1] = 2
    return sum(_nine(x, 0.0)) / np.outer(inside, inside)[:, :, None]
