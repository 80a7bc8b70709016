"""Steps a second on softmax regression of MNIST: 7,850 weights, dense rows.

python benchmarks/softmax.py [--json FILE]
"""

import argparse
from collections.abc import Sequence

import numpy as np

import blackjax_peer
import cores
import harness
import images
import jax_models
import posteriors_peer
from results import Result
from samplers import Sampler

SAMPLER = Sampler(1e-6)
TEXT = """
Bayesian softmax regression of MNIST, or of images of its shape: 784 pixels in [0, 1] and an intercept, ten classes,
7,850 weights with the prior N(0, 1), SGLD with J = {batch_size}, one core, one thread, medians. All candidates read
dense float32 rows.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Steps a second on softmax regression: stalegrad and its peers.")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4000, help="steps of one timed call (default %(default)s)")
    parser.add_argument("--loop-steps", type=int, default=1000, help="likewise, in Python loops (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, steps=20, loop_steps=5, rounds=1)


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()  # before JAX is imported

    import torch

    import stalegrad as sg

    torch.set_num_threads(1)
    data = images.load("mnist")
    rows = np.ones((len(data.X), 785), np.float32)
    rows[:, :784] = data.X.reshape(-1, 784) / np.float32(255)
    classes = np.asarray(data.y, np.int64)
    potential = sg.potentials.Softmax(rows, classes, n_classes=10, batch_size=given.batch_size)
    kernel = SAMPLER.ours()

    def ours() -> sg.Run:
        return sg.sample(potential, kernel, steps=given.steps, thin=given.steps, engine="inline", progress=False)

    model = jax_models.softmax(rows, classes, 10)
    peer = blackjax_peer.Peer(model, SAMPLER, batch_size=given.batch_size, steps=given.steps)
    log_posterior, start, tensors = posteriors_peer.linear(rows, classes, 10)
    minibatch = posteriors_peer.gathered(tensors, given.batch_size)
    cases = [
        harness.Case("stalegrad, inline", ours, given.steps),
        *peer.cases(loop_steps=given.loop_steps),
        *posteriors_peer.cases(log_posterior, start, minibatch, len(rows), SAMPLER, given.loop_steps),
    ]
    timings = harness.measure(cases, rounds=given.rounds)
    text = TEXT.format(batch_size=given.batch_size)
    result = Result("Steps a second: softmax regression", text, {"data": data.source, **vars(given)})
    ours_rate = timings[0].rate
    result.table(
        f"Softmax regression, SGLD, J = {given.batch_size}, one core ({data.source})",
        ["", "steps a second", "best round", "ours over it"],
        [[timing.name, timing.rate, timing.best_rate, ours_rate / timing.rate] for timing in timings],
    )
    result.columns("softmax", "Softmax regression, SGLD", "steps a second", {t.name: t.rate for t in timings})
    result.figures["timings"] = [timing.as_dict() for timing in timings]
    result.finish(given.json)


if __name__ == "__main__":
    main()
