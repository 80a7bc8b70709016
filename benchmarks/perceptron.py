"""A step of SGHMC on two-layer perceptrons in torch: ours against the bare gradient and posteriors.

*posteriors* in three forms: as its documentation has it, with ``torch.func.functional_call``; the same with updates in
place; and, the fastest that we know, in place with the layers written out, so that no module is called. *The bare
gradient* is forward and backward of the same module on a minibatch that is already there, and nothing else. One core,
one thread, by turns.

    python benchmarks/perceptron.py [--json FILE]
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import cores
import harness
import network_peers
import posteriors_peer
from results import Bar, Result
from samplers import Sampler

FASTEST = "posteriors, in place, layers written out"
TEXT = """
SGHMC on perceptrons of two layers in torch, one core, one thread, medians of rounds in which the candidates take turns,
random data. Ours is `sg.sample(..., engine="inline")` of `from_torch` with one worker: it draws and gathers the
minibatch, adds the prior, checks the gradient, draws all normals and updates. *posteriors* gathers its minibatches from
tensors: as documented, in place, and in place with the layers written out as functions of its parameters. *The bare
gradient* is forward and backward on a minibatch that is already there.
"""


class Shape(NamedTuple):
    """N data of d numbers, H hidden units, K classes, minibatches of J."""

    data: int
    inputs: int
    hidden: int
    classes: int
    batch_size: int

    @property
    def name(self) -> str:
        """As tables show it."""
        return f"{self.inputs}-{self.hidden}-{self.classes}, J = {self.batch_size}"


SHAPES = (Shape(2000, 20, 50, 3, 50), Shape(60_000, 784, 100, 10, 100))
SAMPLER = Sampler(1e-4, 10.0)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="One step of SGHMC on a perceptron: stalegrad and posteriors.")
    parser.add_argument("--steps", type=int, default=400, help="steps of one timed call (default %(default)s)")
    harness.add_arguments(parser, rounds=9)
    return harness.parse(parser, given, steps=5, rounds=1)


def cases(shape: Shape, steps: int) -> list[harness.Case]:
    """Ours, the bare gradient, then the peers."""
    import torch
    from torch.nn.functional import cross_entropy

    import stalegrad as sg

    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape.data, shape.inputs), np.float32)
    y = rng.integers(0, shape.classes, shape.data)

    def network() -> Any:
        torch.manual_seed(0)
        layers = torch.nn.Linear(shape.inputs, shape.hidden), torch.nn.Linear(shape.hidden, shape.classes)
        return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])

    module = network()
    potential = sg.potentials.from_torch(module, "categorical", (x, y), batch_size=shape.batch_size)
    kernel = SAMPLER.ours()

    def ours() -> Any:
        return sg.sample(potential, kernel, steps=steps, thin=100, engine="inline", progress=False)

    bare_module, rows = network(), (torch.from_numpy(x), torch.from_numpy(y))
    batch = rows[0][: shape.batch_size].clone(), rows[1][: shape.batch_size].clone()

    def bare() -> None:
        for _ in range(steps):
            bare_module.zero_grad(set_to_none=False)
            cross_entropy(bare_module(batch[0]), batch[1], reduction="sum").backward()

    log_posterior = network_peers.posteriors_log_posterior(network(), shape.data)
    minibatch = posteriors_peer.gathered(rows, shape.batch_size)
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    written = written_out(shape.data)
    torch.testing.assert_close(written(parameters, batch)[0], log_posterior(parameters, batch)[0])
    chain = posteriors_peer.Chain(written, parameters, minibatch, shape.data, SAMPLER, inplace=True)
    return [
        harness.Case("stalegrad, from_torch, inline", ours, steps),
        harness.Case("the bare gradient", bare, steps),
        *posteriors_peer.cases(log_posterior, parameters, minibatch, shape.data, SAMPLER, steps),
        harness.Case(FASTEST, lambda: chain.run(steps), steps),
    ]


def written_out(n_data: int) -> Callable[[Any, Any], Any]:
    """The log posterior with the layers as functions of the parameters."""
    from torch.nn.functional import cross_entropy, linear, relu

    log_prior = posteriors_peer.posteriors().diag_normal_log_prob

    def log_posterior(parameters: Any, batch: Any) -> Any:
        hidden = relu(linear(batch[0], parameters["0.weight"], parameters["0.bias"]))
        output = linear(hidden, parameters["2.weight"], parameters["2.bias"])
        return log_prior(parameters) / n_data - cross_entropy(output, batch[1]), output

    return log_posterior


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()

    import torch

    torch.set_num_threads(1)
    result = Result("Steps a second: two-layer perceptrons", TEXT, vars(given))
    for shape in SHAPES:
        timings = harness.measure(cases(shape, given.steps), rounds=given.rounds)
        rows = [[timing.name, timing.median, timing.best, timing.rate] for timing in timings]
        headings = ["", "µs a step, median", "µs a step, best", "steps a second"]
        result.table(f"Perceptron {shape.name}, SGHMC", headings, rows)
        result.figures[shape.name] = [timing.as_dict() for timing in timings]
        rates = {timing.name: timing.rate for timing in timings}
        peers = {name: rate for name, rate in rates.items() if name.startswith("posteriors")}
        fastest = max(peers, key=lambda name: peers[name])
        result.bars.append(
            Bar(f"perceptron {shape.name}: {fastest}", timings[0].rate, peers[fastest], 1.5, unit="steps/s")
        )
    result.finish(given.json)


if __name__ == "__main__":
    main()
