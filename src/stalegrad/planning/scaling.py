"""How a cluster would scale: staleness, throughput and speedup against the number of workers, from simulated traces."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad.engines.simulation import Law, Network, simulate
from stalegrad.protocol.admission import Policy
from stalegrad.protocol.chain_trace import ChainTrace


@dataclass(frozen=True)
class Prediction:
    """What one server with so many workers would do."""

    workers: int
    mean_staleness: float
    max_staleness: int
    dropped: float
    """Share of gradients that were dropped."""
    updates_per_second: float
    speedup: float
    """Accepted updates a second over those of one worker: the time speedup at equal precision of the variance."""
    server_busy: float
    """Share of the time in which the server was updating."""


def worker_numbers(most: int) -> list[int]:
    """1, 2, 4, … and the largest itself.

    >>> worker_numbers(6)
    [1, 2, 4, 6]
    """
    return [2**k for k in range(most.bit_length()) if 2**k < most] + [most]


def predict(
    workers: Sequence[int],
    *,
    law: Callable[[int], Law],
    steps: int = 20_000,
    network: Network | None = None,
    update: float = 0.0,
    max_staleness: int | None = None,
    policy: Policy = "drop",
    seed: int = 0,
) -> list[Prediction]:
    """Simulate each number of workers, and one worker to compare with.

    Rates are read from the second half of each run, after the start-up in which all workers hold version 0.

    Args:
        workers: the numbers of workers to try.
        law: the law of compute times for so many workers.
        steps: accepted updates simulated for each, but never fewer than 20 for each worker.
        network: the server's link.
        update: seconds of an update.
        max_staleness: bound on the staleness.
        policy: what happens at the bound.
        seed: of the compute times.
    """

    def run(count: int) -> ChainTrace:
        trace = simulate(
            workers=count, steps=max(steps, 20 * count), compute=law(count), network=network, update=update,
            max_staleness=max_staleness, policy=policy, seed=seed,
        )  # fmt: skip
        return trace.chains[0]

    alone = updates_per_second(run(1))
    return [_prediction(count, run(count), alone, update) for count in workers]


def _second_half(trace: ChainTrace) -> slice:
    return slice(len(trace) // 2, None)


def updates_per_second(trace: ChainTrace) -> float:
    """Accepted updates a second, from the last gradient of the first half on: equal workers come in bursts."""
    half = _second_half(trace)
    assert trace.time is not None
    duration = trace.time[-1] - trace.time[half.start - 1]
    if duration <= 0:
        raise ArgumentError("compute", 0.0, "takes no time, so there is no rate", "Give the seconds of a gradient > 0.")
    return float(np.count_nonzero(trace.accepted[half]) / duration)


def _prediction(count: int, trace: ChainTrace, alone: float, update: float) -> Prediction:
    half = _second_half(trace)
    staleness, accepted = trace.staleness[half], trace.accepted[half]
    per_second = updates_per_second(trace)
    return Prediction(
        workers=count,
        mean_staleness=float(staleness[accepted].mean()) if accepted.any() else float("nan"),
        max_staleness=int(staleness[accepted].max(initial=0)),
        dropped=float(1 - accepted.mean()),
        updates_per_second=per_second,
        speedup=per_second / alone,
        server_busy=per_second * update,
    )


def save(predictions: Sequence[Prediction], settings: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write scaling.json and scaling.png into the folder ``out``."""
    numbers = {"settings": settings, "predictions": [asdict(prediction) for prediction in predictions]}
    return write_numbers_and_picture(out, "scaling", numbers, lambda _, path: draw(predictions, path))


def draw(predictions: Sequence[Prediction], path: Path) -> None:
    """Write the picture of speedup, throughput and staleness against the number of workers."""
    from stalegrad.analysis.plots.scaling import draw_scaling  # matplotlib takes a while to import

    columns = ("workers", "speedup", "updates_per_second", "mean_staleness", "max_staleness")
    draw_scaling(path, **{name: [getattr(p, name) for p in predictions] for name in columns})
