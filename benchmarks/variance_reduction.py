"""Control variates and SVRG on logistic regression of a9a: gradient variance, time of a gradient, error at equal time.

python benchmarks/variance_reduction.py [--json FILE]
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import cores
import harness
import posterior
from results import Result

TEXT = """
Bayesian logistic regression of a9a, or of data of its shape: 124 weights with the prior N(0, 1), J = {batch_size}, one
core, one thread, the inline engine, in coordinates in which every curvature at the mode is 1. Variances are traces of
the covariance of a minibatch gradient at draws of the posterior. All chains start at draws of the Laplace approximation
and run for the same processor time, {seconds:g} s, SGHMC with friction {friction:g}, each at the step size that
`sg.find_step_size` gives it for a bias of 0.1 (SVRG at that of control variates: the finder sees the model's own
noise). The error is that of the average test loss, root mean square over {repeats} seeds, in standard deviations of the
test loss over the posterior; mean and deviation come from MALA on all data ({ess:,.0f} effective draws).
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="What control variates and SVRG gain on logistic regression.")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--friction", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each chain (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=8, help="chains of each candidate (default %(default)s)")
    parser.add_argument(
        "--reference", type=int, default=600, help="iterations of MALA, 16 chains (default %(default)s)"
    )
    parser.add_argument("--gradients", type=int, default=20_000, help="of a calibration (default %(default)s)")
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, seconds=0.05, repeats=2, reference=20, gradients=1000, rounds=1)


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()

    import stalegrad as sg
    from stalegrad.analysis.diagnostics.convergence import convergence
    from stalegrad.protocol.executor import WORTH_A_BLOCK

    problem = posterior.problem(given.batch_size)
    plain, phi = problem.posterior.potential, problem.posterior.phi
    mode = np.zeros(plain.size)
    models: dict[str, Any] = {
        "minibatches": plain,
        "control variates": sg.potentials.control_variates(plain, mode),
        "SVRG": sg.potentials.svrg(plain),
    }
    exact = posterior.exact(problem.rows, 16, given.reference)
    losses = np.stack([phi(chain.astype(np.float32)) for chain in exact])
    kernel = sg.SGHMC(step_size="auto", friction=given.friction, integrator="splitting")
    steps = {
        name: sg.find_step_size(model, kernel, gradients=given.gradients, initial=mode, progress=False)
        for name, model in models.items()
        if name != "SVRG"
    }
    steps["SVRG"] = steps["control variates"]
    starts = np.random.default_rng(1).standard_normal((given.repeats, plain.size))

    def run(name: str, updates: int, seed: int = 0) -> Any:
        return sg.sample(
            models[name], steps[name].kernel, steps=updates, thin=max(1, updates // 500), burn_in=updates // 10,
            initial=starts[seed], seed=seed, engine="inline", progress=False,
        )  # fmt: skip

    updates = WORTH_A_BLOCK if given.rounds > 1 else 100  # in compiled blocks, where a model has them
    cases = [harness.Case(name, lambda name=name: run(name, updates), updates) for name in models]
    timings = harness.measure(cases, rounds=given.rounds, clock=time.process_time)
    draws = exact[:, -1]
    path = run("SVRG", max(models["SVRG"].refresh, 100)).draws[0]
    reports = {
        "control variates": models["control variates"].variance_report(draws),
        "SVRG": models["SVRG"].variance_report(path[-100:], batches=8),
    }
    text = TEXT.format(**vars(given), ess=convergence(losses).ess)
    result = Result("Variance reduction: logistic regression", text, {"data": problem.source, **vars(given)})
    table, figures = [], []
    for name, timing in zip(models, timings, strict=True):
        enough = max(100, int(given.seconds * timing.rate))
        averages = [phi(run(name, enough, seed).draws[0]).mean() for seed in range(given.repeats)]
        errors = (np.array(averages) - losses.mean()) / losses.std()
        variance = reports["control variates"].plain if name == "minibatches" else reports[name].reduced
        cost = given.batch_size if name == "minibatches" else reports[name].reduced_cost
        h, rms = steps[name].step_size, float(np.sqrt(np.mean(errors**2)))
        table.append([name, variance, cost, timing.median, h, enough, rms])
        figures.append({"name": name, "variance": variance, "cost": cost, "microseconds": timing.median, "step_size": h,
                        "updates": enough, "errors": errors.tolist(), "rms_error": rms})  # fmt: skip
    columns = ["", "tr Cov(g)", "gradients of a datum", "µs an update", "step size", "updates", "error at equal time"]
    result.table(f"Logistic regression, J = {given.batch_size} ({problem.source})", columns, table)
    result.figures |= {
        "models": figures,
        "reports": {name: report._asdict() for name, report in reports.items()},
        "reference": {"loss": float(losses.mean()), "deviation": float(losses.std())},
        "timings": [timing.as_dict() for timing in timings],
    }
    result.finish(given.json)


if __name__ == "__main__":
    main()
