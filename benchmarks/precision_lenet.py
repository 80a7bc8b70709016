"""Seconds until the averaged test log-likelihood of LeNet is right to a given precision.

Every candidate runs SGHMC from the same weights with the same step, friction and minibatch size, one run each. φ is the
mean log-likelihood on some of the test images; the estimate after t seconds is its average over the later half of the
draws so far, and its error is held against the same average of a longer run of ours. What is read off is when the error
falls below a level and stays there.

    python benchmarks/precision_lenet.py [--json FILE]
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import cores
import harness
import network_peers
from crossing import first_below
from networks import Task
from posteriors_peer import Chain
from results import Result
from stalegrad.engines.processes.freed_memory import (
    keep_freed_memory,  # so that nobody pays for pages that others gave back
)

TEXT = """
SGHMC on LeNet (MNIST or images of its shape), J = {batch_size}, step and friction from Caffe's learning rate and
momentum, the same weights at the start, one run of {steps:,} steps of each candidate. φ is the mean log-likelihood on
{test:,} test images, averaged over the later half of the draws so far; the reference is the same average of a run of
ours of {reference:,} steps, with another seed. All but the two worker processes have one core. Starting processes,
compiling and evaluating φ are outside the time. This is one run of each: differences of a few per cent mean nothing.
"""

Path = tuple[Any, Any]
"""φ of every draw, and the seconds after which each was there."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Seconds to a given precision on LeNet.")
    parser.add_argument("--steps", type=int, default=1200, help="of each run (default %(default)s)")
    parser.add_argument("--reference", type=int, default=4800, help="steps of the reference (default %(default)s)")
    parser.add_argument("--thin", type=int, default=40)
    parser.add_argument("--test", type=int, default=2000, help="test images (default %(default)s)")
    parser.add_argument("--level", type=float, default=0.2, help="nats an image (default %(default)s)")
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, steps=8, reference=12, thin=2, test=50)


class Race:
    """The candidates."""

    def __init__(self, given: argparse.Namespace, all_cores: set[int]) -> None:
        self.given, self.all_cores, self.task = given, all_cores, Task("lenet")
        self.X_test, self.y_test = self.task.data.X_test[: given.test], self.task.data.y_test[: given.test]

    def phi(self, draws: Any) -> Any:
        """The mean log-likelihood on the test images of every draw, by our own model for all candidates."""
        model = self.task.potential
        return np.array([model.log_likelihood(theta, self.X_test, self.y_test).mean() for theta in draws])

    def ours(self, workers: int, steps: int, seed: int = 0) -> Path:
        """One worker inline, or worker processes on all cores."""
        import stalegrad as sg

        options: dict[str, Any] = {"steps": steps, "thin": self.given.thin, "seed": seed, "progress": False}
        kernel = self.task.sampler.ours()
        if workers == 1:
            begun = time.perf_counter()
            run = sg.sample(self.task.potential, kernel, engine="inline", **options)
            times = (time.perf_counter() - begun) * np.arange(1, steps + 1) / steps
        else:
            mine = cores.current()
            cores.give_back(self.all_cores)
            run = sg.sample(self.task.potential, kernel, workers=workers, engine="processes", **options)
            cores.give_back(mine)
            recorded = run.trace.chains[0].time
            assert recorded is not None
            times = recorded - recorded[0] + (recorded[-1] - recorded[0]) / (steps - 1)
        return self.phi(run.draws[0]), times[self.given.thin - 1 :: self.given.thin]

    def posteriors(self) -> Path:
        """Channels last, in place."""
        import torch

        last, data, pixels = torch.channels_last, self.task.data, self.task.pixels
        module = self.task.network().to(memory_format=last)
        X, y = torch.from_numpy(data.X), torch.from_numpy(np.asarray(data.y, np.int64))
        size = self.task.recipe.batch_size

        def minibatch() -> Any:
            indices = torch.randint(len(X), (size,))
            return pixels(X[indices]).contiguous(memory_format=last), y[indices]

        chain = Chain(
            network_peers.posteriors_log_posterior(module, len(y)), dict(module.named_parameters()), minibatch, len(y),
            self.task.sampler, inplace=True,
        )  # fmt: skip

        def flat() -> Any:
            return np.concatenate([chain.state.params[name].numpy().ravel() for name, _ in module.named_parameters()])

        torch.manual_seed(0)
        return self._raced(lambda: chain.run(self.given.thin), flat)

    def blackjax(self) -> Path:
        """Its integrator step by step with XLA's convolutions, the data on the device."""
        import jax
        import jax.numpy as jnp

        module, data, size = self.task.network(), self.task.data, self.task.recipe.batch_size
        gradient = network_peers.log_gradient("lenet", network_peers.convolution, len(data.y))
        step = network_peers.integrator_step(gradient, self.task.sampler)
        X, y = jnp.asarray(data.X), jnp.asarray(np.asarray(data.y, np.int32))
        start = network_peers.jax_parameters(module)
        rng = np.random.default_rng(0)
        momentum = [jnp.asarray(rng.standard_normal(leaf.shape), jnp.float32) for leaf in start]

        @jax.jit
        def minibatch(indices: Any) -> Any:
            return X[indices][..., None] / 256.0, y[indices]

        def steps(state: Any, count: int) -> Any:
            for indices in rng.integers(len(y), size=(count, size)):
                state = step(*state, minibatch(indices))
            return jax.block_until_ready(state)

        state = jax.random.key(0), start, momentum
        steps(state, 1)  # compiles

        def on() -> None:
            nonlocal state
            state = steps(state, self.given.thin)

        return self._raced(on, lambda: network_peers.torch_vector(state[1], module))

    def _raced(self, on: Any, flat: Any) -> Path:
        """Draws of a candidate that goes on when it is told to."""
        draws, seconds, spent = [], [], 0.0
        for _ in range(self.given.steps // self.given.thin):
            begun = time.perf_counter()
            on()
            spent += time.perf_counter() - begun
            draws.append(flat())
            seconds.append(spent)
        return self.phi(draws), np.array(seconds)


def later_half(values: Any) -> Any:
    """The average over the later half of the draws so far, after each draw."""
    return np.array([values[k // 2 : k + 1].mean() for k in range(len(values))])


def main() -> None:
    """Measure and report."""
    given = arguments()
    all_cores = cores.one_core()  # before JAX is imported
    keep_freed_memory()

    import torch

    torch.set_num_threads(1)
    race = Race(given, all_cores)
    race.ours(1, 2 * given.thin)  # compiles
    reference = later_half(race.ours(2 if len(all_cores) > 1 else 1, given.reference, seed=1)[0])[-1]
    paths = {
        "stalegrad, 1 worker, inline": race.ours(1, given.steps),
        "stalegrad, 2 workers, processes": race.ours(2, given.steps),
        "posteriors, channels last, in place": race.posteriors(),
        "BlackJAX, its integrator": race.blackjax(),
    }
    rows, curves = [], {}
    for name, (values, seconds) in paths.items():
        error = np.abs(later_half(values) - reference)
        curves[name] = seconds, error
        reached = first_below(seconds, error, given.level)
        shown = "not reached" if reached is None else reached
        rows.append([name, shown, given.steps / seconds[-1], float(later_half(values)[-1])])
    text = TEXT.format(**{**vars(given), "batch_size": race.task.recipe.batch_size})
    result = Result("Time to precision: LeNet", text, {"data": race.task.data.source, **vars(given)})
    result.table(
        f"Seconds until the averaged test log-likelihood stays within {given.level:g} of the reference, "
        f"{reference:.4f} ({race.task.data.source})",
        ["", "seconds", "steps a second", "estimate at the end"],
        rows,
    )
    result.curves("precision_lenet", "Error of the test log-likelihood, LeNet", "seconds", "error, nats", curves)
    result.figures = {"reference": float(reference), "level": given.level}
    result.finish(given.json)


if __name__ == "__main__":
    main()
