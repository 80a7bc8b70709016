"""Gradients of the last layer with the frozen layers below computed once, against computing them every time.

LeNet's last layer, 5,010 of 431,080 parameters, on random images of MNIST's shape, minibatches of 64; and the last
layer of a small convolutional network. One thread, candidates by turns, medians of rounds.

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

import stalegrad as sg


def lenet() -> tuple[nn.Module, str]:
    """Caffe's LeNet, and what of it is sampled."""
    return sg.networks.lenet(), "ip2.*"


def small() -> tuple[nn.Module, str]:
    """Two convolutions and two linear layers, on the same images."""
    torch.manual_seed(0)
    body = [nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(256, 32), nn.Tanh(), nn.Linear(32, 10)), "7.*"


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Of one call, the mean of some."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure(name: str, make: Callable[[], tuple[nn.Module, str]], n_data: int, rounds: int) -> dict[str, Any]:
    """Milliseconds a gradient both ways, and what the features cost once."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(n_data, 1, 28, 28)).astype(np.float32)
    classes = rng.integers(10, size=n_data)
    module, sample = make()
    options = {"batch_size": 64, "sample": sample}
    start = time.perf_counter()
    models = {
        "every time": sg.potentials.from_torch(module, "categorical", (images, classes), cache=False, **options),
    }
    made = time.perf_counter()
    models["once"] = sg.potentials.from_torch(module, "categorical", (images, classes), cache=True, **options)
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
        "model": name, "sampled": models["once"].size, "parameters": sum(p.numel() for p in module.parameters()),
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
    rows = [measure(name, make, given.data, given.rounds) for name, make in (("LeNet", lenet), ("small", small))]
    print(print("model     sampled       of  every time      once  ratio  features    error"))
    for row in rows:
        each = row["milliseconds"]
        print(
            f"{row['model']:8} {row['sampled']:8,} {row['parameters']:8,} {each['every time']:8.3f} ms "
            f"{each['once']:6.3f} ms {row['ratio']:5.1f}× {row['seconds_once']:7.2f} s {row['largest_difference']:8.1e}"
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
