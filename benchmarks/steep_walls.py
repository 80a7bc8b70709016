"""Classes that can be told apart, under a vague prior: a posterior that is flat at its mode and has steep walls.

Two weights of a logistic regression on 20 points without overlap. Inside a wedge the likelihood is 1 and the prior all
there is; at its sides curvatures are up to 1,600 times as large, and a chain is there once in ten or a hundred updates.
A step that is too long for the walls throws it out: nothing overflows, and the mean is wrong. What the curvature at a
few draws says of the step depends on chance, so every seed is another warm-up. The truth is a sum over a grid.

    python benchmarks/steep_walls.py [--prior-scale 30] [--seeds 24] [--json FILE]
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import harness
from results import Result

TEXT = """
`StaleClassifier(prior_scale={prior_scale:g}, steps={steps:,}, random_state=seed)` on 20 points of two classes without
overlap: how far the mean of the slope is from a sum over a grid, in posterior standard deviations, its standard
deviation over the exact one, effective draws, the step that the warm-up chose, and what `run.diagnose()` finds.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="A flat posterior with steep walls, by many seeds.")
    parser.add_argument("--prior-scale", type=float, default=30.0)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=24)
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, steps=2000, seeds=2)


def data() -> tuple[Any, Any]:
    """Points around −1 and 1, and their classes."""
    noise = np.random.default_rng(0).normal(scale=0.25, size=20)
    return np.repeat([-1.0, 1.0], 10) + noise, np.repeat([0, 1], 10)


def exact(x: Any, labels: Any, prior_scale: float, points: int = 1001) -> tuple[float, float]:
    """Mean and standard deviation of the slope, on standardised x, by a sum over a grid."""
    slope, intercept = np.meshgrid(*2 * [prior_scale * np.linspace(-5, 5, points)], indexing="ij")
    log_density = -(slope**2 + intercept**2) / (2 * prior_scale**2)
    for z, sign in zip((x - x.mean()) / x.std(), 2 * labels - 1, strict=True):
        log_density -= np.logaddexp(0, -sign * (slope * z + intercept))
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = float(np.sum(density * slope))
    return mean, float(np.sqrt(np.sum(density * (slope - mean) ** 2)))


def fitted(x: Any, labels: Any, truth: tuple[float, float], seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One seed."""
    from stalegrad.analysis.estimates import effective_sample_size
    from stalegrad.sklearn import StaleClassifier

    model = StaleClassifier(prior_scale=given.prior_scale, steps=given.steps, random_state=seed).fit(x[:, None], labels)
    draws = (model.coef_draws_[:, 0, 0] * x.std() - truth[0]) / truth[1]
    return {
        "seed": seed, "off": float(draws.mean()), "ratio": float(draws.std()),
        "effective": float(effective_sample_size(draws[None, :, None])[0]),
        "step": float(model.run_.warmup.numbers[0]["step_size"]),
        "findings": [f"{each.severity}: {each.name}" for each in model.run_.diagnose()],
    }  # fmt: skip


def main() -> None:
    """Fit and report."""
    given = arguments()
    x, labels = data()
    truth = exact(x, labels, given.prior_scale)
    found = [fitted(x, labels, truth, seed, given) for seed in range(given.seeds)]
    result = Result("Steep walls", TEXT.format(**vars(given)), vars(given))
    headings = ["seed", "mean off by", "sd ratio", "effective draws", "step", "findings"]
    rows = [
        [str(each["seed"]), f"{each['off']:.3f}", f"{each['ratio']:.3f}", each["effective"], each["step"],
         ", ".join(each["findings"]) or None]
        for each in found
    ]  # fmt: skip
    result.table(f"Prior scale {given.prior_scale:g}", headings, rows)
    result.figures = {"seeds": found}
    result.finish(given.json)
    worst = max(abs(each["off"]) for each in found), max(abs(np.log(each["ratio"])) for each in found)
    print(f"the worst mean is {worst[0]:.3f} standard deviations off, the worst standard deviation {worst[1]:.1%}")


if __name__ == "__main__":
    main()
