"""The share of a run that its warm-up takes, and its memory, at 100, 10,000 and 431,080 parameters.

Logistic and softmax regressions on made-up tables and LeNet on made-up images, each in a process of its own: once by
``sg.sample(potential, steps=…)``, and once with a sampler that has all its numbers and no warm-up. What the first has
at its peak beyond the second is the warm-up's memory, in vectors of parameters.

    python benchmarks/warmup_cost.py [--models logistic softmax lenet] [--json FILE]
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import cores
import harness
from results import Result

STEPS = {"logistic": 100_000, "softmax": 20_000, "lenet": 2000}
KEPT = 50
"""Draws that a run keeps: its own memory is not what is measured."""
TEXT = """
Processor seconds of `sg.sample(potential, steps=…)` on one core, in the process that has it alone, and what the warm-up
took of them; its gradients, in those of the model's minibatches; and by how many mebibytes, and vectors of n
parameters in the model's precision, the peak memory of that process is above that of the same run with a sampler that
has all its numbers and no warm-up. Each run keeps {kept} draws.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Share and memory of the warm-up.")
    parser.add_argument("--models", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--steps", type=int, help="of all (default: 100,000, 20,000 and 2,000)")
    parser.add_argument("--child", choices=["with", "without"], help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, models=["logistic"], steps=1000)


def potential_of(name: str) -> Any:
    """The model and its made-up data."""
    import stalegrad as sg

    rng = np.random.default_rng(302)
    if name == "lenet":
        images = rng.integers(256, size=(2000, 28, 28), dtype=np.uint8)
        labels = images[:, 4:24, 4:24].astype(np.int64).sum((1, 2)) % 10
        return sg.potentials.from_torch(
            sg.networks.lenet(), "categorical", (images, labels), batch_size=32, transform=sg.networks.lenet_pixels
        )
    columns = 100 if name == "logistic" else 1000
    x = rng.normal(size=(10_000, columns)).astype(np.float32)
    if name == "logistic":
        y = rng.random(10_000) < 1 / (1 + np.exp(-x @ np.linspace(-0.3, 0.3, columns)))
        return sg.potentials.Logistic(x, y.astype(np.int32), batch_size=100)
    y = np.argmax(x @ rng.normal(0, 0.2, (columns, 10)) + rng.gumbel(size=(10_000, 10)), axis=1)
    return sg.potentials.Softmax(x, y, n_classes=10, batch_size=100)


def child(name: str, steps: int, warm: bool) -> dict[str, Any]:
    """One run; what it took."""
    import stalegrad as sg
    import warmup_split

    potential, thin = potential_of(name), max(1, steps // KEPT)
    if warm:
        split = warmup_split.sample(potential, steps=steps, thin=thin)
    else:
        kernel = sg.SGHMC(step_size=1e-6, friction=100.0)
        split = warmup_split.sample(potential, kernel=kernel, steps=steps, thin=thin, warmup=None)
    return {
        "parameters": potential.size, "bytes": potential.size * potential.dtype.itemsize, "warmup": split.warmup,
        "sampling": split.sampling, "share": split.share,
        "gradients": split.run.warmup.gradients if warm else 0, "record": str(split.run.warmup) if warm else "",
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def measured(name: str, steps: int, kind: str) -> dict[str, Any]:
    """A run in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--models", name, "--steps", str(steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and report."""
    given = arguments()
    if given.child:
        cores.one_core()
        print(json.dumps(child(given.models[0], given.steps, given.child == "with")))
        return
    rows, figures = [], {}
    for name in given.models:
        steps = given.steps or STEPS[name]
        found, plain = measured(name, steps, "with"), measured(name, steps, "without")
        more = found["peak"] - plain["peak"]
        figures[name] = {"steps": steps, "with": found, "without": plain}
        rows.append([
            name, f"{found['parameters']:,}", f"{steps:,}", found["warmup"], found["sampling"], f"{found['share']:.0%}",
            found["gradients"], more / 2**20, more / found["bytes"],
        ])  # fmt: skip
    result = Result("The cost of a warm-up", TEXT.format(kept=KEPT), vars(given))
    headings = ["", "n", "steps", "warm-up, s", "sampling, s", "share", "gradients", "MiB", "vectors"]
    result.table("Warm-up", headings, rows)
    result.figures = figures
    result.finish(given.json)


if __name__ == "__main__":
    main()
