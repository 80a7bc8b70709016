"""What compensation costs: processor time of a worker's gradient and of the server's update, with and without."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from stalegrad.kernels import SGHMC, SGLD, Kernel
from stalegrad.potentials import Logistic
from stalegrad.potentials.base import Potential
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Each

_ROUNDS = 60
_WORKERS = 16


def measure(sizes: tuple[int, ...] = (124, 7_850, 431_080), batch_size: int = 64) -> list[dict[str, Any]]:
    """Microseconds of this thread, the least of several rounds in which both forms take turns; and their ratio.

    The gradient is that of a logistic regression of the size, the cheapest there is: of any other model it is a smaller
    share.
    """
    forms = {
        "linear": (SGLD(step_size=1e-4), StaleGradients(linear=1.0)),
        "look ahead": (SGHMC(step_size=1e-3, friction=10.0), StaleGradients(look_ahead="auto")),
        "both": (SGHMC(step_size=1e-3, friction=10.0), StaleGradients(linear=1.0, look_ahead="auto")),
        "look ahead, tamed": (SGHMC(step_size=1e-3, friction=10.0), StaleGradients(look_ahead="auto", tame=0.1)),
    }
    rows = []
    for size in sizes:
        random = np.random.Generator(np.random.Philox(key=size))
        X = random.standard_normal((2 * batch_size, size), np.float32)
        model = Logistic(X, random.integers(2, size=2 * batch_size), batch_size=batch_size)
        for name, (kernel, architecture) in forms.items():
            both = (StaleGradients(), architecture)
            updates = _least([_update(model, kernel, each) for each in both], size)
            gradients = _least([_gradient(model, kernel, each) for each in both], size)
            rows.append(
                {
                    "size": size, "form": name,
                    "update": updates, "update_ratio": updates[1] / updates[0],
                    "gradient": gradients, "gradient_ratio": gradients[1] / gradients[0],
                }
            )  # fmt: skip
    return rows


def _update(model: Potential, kernel: Kernel, architecture: StaleGradients) -> Callable[[], object]:
    chain = architecture.chain(kernel, Place(np.zeros((1, model.size), np.float32), 0, 0), _WORKERS)
    gradient, record = np.ones((1, model.size), np.float32), Each(lambda update, chain, gradient: None)
    return lambda: chain.apply(gradient, 0, record)


def _gradient(model: Potential, kernel: Kernel, architecture: StaleGradients) -> Callable[[], object]:
    work = architecture.work(model, [kernel], _WORKERS)
    theta, out = np.full((1, model.size), 0.1, np.float32), np.empty((1, model.size), np.float32)
    indices = model.minibatches.draw(0, 0, 0, 0)[None]
    return lambda: work.gradients(theta, indices, out)


def _least(calls: list[Callable[[], object]], size: int) -> list[float]:
    """Microseconds of each call: the least over rounds in which they take turns."""
    times = max(1, 40_000 // size)
    least = [float("inf")] * len(calls)
    for _ in range(_ROUNDS):
        for number, call in enumerate(calls):
            begun = time.thread_time()
            for _ in range(times):
                call()
            least[number] = min(least[number], 1e6 * (time.thread_time() - begun) / times)
    return least
