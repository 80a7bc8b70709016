"""Seconds until a posterior average is right to a given precision, on logistic regression shaped like a9a.

φ is the mean loss on the test set, φ̂ its average over the draws so far. Every candidate makes the same number of
independent runs of SGLD with the same step, minibatch size and starts, which are draws of the Laplace approximation.
Its error after t seconds is the root mean square of φ̂ − φ̄ over its runs; φ̄ comes from a long run of MALA on all
data, which has no bias. What is read off is when the error falls below a share of the posterior standard deviation of
φ.

All sample in coordinates in which the curvature at the mode is the identity (:mod:`posterior`): in the original ones,
where it runs from 1 to 27,015, no SGLD mixes in the time of a benchmark.

    python benchmarks/precision_logistic.py [--json FILE]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import blackjax_peer
import cores
import harness
import jax_models
import posteriors_peer
from crossing import first_below
from posterior import Problem, problem
from posterior import exact as exact_draws
from results import Result
from samplers import Sampler

TEXT = """
Logistic regression on a9a or on data of its shape, SGLD with J = {batch_size} and h = {step_size:g} in coordinates in
which every curvature at the mode is 1. φ is the mean loss on the test set and φ̂ its average over the draws so far. The
error is the root mean square of φ̂ over {runs} runs of each candidate, against a mean from MALA on all data ({ess:,.0f}
effective draws); the level is {level:g} posterior standard deviations of φ, above the bias that the minibatches have at
this step size, which no time takes away. {runs} runs know an error to within about {spread:.0%}, and with it the time.
Evaluating φ, compiling and starting processes are outside the time. All but the two worker processes have one core: the
table shows whether handing so small a gradient to another process pays.
"""

Chain = Callable[[int, Any], tuple[Any, Any]]
"""From a run's number and its start to its draws (D, d) and the seconds after which each was there."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Seconds to a given precision on logistic regression.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=24_000, help="of each run (default %(default)s)")
    parser.add_argument("--thin", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--step-size", type=float, default=5e-4)
    parser.add_argument("--level", type=float, default=0.7, help="posterior deviations of φ (default %(default)s)")
    parser.add_argument(
        "--reference", type=int, default=600, help="iterations of MALA, 16 chains (default %(default)s)"
    )
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, runs=2, steps=400, thin=100, reference=20)


def ours(model: Problem, given: argparse.Namespace, workers: int, all_cores: set[int]) -> Chain:
    """One worker inline, or worker processes on all cores."""
    import stalegrad as sg
    from stalegrad.protocol.executor import WORTH_A_BLOCK

    potential, kernel = model.posterior.potential, Sampler(given.step_size).ours()
    if workers == 1:  # a run that is long enough has the loop compiled that shorter ones then use
        sg.sample(potential, kernel, steps=WORTH_A_BLOCK, thin=given.thin, engine="inline", progress=False)

    def chain(number: int, start: Any) -> tuple[Any, Any]:
        options: dict[str, Any] = {"steps": given.steps, "thin": given.thin, "seed": number, "initial": start}
        begun = time.perf_counter()
        if workers == 1:
            run = sg.sample(potential, kernel, engine="inline", progress=False, **options)
            return run.draws[0], _evenly(time.perf_counter() - begun, given)
        mine = cores.current()
        cores.give_back(all_cores)
        run = sg.sample(potential, kernel, workers=workers, engine="processes", progress=False, **options)
        cores.give_back(mine)
        times = run.trace.chains[0].time
        assert times is not None
        between = (times[-1] - times[0]) / (len(times) - 1)
        return run.draws[0], times[given.thin - 1 :: given.thin] - times[0] + between

    return chain


def blackjax(model: Problem, given: argparse.Namespace) -> Chain:
    """The tuned scan; its seconds are spread evenly over its steps."""
    peer = blackjax_peer.Peer(
        jax_models.whitened(model.rows), Sampler(given.step_size), batch_size=given.batch_size, steps=given.steps
    )
    draws_of = peer.draws_of(given.steps, given.thin)

    def chain(number: int, start: Any) -> tuple[Any, Any]:
        begun = time.perf_counter()
        draws = draws_of(number, start).block_until_ready()
        return np.asarray(draws), _evenly(time.perf_counter() - begun, given)

    return chain


def posteriors(model: Problem, given: argparse.Namespace) -> Chain:
    """Its loop, in place."""
    import torch

    log_posterior, _, rows = posteriors_peer.whitened(model.rows)
    minibatch = posteriors_peer.gathered(rows, given.batch_size)

    def chain(number: int, start: Any) -> tuple[Any, Any]:
        torch.manual_seed(number)
        parameters = {"z": torch.from_numpy(start)}
        walk = posteriors_peer.Chain(
            log_posterior, parameters, minibatch, model.rows.n_data, Sampler(given.step_size), inplace=True
        )
        draws, seconds, begun = [], [], time.perf_counter()
        for _ in range(given.steps // given.thin):
            walk.run(given.thin)
            draws.append(walk.state.params["z"].numpy().copy())
            seconds.append(time.perf_counter() - begun)
        return np.array(draws), np.array(seconds)

    return chain


def main() -> None:
    """Measure and report."""
    given = arguments()
    all_cores = cores.one_core()  # before JAX is imported

    import torch

    from stalegrad.analysis.diagnostics.convergence import convergence

    torch.set_num_threads(1)
    model = problem(given.batch_size)
    phi = model.posterior.phi
    exact = exact_draws(model.rows, 16, given.reference)
    values = np.stack([phi(chain.astype(np.float32)) for chain in exact])
    mean, deviation, ess = float(values.mean()), float(values.std()), float(convergence(values).ess)
    candidates = {
        "stalegrad, 1 worker, inline": ours(model, given, 1, all_cores),
        "stalegrad, 2 workers, processes": ours(model, given, 2, all_cores),
        "BlackJAX, scan, tuned": blackjax(model, given),
        "posteriors, in place": posteriors(model, given),
    }
    starts = np.random.default_rng(1).standard_normal((given.runs, exact.shape[2])).astype(np.float32)
    for name, chain in candidates.items():
        if "processes" not in name:
            chain(given.runs, starts[0])  # compiles
    found: dict[str, list[tuple[Any, Any]]] = {name: [] for name in candidates}
    for number, start in enumerate(starts):
        for name, chain in candidates.items():  # by turns
            draws, seconds = chain(number, start)
            average = np.cumsum(phi(draws)) / np.arange(1, len(draws) + 1)
            found[name].append((average, seconds))
    level = given.level * deviation
    rows, curves = [], {}
    for name, runs in found.items():
        averages, seconds = np.array([run[0] for run in runs]), np.mean([run[1] for run in runs], axis=0)
        error = np.sqrt(np.mean(np.square(averages - mean), axis=0))
        curves[name] = seconds, error / deviation
        reached = first_below(seconds, error, level)
        rate = given.steps / seconds[-1]
        last = averages[:, -1]
        bias = float(last.mean() - mean) / deviation
        rows.append([name, "not reached" if reached is None else reached, rate, float(last.var(ddof=1)), bias])
    text = TEXT.format(**{**vars(given), "ess": ess, "spread": 1 / np.sqrt(2 * given.runs)})
    result = Result("Time to precision: logistic regression", text, {"data": model.source, **vars(given)})
    result.table(
        f"Seconds until the error of φ̂ stays below {given.level:g} posterior deviations ({model.source})",
        ["", "seconds", "steps a second", f"variance of φ̂ after {given.steps:,} steps", "its bias, in deviations"],
        rows,
    )
    result.curves(
        "precision_logistic", "Error of φ̂, logistic regression", "seconds", "error / posterior deviation", curves
    )
    result.figures = {"mean": mean, "deviation": deviation, "reference_ess": ess, "level": level}
    result.finish(given.json)


def _evenly(seconds: float, given: argparse.Namespace) -> Any:
    """When each draw of a run was there, if its steps take equally long."""
    return seconds * np.arange(given.thin, given.steps + 1, given.thin) / given.steps


if __name__ == "__main__":
    main()
