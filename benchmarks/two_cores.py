"""Updates a second of compiled models on two cores, by two threads that update the chain themselves, and on one core.

    python benchmarks/two_cores.py [--json FILE]

The first measured run of each candidate comes after one that is long enough to be worth compiling its loop.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import a9a_like
import cores
import harness
import images
from results import Bar, Result

BARS = {"logistic": 1.6, "softmax": 1.7}
OVER_BLACKJAX = 6.0
TEXT = """
Updates a second of one chain with two workers on {cores} cores, over those of the inline engine with one worker on one
core: SGLD on logistic regression (a9a, J = {batch_size}) and on softmax regression (MNIST, J = {image_batch_size}). The
workers are threads without the GIL, each of which computes its gradient and applies it itself, under a lock; one worker
on the threads engine shows what lock, clock and trace cost. On a9a BlackJAX's scan, as fast as we could write it, takes
its turn on one core. Candidates take turns; a ratio is the median of those within a round. All runs replay bit for bit.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Updates a second of threads that share a chain.")
    parser.add_argument("--batch-size", type=int, default=50, help="of the logistic regression (default %(default)s)")
    parser.add_argument("--image-batch-size", type=int, default=64, help="of the softmax regression")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of a run on a9a (default %(default)s)")
    parser.add_argument("--image-steps", type=int, default=20_000, help="of a run on MNIST (default %(default)s)")
    parser.add_argument("--models", nargs="+", default=list(BARS), choices=list(BARS))
    harness.add_arguments(parser, rounds=7)
    return harness.parse(parser, given, steps=200, image_steps=20, rounds=1)


def models(given: argparse.Namespace) -> dict[str, tuple[Any, int, str]]:
    """The models that are asked for, with the updates of a run and the source of their data."""
    import stalegrad as sg

    found: dict[str, tuple[Any, int, str]] = {}
    if "logistic" in given.models:
        data = a9a_like.load()
        found["logistic"] = (
            sg.potentials.Logistic(data.csr(), data.y, batch_size=given.batch_size),
            given.steps,
            data.source,
        )
    if "softmax" in given.models:
        pictures = images.load("mnist")
        rows = np.ones((len(pictures.X), 785), np.float32)
        rows[:, :784] = pictures.X.reshape(-1, 784) / np.float32(255)
        potential = sg.potentials.Softmax(
            rows, np.asarray(pictures.y, np.int64), n_classes=10, batch_size=given.image_batch_size
        )
        found["softmax"] = potential, given.image_steps, pictures.source
    return found


def cases(potential: Any, steps: int) -> list[harness.Case]:
    """One worker inline, one thread, two threads."""
    import stalegrad as sg

    kernel = sg.SGLD(step_size=1e-6)

    def run(engine: str, workers: int, updates: int = steps) -> Any:
        return sg.sample(potential, kernel, steps=updates, workers=workers, thin=updates, engine=engine, progress=False)

    candidates = {"inline, 1 worker": ("inline", 1), "threads, 1 worker": ("threads", 1),
                  "threads, 2 workers": ("threads", 2)}  # fmt: skip
    return [
        harness.Case(name, lambda engine=engine, workers=workers: run(engine, workers), steps)  # type: ignore[misc]
        for name, (engine, workers) in candidates.items()
    ]


def blackjax(given: argparse.Namespace, all_cores: set[int]) -> harness.Case | None:
    """Its tuned scan of SGLD on a9a, on one core whatever the others use; None where it is not installed."""
    if find_spec("blackjax") is None or "logistic" not in given.models:
        return None
    import blackjax_peer
    import jax_models
    import samplers

    data = a9a_like.load()
    steps = max(1, given.steps // 10)
    model = jax_models.logistic(data.dense, data.y)
    scan = blackjax_peer.Peer(model, samplers.SGLD, batch_size=given.batch_size, steps=steps).tuned()
    return harness.Case("BlackJAX, scan, tuned, one core", _on_one_core(scan, all_cores), steps)


def _on_one_core(run: Callable[[], object], all_cores: set[int]) -> Callable[[], object]:
    def pinned() -> object:
        cores.give_back({max(all_cores)})
        try:
            return run()
        finally:
            cores.give_back(all_cores)

    return pinned


def compile_loops(potential: Any) -> None:
    """Make runs that are worth compiling loops for, so that shorter ones use these."""
    import stalegrad as sg
    from stalegrad.engines.threads.compiled_server import WORTH_COMPILING
    from stalegrad.protocol.executor import WORTH_A_BLOCK

    for engine, steps in (("inline", WORTH_A_BLOCK), ("threads", WORTH_COMPILING)):
        sg.sample(potential, sg.SGLD(step_size=1e-6), steps=steps, thin=steps, engine=engine, progress=False)


def ratio(ours: harness.Timing, peer: harness.Timing) -> float:
    """How many times as fast we are, the median over rounds."""
    scale = ours.operations / peer.operations
    return scale * statistics.median(theirs / mine for mine, theirs in zip(ours.seconds, peer.seconds, strict=True))


def main() -> None:
    """Measure and report."""
    given = arguments()
    all_cores = cores.one_core()  # before JAX is imported: its threads stay where they begin
    peer = blackjax(given, all_cores)
    cores.give_back(all_cores)
    text = TEXT.format(cores=len(cores.current()), batch_size=given.batch_size, image_batch_size=given.image_batch_size)
    result = Result("Two threads, one chain", text, vars(given))
    for name, (potential, steps, source) in models(given).items():
        if given.rounds > 1:
            compile_loops(potential)
        others = [peer] if peer is not None and name == "logistic" else []
        timings = harness.measure(cases(potential, steps) + others, rounds=given.rounds)
        inline, _, two, *scans = timings
        result.table(
            f"{name.capitalize()} regression, SGLD ({source})",
            ["", "updates a second", "best round", "over inline"],
            [[timing.name, timing.rate, timing.best_rate, timing.rate / inline.rate] for timing in timings],
        )
        over = f"{name} regression, two threads over "
        result.bars.append(Bar(f"{over}inline on one core", ratio(two, inline), None, BARS[name]))
        for scan in scans:
            result.bars.append(Bar(f"{over}BlackJAX's tuned scan on one core", ratio(two, scan), None, OVER_BLACKJAX))
        result.figures[name] = [timing.as_dict() for timing in timings]
    result.finish(given.json)


if __name__ == "__main__":
    main()
