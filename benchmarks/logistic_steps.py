"""Steps a second on Bayesian logistic regression shaped like a9a: SGLD and SGHMC, J = 10, 50 and 500.

The same data, batch size, step size and prior, on one core, by turns. Ours reads the design as CSR, as a user with such
data would; the others read it dense, which is faster for them. Ours draws minibatches without replacement; the others
draw with replacement, because without it they would be far slower. Ours keeps every hundredth draw and the whole trace;
the others keep only the last position.

    python benchmarks/logistic_steps.py [--batch-size 50] [--samplers SGLD] [--json FILE]
"""

import argparse
from collections.abc import Sequence
from typing import Any

import a9a_like
import blackjax_peer
import cores
import harness
import jax_models
import posteriors_peer
import samplers
from results import Bar, Result

SAMPLERS = {"SGLD": samplers.SGLD, "SGHMC": samplers.SGHMC}
TEXT = """
Bayesian logistic regression on a9a or on data of its shape (32,561 rows, 124 weights, prior N(0, 1)), one core, one
thread, medians of rounds in which the candidates take turns. Ours is `sg.sample(..., engine="inline")` with one
worker; it keeps every hundredth draw and the trace, the others their last position. A call of ours and of the scans
makes {steps:,} steps, a call of the Python loops {loop_steps:,}, because a step in them costs the same in a short run
as in a long one. *Documented* is a peer as its own documentation writes it, *tuned* and *in place* are as fast as we
could write it; *plain JAX* is a bound without any library.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Steps a second on logistic regression: stalegrad and its peers.")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[10, 50, 500])
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--steps", type=int, default=100_000, help="steps of one timed call (default %(default)s)")
    parser.add_argument("--loop-steps", type=int, default=2000, help="likewise, in Python loops (default %(default)s)")
    harness.add_arguments(parser, rounds=3)
    return harness.parse(parser, given, batch_size=[50], steps=2000, loop_steps=50, rounds=1)


def cases(data: a9a_like.LogisticData, sampler: Any, batch_size: int, steps: int, loop: int) -> list[harness.Case]:
    """Ours first, then the peers."""
    import stalegrad as sg

    potential = sg.potentials.Logistic(data.csr(), data.y, batch_size=batch_size)
    kernel = sampler.ours()

    def ours() -> sg.Run:
        return sg.sample(potential, kernel, steps=steps, thin=100, engine="inline", progress=False)

    jax_model = jax_models.logistic(data.dense, data.y)
    log_posterior, start, rows = posteriors_peer.linear(data.dense, data.y)
    minibatch = posteriors_peer.gathered(rows, batch_size)
    peer = blackjax_peer.Peer(jax_model, sampler, batch_size=batch_size, steps=steps)
    return [
        harness.Case("stalegrad, inline", ours, steps),
        *peer.cases(loop_steps=loop, plain=sampler.friction is None and batch_size == 50),
        *posteriors_peer.cases(log_posterior, start, minibatch, len(data.y), sampler, loop),
    ]


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()  # before JAX is imported

    import torch

    torch.set_num_threads(1)
    data = a9a_like.load()
    text = TEXT.format(steps=given.steps, loop_steps=given.loop_steps)
    result = Result("Steps a second: logistic regression", text, {"data": data.source, **vars(given)})
    rates: dict[str, dict[str, float]] = {}
    for name in given.samplers:
        for batch_size in given.batch_size:
            made = cases(data, SAMPLERS[name], batch_size, given.steps, given.loop_steps)
            timings = harness.measure(made, rounds=given.rounds)
            rates[f"{name}, J = {batch_size}"] = {timing.name: timing.rate for timing in timings}
            result.figures[f"{name}, J = {batch_size}"] = [timing.as_dict() for timing in timings]
    names = list(dict.fromkeys(name for row in rates.values() for name in row))
    result.table(
        f"Steps a second, one worker, one core ({data.source})",
        ["", *rates],
        [[name, *(row.get(name) for row in rates.values())] for name in names],
    )
    shown = "SGLD, J = 50" if "SGLD, J = 50" in rates else next(iter(rates))
    result.columns("logistic", f"Logistic regression, {shown}", "steps a second", rates[shown])
    if "SGLD, J = 50" in rates:
        result.bars = bars(rates["SGLD, J = 50"])
    result.finish(given.json)


def bars(rates: dict[str, float]) -> list[Bar]:
    """Against each peer as documented, and as fast as we know how to write it."""
    ours, what = rates["stalegrad, inline"], "a9a, SGLD, J = 50: "
    wanted = (
        ("BlackJAX, scan, documented", 5.0),
        ("BlackJAX, scan, tuned", 5.0),
        ("posteriors, documented", 50.0),
        ("posteriors, in place", 50.0),
    )
    return [Bar(what + peer, ours, rates[peer], bar, unit="steps/s") for peer, bar in wanted]


if __name__ == "__main__":
    main()
