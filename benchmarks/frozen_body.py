"""Gradients of the last layer with the frozen layers below computed once, against computing them every time.

LeNet's last layer, 5,010 of 431,080 parameters, on random images of MNIST's shape, minibatches of 64; and the last
layer of a small convolutional network, in torch and, as a plain pytree, in JAX. One thread, candidates by turns,
medians of rounds.

    python benchmarks/frozen_body.py [--json FILE]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import cores
import stalegrad as sg

Make = Callable[[Any, Any, bool], Any]


def lenet() -> tuple[nn.Module, str]:
    """Caffe's LeNet, and what of it is sampled."""
    return sg.networks.lenet(), "ip2.*"


def small() -> tuple[nn.Module, str]:
    """Two convolutions and two linear layers, on the same images."""
    torch.manual_seed(0)
    body = [nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(256, 32), nn.Tanh(), nn.Linear(32, 10)), "7.*"


def in_torch(network: Callable[[], tuple[nn.Module, str]]) -> Make:
    """The model of a module, from images, classes and whether features are kept."""
    module, sample = network()

    def made(images: Any, classes: Any, cache: bool) -> Any:
        data = images, classes
        return sg.potentials.from_torch(module, "categorical", data, batch_size=64, sample=sample, cache=cache)

    return made


def in_jax(images: Any, classes: Any, cache: bool) -> Any:
    """The small network again, with the same weights."""
    import jax

    module, _ = small()
    layers = {str(place): module[place] for place in (0, 2, 5, 7)}
    params = {
        name: {key: value.detach().numpy() for key, value in layer.named_parameters()} for name, layer in layers.items()
    }

    def logits(params: Any, x: Any) -> Any:
        x = x[None]
        for name in ("0", "2"):
            x = jax.lax.conv_general_dilated(x, params[name]["weight"], (2, 2), "VALID")
            x = jax.nn.relu(x + params[name]["bias"][:, None, None])
        x = jax.numpy.tanh(params["5"]["weight"] @ x.ravel() + params["5"]["bias"])
        return params["7"]["weight"] @ x + params["7"]["bias"]

    def log_likelihood(params: Any, datum: Any) -> Any:
        return jax.nn.log_softmax(logits(params, datum[0]))[datum[1]]

    data = images, classes
    return sg.potentials.from_jax(1.0, log_likelihood, data, params, 64, sample="7.*", cache=cache)


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Of one call, the mean of some."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure(name: str, make: Make, parameters: int, n_data: int, rounds: int) -> dict[str, Any]:
    """Milliseconds a gradient both ways, and what the features cost once."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(n_data, 1, 28, 28)).astype(np.float32)
    classes = rng.integers(10, size=n_data)
    make(images[:64], classes[:64], False)  # imports
    start = time.perf_counter()
    models = {"every time": make(images, classes, False)}
    made = time.perf_counter()
    models["once"] = make(images, classes, True)
    once = time.perf_counter() - made - (made - start)
    theta = models["once"].initial()
    batches = [models["once"].minibatches.draw(0, 0, 0, count) for count in range(20)]
    gradients = [model.gradient(theta, batches[0]) for model in models.values()]
    found: dict[str, list[float]] = {way: [] for way in models}
    for _ in range(rounds):
        for way, model in models.items():
            found[way].append(seconds(lambda of=model: [of.gradient(theta, batch) for batch in batches], 1) / 20)
    medians = {way: statistics.median(times) for way, times in found.items()}
    return {
        "model": name, "sampled": models["once"].size, "parameters": parameters,
        "data": n_data, "milliseconds": {way: 1e3 * t for way, t in medians.items()},
        "ratio": medians["every time"] / medians["once"], "seconds_once": once,
        "largest_difference": float(np.abs(gradients[0] - gradients[1]).max() / np.abs(gradients[0]).max()),
    }  # fmt: skip


def main() -> None:
    """Measure, print a table, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description="Frozen layers computed once, and every time.")
    parser.add_argument("--data", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cores.one_core()
    torch.set_num_threads(1)
    sizes = [sum(p.numel() for p in make()[0].parameters()) for make in (lenet, small)]
    models = [("LeNet", in_torch(lenet), sizes[0]), ("small", in_torch(small), sizes[1])]
    models += [("small, JAX", in_jax, sizes[1])]
    rows = [measure(*model, given.data, given.rounds) for model in models]
    print("model       sampled       of  every time      once  ratio  features    error")
    for row in rows:
        each = row["milliseconds"]
        print(
            f"{row['model']:10} {row['sampled']:8,} {row['parameters']:8,} {each['every time']:8.3f} ms "
            f"{each['once']:6.3f} ms {row['ratio']:5.1f}× {row['seconds_once']:7.2f} s {row['largest_difference']:8.1e}"
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
