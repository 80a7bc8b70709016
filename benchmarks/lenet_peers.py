"""SGHMC on LeNet by others: posteriors (PyTorch) and BlackJAX (JAX), each as fast as we know how to write it.

Both keep the same minibatch in memory throughout, which spares them the gathering that ours does at every step.

*posteriors* is written as its documentation has it: ``torch.func.functional_call``, the mean log-likelihood plus the
prior over N, temperature 1/N. A second case gives it channels-last weights and images, which its documentation does not
mention and which is faster.

*BlackJAX*: its kernel runs a number of integration steps inside ``lax.scan``, where XLA's convolutions are some ten
times slower on a CPU than outside. Two ways around that are timed: its kernel with convolutions written as matrix
products, and its integrator called step by step from Python with XLA's convolutions. Pooling is a maximum of four
slices, whose gradient is faster than that of a windowed reduction.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import harness

STEP_SIZE = 1e-5
FRICTION = 0.1


def posteriors_cases(network: Callable[[], Any], x: Any, y: Any, n_data: int, steps: int) -> list[harness.Case]:
    """posteriors' SGHMC as documented, and with channels last.

    Args:
        network: makes the module.
        x: images (J, 1, 28, 28), a tensor.
        y: classes (J,), a tensor.
        n_data: N.
        steps: of one timed call.
    """
    import torch
    from torch import func
    from torch.nn.functional import cross_entropy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensordict, about the definition of posteriors' own classes
        import posteriors

    def case(name: str, module: Any, images: Any) -> harness.Case:
        def log_posterior(parameters: Any, batch: Any) -> Any:
            output = func.functional_call(module, parameters, batch[0])
            return -cross_entropy(output, batch[1]) + posteriors.diag_normal_log_prob(parameters) / n_data, output

        sampler = posteriors.sgmcmc.sghmc.build(
            log_posterior, lr=STEP_SIZE, alpha=FRICTION, temperature=1 / n_data
        )  # fmt: skip
        state = sampler.init(dict(module.named_parameters()))

        def run() -> None:
            nonlocal state
            for _ in range(steps):
                state, _ = sampler.update(state, (images, y))

        return harness.Case(name, run, steps)

    last = torch.channels_last
    return [
        case("posteriors, documented", network(), x),
        case(
            "posteriors, channels last",
            network().to(memory_format=last),
            torch.empty_like(x, memory_format=last).copy_(x),
        ),
    ]


def blackjax_cases(x: np.ndarray, y: np.ndarray, n_data: int, steps: int, seed: int = 0) -> list[harness.Case]:
    """BlackJAX's kernel with matrix products, and its integrator with convolutions.

    Args:
        x: images (J, 28, 28, 1).
        y: classes (J,).
        n_data: N.
        steps: of one timed call; the kernel makes as many integration steps.
        seed: of parameters and keys.
    """
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.sgmcmc import diffusions

    def gradient(convolve: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def log_posterior(parameters: Any, batch: Any) -> Any:
            images, classes = batch
            logits = jax.nn.log_softmax(_lenet(parameters, images, convolve))
            likelihood = jnp.take_along_axis(logits, classes[:, None], axis=1).sum()
            prior = -0.5 * sum(jnp.vdot(leaf, leaf) for leaf in parameters)
            return prior + (n_data / images.shape[0]) * likelihood

        return jax.grad(log_posterior)

    rng = np.random.default_rng(seed)
    shapes = ((5, 5, 1, 20), (20,), (5, 5, 20, 50), (50,), (800, 500), (500,), (500, 10), (10,))
    start = [jnp.asarray(0.05 * rng.standard_normal(shape), jnp.float32) for shape in shapes]
    batch = jnp.asarray(x), jnp.asarray(y)
    kernel = blackjax.sghmc(gradient(_matrix_products), num_integration_steps=steps, alpha=FRICTION)
    integrate = diffusions.sghmc(FRICTION, 0.0)
    gradient_of_convolutions = gradient(_convolution)

    @jax.jit
    def many(key: Any, position: Any) -> Any:
        return kernel.step(key, position, batch, STEP_SIZE)

    @jax.jit
    def one(key: Any, position: Any, momentum: Any) -> Any:
        key, mine = jax.random.split(key)
        return key, *integrate(mine, position, momentum, gradient_of_convolutions(position, batch), STEP_SIZE, 1.0)

    def run_kernel() -> None:
        jax.block_until_ready(many(jax.random.key(seed), start))

    def run_integrator() -> None:
        state = jax.random.key(seed), start, start
        for _ in range(steps):
            state = one(*state)
        jax.block_until_ready(state[1])

    return [
        harness.Case("BlackJAX, its kernel, matrix products", run_kernel, steps),
        harness.Case("BlackJAX, its integrator, convolutions", run_integrator, steps),
    ]


def _lenet(parameters: Any, x: Any, convolve: Callable[[Any, Any], Any]) -> Any:
    import jax

    conv1, bias1, conv2, bias2, ip1, bias3, ip2, bias4 = parameters
    x = _pool(convolve(x, conv1) + bias1)
    x = _pool(convolve(x, conv2) + bias2).reshape(x.shape[0], -1)
    return jax.nn.relu(x @ ip1 + bias3) @ ip2 + bias4


def _convolution(x: Any, w: Any) -> Any:
    from jax import lax

    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _matrix_products(x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    side, _, channels, width = w.shape
    height = x.shape[1] - side + 1
    shifted = [x[:, i : i + height, j : j + height] for i in range(side) for j in range(side)]
    patches = jnp.concatenate(shifted, axis=-1).reshape(-1, side * side * channels)
    return (patches @ w.reshape(-1, width)).reshape(x.shape[0], height, height, width)


def _pool(x: Any) -> Any:
    from jax.numpy import maximum

    count, height, width, channels = x.shape
    x = x.reshape(count, height // 2, 2, width // 2, 2, channels)
    rows = maximum(x[:, :, 0], x[:, :, 1])
    return maximum(rows[:, :, :, 0], rows[:, :, :, 1])
