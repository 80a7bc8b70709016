"""Time speedup of figure 2's posterior average, measured: real threads that share a chain, against one worker.

    python benchmarks/time_speedup.py [--runs 300] [--json FILE]

φ̂ is the mean test loss of logistic regression on a9a, in the coordinates of figure 2 (``stalegrad reproduce fig2``).
Every repetition is a run of its own on the engine at hand, with the staleness that it really had. The seconds of an
update are those of longer runs, from call to return, the median of rounds in which the two take turns between
repetitions; at equal seconds the variances of φ̂ over repetitions are compared, as in the paper. The interval is a
bootstrap of pairs of repetitions with equal seeds.
"""

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

import a9a_like
import cores
import harness
from results import Bar, Result

BAR = 1.6
TEXT = """
Variance of figure 2's posterior average φ̂ (mean test loss, logistic regression on {data}, J = {batch_size}, whitened
SGLD with h = {step_size:g}) against seconds, over {runs} runs each: one worker inline on one core, and two workers on
the threads engine on {cores} cores, every run with the staleness that it really had. The speedup is seconds of one
worker over seconds of two at equal variance, with a 95 % interval over repetitions. Rates are those of runs of
{rate_steps:,} updates from call to return, medians of {rounds} rounds in which the two take turns.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Measured time speedup of a posterior average.")
    parser.add_argument("--runs", type=int, default=300, help="repetitions of each (default %(default)s)")
    parser.add_argument("--steps", type=int, default=40_000, help="updates of a run (default %(default)s)")
    parser.add_argument("--rate-steps", type=int, default=500_000, help="of runs that are timed (default %(default)s)")
    parser.add_argument("--thin", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--step-size", type=float, default=5e-4)
    harness.add_arguments(parser, rounds=11)
    return harness.parse(parser, given, runs=8, steps=20_000, rate_steps=20_000, thin=400, rounds=2)


def main() -> None:
    """Measure and report."""
    import time

    import stalegrad as sg
    from stalegrad.analysis.estimates import speedup_interval
    from stalegrad.experiments.fig2_posterior import posterior

    given = arguments()
    data = a9a_like.dataset()
    model = posterior(data, given.batch_size)
    kernel = sg.SGLD(step_size=given.step_size)

    def sampled(engine: str, workers: int, seed: int, steps: int) -> Any:
        return sg.sample(
            model.potential, kernel, steps=steps, workers=workers, thin=given.thin, seed=seed, engine=engine,
            progress=False,
        )  # fmt: skip

    if not given.quick:
        for engine, workers in (("inline", 1), ("threads", 2)):  # long enough to be worth compiling its loop
            sampled(engine, workers, 0, 120_000)
    rates: dict[int, list[float]] = {1: [], 2: []}
    estimates: dict[int, list[Any]] = {1: [], 2: []}
    engines = {1: "inline", 2: "threads"}
    for seed in range(given.runs):
        for workers, engine in engines.items():
            run = sampled(engine, workers, seed, given.steps)
            estimates[workers].append(run.running(model.phi, batched=True)[0])
        while len(rates[2]) * given.runs < given.rounds * (seed + 1):  # rounds are spread over the repetitions
            for workers, engine in engines.items():
                begun = time.perf_counter()
                sampled(engine, workers, len(rates[2]), given.rate_steps)
                rates[workers].append(given.rate_steps / (time.perf_counter() - begun))
    updates = given.thin * np.arange(1, given.steps // given.thin + 1)
    median = {workers: statistics.median(found) for workers, found in rates.items()}
    seconds = {workers: updates / median[workers] for workers in (1, 2)}
    both = seconds[1], np.array(estimates[1]), seconds[2], np.array(estimates[2])
    found = speedup_interval(*both, seed=0, paired=True)
    settings = {"data": data.name, **vars(given)}
    text = TEXT.format(cores=len(cores.current()), **settings)
    result = Result("Time speedup of a posterior average", text, settings)
    result.table(
        "One worker and two",
        ["", "updates a second", "standard deviation of φ̂ at the end"],
        [[f"{w} worker{'s' if w > 1 else ''}", median[w], float(np.std(np.array(estimates[w])[:, -1], ddof=1))]
         for w in (1, 2)],
    )  # fmt: skip
    name = f"figure 2, time speedup of two threads (95 %: {found.low:.2f} to {found.high:.2f})"
    result.bars = [Bar(name, float(found), None, BAR)]
    result.figures = {"rates": rates, "speedup": float(found), "interval": [found.low, found.high]}
    result.finish(given.json)


if __name__ == "__main__":
    main()
