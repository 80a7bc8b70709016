"""Classic posteriors by ``sg.sample(potential, steps=…)`` and nothing else, held against long runs of NUTS.

Each of :mod:`classics.catalogue` is made as a user would make it, sampled with whatever the warm-up finds, and
diagnosed. :mod:`classics.accuracy` says when a mean or a standard deviation counts as off; wrong and silent is what
must not occur.

    python benchmarks/classic_posteriors.py [--models logistic garch] [--steps 20000] [--json FILE]
    python benchmarks/classic_posteriors.py --workers 8 --engine inline     # eight stale workers
    python benchmarks/classic_posteriors.py --far                           # started 100 standard deviations away
"""

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import harness
from classics import accuracy, catalogue
from results import Result

DISTANCE = 100.0
"""Of ``--far``, in posterior standard deviations."""
MOST_NUMBERS = 20_000_000
"""Draws × parameters that a chain keeps; beyond, it is thinned."""
TEXT = """
Every posterior sampled by `sg.sample(potential, steps={steps:,})` and nothing else{settings}. *Mean off by* is the
largest distance of a posterior mean from the reference's, in its posterior standard deviations, *sd ratio* the standard
deviation furthest from the reference's, each with the standard error of the comparison; which quantity is furthest is
judged after errors have been allowed for. A run is *right* if every mean is within 0.1 standard deviations and every
standard deviation within 10 %, beyond what Monte Carlo errors of both sides explain (benchmarks/classics/accuracy.py),
and each mean is known to 0.1; *imprecise* if it is within but knows less; *warned* if it is either off or imprecise and
`run.diagnose(potential)` has a serious finding. Effective draws are of the slowest quantity. Processor seconds are
those of all threads, with compiling and warm-up.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Sample classic posteriors with nothing set, and compare with NUTS.")
    known = catalogue.with_reference()
    parser.add_argument("--models", nargs="+", choices=known, default=known, help="those that have a reference")
    parser.add_argument("--steps", type=int, default=20_000, help="of each chain (default %(default)s)")
    parser.add_argument("--workers", type=int, help="of each chain (default: that of sg.sample)")
    parser.add_argument("--servers", type=int, help="chains (default: that of sg.sample)")
    parser.add_argument("--engine", help="default: that of sg.sample")
    parser.add_argument("--far", action="store_true", help=f"start {DISTANCE:g} posterior standard deviations away")
    parser.add_argument("--seed", type=int, default=0)
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, steps=200, models=["groups_non_centred", "poisson"])


def far_start(reference: Any, layout: Any, seed: int) -> Any:
    """100 posterior standard deviations from the posterior mean, in a random direction of the standardised θ."""
    import numpy as np

    direction = np.random.default_rng(seed).normal(size=sum(len(reference[site].mean) for site in layout))
    direction *= DISTANCE / np.linalg.norm(direction)
    mean, sd = (np.concatenate([getattr(reference[site], field) for site in layout]) for field in ("mean", "sd"))
    return mean + sd * direction


def sample(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """One posterior: what was found, as JSON has it."""
    import stalegrad as sg
    from classics import reference
    from classics.summary import summarise

    classic, wanted = catalogue.make(name), reference.read(name)
    potential = classic.potential()
    options = {key: value for key in ("workers", "servers", "engine") if (value := getattr(given, key)) is not None}
    if given.far:
        if classic.predictions is not None:  # there is no reference of θ itself: from the model's own start
            options["initial"] = potential.initial() + _away(potential, given.seed)
        else:
            options["initial"] = far_start(wanted, potential.layout, given.seed)
    if potential.size * given.steps > MOST_NUMBERS:
        options["thin"] = -(-potential.size * given.steps // MOST_NUMBERS)
    found: dict[str, Any] = {"name": catalogue.NAMES[name], "parameters": potential.size}
    begun, begun_processor = time.perf_counter(), time.process_time()
    try:
        run = sg.sample(potential, steps=given.steps, seed=given.seed, progress=False, **options)
    except (ArithmeticError, ValueError, RuntimeError) as problem:
        found |= {"verdict": accuracy.REFUSED, "problem": f"{type(problem).__name__}: {problem}"}
        return found | _seconds(begun, begun_processor)
    found |= _seconds(begun, begun_processor)
    functions = None
    if classic.predictions is not None:
        predict = classic.predictor(potential)
        functions = {"predictions": lambda theta: predict(theta[None])[0]}
    findings = run.diagnose(potential, functions=functions)
    judged = accuracy.compare(summarise(classic.judged(potential, run.draws)), wanted)
    serious = [finding for finding in findings if finding.severity == "serious"]
    found |= {
        "verdict": judged.verdict(bool(serious)),
        "mean": vars(judged.mean), "sd": vars(judged.sd), "effective_draws": judged.ess, "rhat": judged.rhat,
        "serious": [finding.name for finding in serious], "findings": [str(finding) for finding in findings],
        "chains": run.draws.shape[0], "draws": run.draws.shape[1],
        "gradients": sum(len(chain) for chain in run.staleness), "warmup_gradients": run.warmup.gradients,
        "warmup": str(run.warmup),
    }  # fmt: skip
    return found


def _away(potential: Any, seed: int) -> Any:
    import numpy as np

    direction = np.random.default_rng(seed).normal(size=potential.size)
    return DISTANCE * direction / np.linalg.norm(direction)


def _seconds(begun: float, begun_processor: float) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds, processor = time.perf_counter() - begun, time.process_time() - begun_processor
    return {"seconds": seconds, "processor_seconds": processor, "peak_mebibytes": peak}


def row(found: dict[str, Any]) -> list[str | float | None]:
    """A line of the table."""
    if found["verdict"] == accuracy.REFUSED:
        seconds = found["processor_seconds"]
        return [found["name"], found["parameters"], None, None, found["verdict"], None, seconds, None, None, None]
    mean, sd = found["mean"], found["sd"]
    verdict = found["verdict"] if found["verdict"] != accuracy.SILENT else f"**{found['verdict']}**"
    return [
        found["name"], found["parameters"], f"{mean['off']:.2f} ± {mean['error']:.2f} ({mean['name']})",
        f"{sd['off']:.2f} ± {sd['error']:.2f} ({sd['name']})", verdict, ", ".join(found["serious"]) or None,
        found["processor_seconds"], found["warmup_gradients"], found["gradients"], found["effective_draws"],
    ]  # fmt: skip


def main() -> int:
    """Sample, compare, report; the status is 1 if any was wrong and silent."""
    given = arguments()
    found = []
    for name in given.models:
        found.append(sample(name, given))
        print(f"{name}: {found[-1]['verdict']}", file=sys.stderr, flush=True)
    settings = "".join(
        f", {key}={getattr(given, key)}" for key in ("workers", "servers", "engine") if getattr(given, key)
    )
    settings += f", started {DISTANCE:g} posterior standard deviations away" if given.far else ""
    result = Result("Classic posteriors", TEXT.format(steps=given.steps, settings=settings), vars(given))
    headings = [
        "", "n", "mean off by", "sd ratio", "verdict", "serious", "processor s",
        "gradients of the warm-up", "of the run", "effective draws",
    ]  # fmt: skip
    result.table(f"sg.sample(potential, steps={given.steps:,}){settings}", headings, [row(each) for each in found])
    result.figures = {"posteriors": found}
    result.finish(given.json)
    return int(any(each["verdict"] == accuracy.SILENT for each in found))


if __name__ == "__main__":
    sys.exit(main())
