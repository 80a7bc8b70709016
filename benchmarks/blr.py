"""A step of SGLD on Bayesian logistic regression shaped like a9a: ours inline against BlackJAX inside ``lax.scan``.

The same data, batch size, step size and number of steps, on one core, by turns. Ours reads the design as CSR, as a user
with such data would; BlackJAX reads it dense, which is faster for it. Ours draws minibatches without replacement; the
peers draw with replacement, because without it they would be far slower. Ours keeps every hundredth draw and the whole
trace; the peers keep only the last position.

    python benchmarks/blr.py [--batch-size 50] [--json FILE]
"""

import argparse

import a9a_like
import blackjax_logistic
import harness


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="One step on logistic regression: stalegrad inline and BlackJAX.")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--steps", type=int, default=10_000, help="steps of one timed call (default %(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="simulated workers of ours (default %(default)s)")
    harness.add_arguments(parser)
    arguments = parser.parse_args()
    blackjax_logistic.one_thread()  # before JAX is imported

    import stalegrad as sg

    data = a9a_like.load()
    potential = sg.potentials.Logistic(data.csr(), data.y, batch_size=arguments.batch_size)
    kernel = sg.SGLD(step_size=1e-6)

    def ours() -> sg.Run:
        return sg.sample(
            potential,
            kernel,
            steps=arguments.steps,
            workers=arguments.workers,
            thin=100,
            engine="inline",
            progress=False,
        )

    peer = blackjax_logistic.Peer(data, batch_size=arguments.batch_size, steps=arguments.steps)
    cases = [harness.Case("stalegrad, inline", ours, arguments.steps), *peer.cases()]
    timings = harness.measure(cases, rounds=arguments.rounds, warm_up=2)
    settings = {
        "data": data.source,
        "batch_size": arguments.batch_size,
        "workers": arguments.workers,
        "steps": arguments.steps,
    }
    title = f"SGLD on logistic regression, J = {arguments.batch_size}, one core ({data.source})"
    harness.report(title, timings, settings=settings, json_to=arguments.json)


if __name__ == "__main__":
    main()
