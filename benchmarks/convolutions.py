"""Gradients of LeNet and Cifar10-Quick with convolutions by Fourier transforms, against torch's own.

Random images of the data sets' shapes, the paper's minibatches. Each layer alone, forward and backward, and the
gradient of the whole network; one thread, candidates by turns, medians of rounds. Errors are those of a layer's
outcome and gradients against double precision, the largest over the largest value.

    python benchmarks/convolutions.py [--rounds N] [--json FILE]
"""

import argparse
import copy
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
from stalegrad.potentials.networks.fourier import FourierConv2d

NETWORKS = {
    "LeNet": (sg.networks.lenet, (1, 28, 28), 64),
    "Cifar10-Quick": (sg.networks.cifar10_quick, (3, 32, 32), 100),
}


def direct(layer: nn.Conv2d) -> nn.Conv2d:
    """Torch's convolution with the parameters of this one."""
    plain = nn.Conv2d(layer.in_channels, layer.out_channels, 5, padding=layer.padding)  # type: ignore[arg-type]
    plain.load_state_dict(layer.state_dict())
    return plain


def medians(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Milliseconds of each call, by turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for count in range(rounds + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if count >= 2:
                found[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(times) for name, times in found.items()}


def outcome(layer: nn.Module, x: torch.Tensor, above: torch.Tensor) -> list[torch.Tensor]:
    """y of a layer, and the gradients of its parameters and of x, given those of y."""
    x = x.detach().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], above)]


def of_a_layer(name: str, layer: FourierConv2d, shape: torch.Size, rounds: int) -> dict[str, Any]:
    """Both ways through one layer, and how far each is from double precision."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=random).contiguous(memory_format=torch.channels_last)
    above = torch.randn(layer(x).shape, generator=random).contiguous(memory_format=torch.channels_last)
    ways = {"direct": direct(layer), "Fourier": layer}
    exact = outcome(direct(layer).double(), x.double(), above.double())
    errors = {
        way: max(
            float((mine - true).abs().max() / true.abs().max())
            for mine, true in zip(outcome(module, x, above), exact, strict=True)
        )
        for way, module in ways.items()
    }
    took = medians({way: lambda of=module: outcome(of, x, above) for way, module in ways.items()}, rounds)
    return {"what": name, "milliseconds": took, "ratio": took["direct"] / took["Fourier"], "error": errors}


def of_a_network(name: str, rounds: int) -> list[dict[str, Any]]:
    """Each layer that has two ways, and the whole."""
    make, pixels, batch = NETWORKS[name]
    network = make(seed=0)
    plain = copy.deepcopy(network)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((20 * batch, *pixels)).astype(np.float32), rng.integers(10, size=20 * batch)
    rows, x = [], torch.from_numpy(data[0][:batch])
    for key, layer in network.named_children():
        if isinstance(layer, FourierConv2d):
            rows.append(of_a_layer(f"{name}, {key}", layer, x.shape, rounds))
            setattr(plain, key, direct(layer))
        with torch.no_grad():
            x = layer(x)
    models = {
        way: sg.potentials.from_torch(each, "categorical", data, batch_size=batch)
        for way, each in (("direct", plain), ("Fourier", network))
    }
    theta, some = models["direct"].initial(), np.arange(batch)
    took = medians({way: lambda of=model: of.gradient(theta, some) for way, model in models.items()}, rounds)
    return [*rows, {"what": f"{name}, gradient", "milliseconds": took, "ratio": took["direct"] / took["Fourier"]}]


def main() -> None:
    """Measure, print a table, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description="Convolutions by Fourier transforms, and direct ones.")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cores.one_core()
    torch.set_num_threads(1)
    rows = [row for name in NETWORKS for row in of_a_network(name, given.rounds)]
    print("                            direct    Fourier  ratio    error  (direct)")
    for row in rows:
        each, errors = row["milliseconds"], row.get("error")
        line = f"{row['what']:24} {each['direct']:7.2f} ms {each['Fourier']:7.2f} ms  {row['ratio']:4.2f}×"
        print(line + (f"  {errors['Fourier']:7.1e} {errors['direct']:8.1e}" if errors else ""))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
