"""How a cluster would scale: staleness, throughput and speedup against the number of workers, from simulated traces."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.text import duration
from stalegrad.engines.simulation import Law, Network, simulate
from stalegrad.protocol.admission import Policy
from stalegrad.protocol.chain_trace import ChainTrace

_SAMPLED = 2000  # gradients whose times are averaged
TRIED = 10
"""Gradients for each update that is wanted: where more are dropped, rates are read from fewer updates."""


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
    link_busy: float
    """Share of the time in which gradients were coming in over the server's link."""
    workers_busy: float
    """Share of the workers' time in which they computed."""
    bottleneck: str
    """What would have to be faster for more updates a second, see :func:`bottleneck`."""


FULL = 0.9
"""Share of the time from which on a link or a server counts as full: beyond it, more workers mostly queue."""


def bottleneck(workers: float, link: float, server: float, *, dropped: float = 0.0, waits: bool = False) -> str:
    """What holds a cluster up, by the shares of the time in which workers, link and server are busy.

    ``"link"`` or ``"server"`` if that is full; the ``"bound"`` on the staleness if more than half of the gradients are
    dropped for it; ``"gradients"`` if workers compute most of the time, and else whatever they wait for: the
    ``"bound"`` where a policy of waiting holds them, or the ``"latency"``.

    >>> bottleneck(0.95, 0.3, 0.1), bottleneck(0.4, 1.0, 0.72), bottleneck(0.4, 0.5, 0.95), bottleneck(0.2, 0.1, 0.1)
    ('gradients', 'link', 'server', 'latency')
    """
    if max(link, server) >= FULL:
        return "link" if link >= server else "server"
    if dropped > 0.5:
        return "bound"
    if workers >= 0.5:
        return "gradients"
    return "bound" if waits else "latency"


def in_a_sentence(predictions: Sequence["Prediction"], *, transfer: float, update: float, gradient: float) -> str:
    """Where more workers stop helping, what stops them, and what to do about it.

    Args:
        predictions: by growing number of workers.
        transfer: seconds that a message occupies the server's link.
        update: seconds of an update.
        gradient: mean seconds of a gradient.
    """
    if all(p.bottleneck == "gradients" for p in predictions):
        most = f"{predictions[-1].workers:,} workers" if len(predictions) > 1 else "one worker"
        return f"Up to {most} gradients take the time, {duration(gradient)} each: more workers would help."
    said = _sentence(
        next(p for p in predictions if p.bottleneck != "gradients"), transfer=transfer, update=update, gradient=gradient
    )
    full = next((p for p in predictions if p.bottleneck in ("link", "server")), None)
    if full is not None and predictions[0].bottleneck not in ("gradients", full.bottleneck):
        said += " " + _sentence(full, transfer=transfer, update=update, gradient=gradient)
    return said


def _sentence(first: "Prediction", *, transfer: float, update: float, gradient: float) -> str:
    """What holds up this number of workers, the first of its kind, and what helps."""
    count = f"From {first.workers:,} worker{'s' * (first.workers != 1)} on"
    if first.bottleneck == "link":
        return (
            f"{count} the server's link is full: a message occupies it for {duration(transfer)}, so that no more than "
            f"{1 / transfer:,.0f} gradients a second come in. More workers only make them staler; a faster link, "
            "smaller messages (messages='int8'), or another chain with a server of its own, helps."
        )
    if first.bottleneck == "server":
        return (
            f"{count} the server is busy: an update takes {duration(update)}, so that no more than {1 / update:,.0f} a "
            "second are made. More workers only make gradients staler; update_threads, or another chain, helps."
        )
    if first.bottleneck == "bound":
        lost = "are held most of the time" if first.workers_busy < 0.5 else "compute gradients that are dropped"
        return f"{count} workers {lost}, so that the bound on staleness holds: a looser one helps."
    return f"{count} messages take longer than gradients, {duration(gradient)}: larger minibatches help."


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
        steps: accepted updates simulated for each, but never fewer than 20 for each worker; fewer where more than ten
            gradients would arrive for each of them, as with many workers under a tight bound. All but one in W / (τ +
            1) are dropped then, and so many updates would take the square of the number of workers.
        network: the server's link.
        update: seconds of an update.
        max_staleness: bound on the staleness.
        policy: what happens at the bound.
        seed: of the compute times.
    """

    def run(count: int) -> ChainTrace:
        updates = max(steps, 20 * count)
        trace = simulate(
            workers=count, steps=updates, compute=law(count), network=network, update=update,
            max_staleness=max_staleness, policy=policy, seed=seed, gradients=TRIED * updates,
        )  # fmt: skip
        return trace.chains[0]

    alone = updates_per_second(run(1))
    transfer, waits = (network or Network()).longer_transfer, policy == "wait" and max_staleness is not None
    seconds = {count: mean_seconds(law(count), count, seed) for count in workers}
    return [_prediction(count, run(count), alone, update, transfer, seconds[count], waits) for count in workers]


def mean_seconds(law: Law, workers: int, seed: int) -> float:
    """Of a gradient, over some of every worker."""
    each = max(1, _SAMPLED // workers)
    return float(np.mean([law.seconds(seed, 0, worker, number) for worker in range(workers) for number in range(each)]))


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


def _prediction(
    count: int, trace: ChainTrace, alone: float, update: float, transfer: float, seconds: float, waits: bool
) -> Prediction:
    half = _second_half(trace)
    staleness, accepted = trace.staleness[half], trace.accepted[half]
    per_second = updates_per_second(trace)
    arrived = per_second / float(accepted.mean()) if accepted.any() else float("nan")
    server, link, workers = per_second * update, arrived * transfer, arrived * seconds / count
    return Prediction(
        workers=count,
        mean_staleness=float(staleness[accepted].mean()) if accepted.any() else float("nan"),
        max_staleness=int(staleness[accepted].max(initial=0)),
        dropped=float(1 - accepted.mean()),
        updates_per_second=per_second,
        speedup=per_second / alone,
        server_busy=server,
        link_busy=link,
        workers_busy=workers,
        bottleneck=bottleneck(workers, link, server, dropped=float(1 - accepted.mean()), waits=waits),
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
