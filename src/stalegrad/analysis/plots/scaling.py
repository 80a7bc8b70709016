"""How a cluster scales with its workers."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure


def draw_scaling(
    path: Path,
    *,
    workers: Sequence[int],
    speedup: Sequence[float],
    updates_per_second: Sequence[float],
    mean_staleness: Sequence[float],
    max_staleness: Sequence[int],
) -> None:
    """Write a picture of speedup, throughput and staleness against the number of workers.

    Args:
        path: of the PNG file.
        workers: W, for each of which the other sequences have an entry.
        speedup: updates a second over those of one worker.
        updates_per_second: accepted updates of the chain.
        mean_staleness: of those.
        max_staleness: likewise.
    """
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    panels = figure.subplots(1, 3)
    panels[0].loglog(workers, workers, "--", color="0.6", linewidth=1, label="linear")
    panels[0].loglog(workers, speedup, "o-", color="C0", label="predicted")
    panels[0].set(title="speedup", xlabel="workers")
    panels[0].legend(frameon=False)
    panels[1].loglog(workers, updates_per_second, "o-", color="C0")
    panels[1].set(title="accepted updates a second", xlabel="workers")
    panels[2].plot(workers, mean_staleness, "o-", color="C3", label="mean")
    panels[2].plot(workers, max_staleness, "^:", color="C3", alpha=0.6, label="largest")
    panels[2].set(title="staleness of accepted gradients", xlabel="workers")
    panels[2].set_xscale("log")
    panels[2].set_yscale("symlog", linthresh=1)
    panels[2].set_ylim(bottom=0)  # nothing is fresher than fresh
    panels[2].legend(frameon=False)
    figure.savefig(path, dpi=150)
