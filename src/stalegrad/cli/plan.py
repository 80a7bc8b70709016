"""``stalegrad plan``: how many chains and workers, which minibatches and steps, before a job is run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from stalegrad._internal.text import duration, printable
from stalegrad.cli.common import Seed, console, written
from stalegrad.cli.runs import EngineName
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.runs.jobs import JobFile

if TYPE_CHECKING:
    from stalegrad.planning import Forecast


def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", show_default=False, help="The job.")],
    engine: EngineName = None,
    max_workers: Annotated[
        int, typer.Option(help="Try 1, 2, 4, … up to this many workers a chain.", min=1, max=MAX_WORKERS)
    ] = 1024,
    seconds: Annotated[float, typer.Option(help="To spend on measurements, about.")] = 20.0,
    latency: Annotated[float, typer.Option(help="Seconds that a message travels in the cluster.", min=0)] = 5e-5,
    bandwidth: Annotated[float, typer.Option(help="Bytes a second of a server's link, each way.")] = 1.25e9,
    error: Annotated[
        float, typer.Option(help="Monte Carlo error wanted, relative to the job's as it is: 0.5 halves it.")
    ] = 1.0,
    within: Annotated[
        float | None, typer.Option(help="Seconds in which the run should be done: sets the number of chains.")
    ] = None,
    price: Annotated[float | None, typer.Option(help="Of an hour of a core, in whatever money.")] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", file_okay=False, writable=True, help="Folder for plan.json and scaling.png."),
    ] = None,
) -> None:
    """Measure a job here for some seconds, predict it for many workers, and recommend S, W, batch size and step size.

    Gradients, updates and short real runs are timed on this machine. From them follow, by simulation, staleness,
    throughput and cost on a cluster with a core for every worker, and on this machine, where all share its cores.
    """
    from stalegrad.planning import Cluster, Targets, forecast

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    job = JobFile.read(file).changed(engine=engine)
    targets, cluster = Targets(error, within, price), Cluster(latency, bandwidth)
    with console.status("measuring…") as status:
        made = forecast(
            job, cluster=cluster, max_workers=max_workers, targets=targets, seconds=seconds, seed=seed,
            report=lambda what: status.update(f"measuring: {what}…"),
        )  # fmt: skip
    console.print(_measured(made))
    console.print()
    console.print(_predicted(made, price))
    if made.unchecked:
        console.print(Text(printable(f"The step size was not checked: {made.unchecked}."), style="dim"))
    console.print()
    for warning in made.advice.warnings:
        console.print(Text(printable(warning), style="yellow"))
    for reason in made.advice.reasons:
        subject, _, rest = reason.partition(":")
        console.print(Text.assemble((f"{subject}:", "bold"), printable(rest)))
    if out is not None:
        written(*made.save(out))


def _measured(made: "Forecast") -> Table:
    """What was timed, in two columns."""
    c = made.calibration
    sizes = ", ".join(f"J={size:,} {duration(seconds)}" for size, seconds in c.gradients.items())
    trips = ", ".join(f"W={t.workers} {t.updates_per_second:,.0f}/s" for t in c.round_trips)
    rows = {
        "model": f"{c.parameters:,} parameters, {c.n_data:,} data in minibatches of {c.batch_size:,}",
        "gradient": f"{sizes} (± {c.variation:.0%})",
        "update": duration(c.update),
        "round trip": (
            f"gradient {duration(c.alone.gradient)} · server {duration(c.alone.served)} · exchange "
            f"{duration(c.exchange)}, by engine {c.engine}"
        ),
        "real runs": f"{trips} a chain, with {c.servers} chain{'s' * (c.servers != 1)} on {c.cores} cores",
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(name, Text(text))
    return table


def _predicted(made: "Forecast", price: float | None) -> Table:
    """A line for every number of workers; the one that is recommended stands out."""
    from stalegrad.planning.step_sizes import error_text

    table = Table(title="One chain, predicted: on a cluster with a core for each worker, and here")
    dropping = any(row.cluster.dropped > 0 for row in made.rows)
    headings = [
        "workers", "mean τ", "max τ", *["dropped"] * dropping, "updates/s", "speedup", "server busy", "variance off",
        "core s / 1,000 updates", *["price / 10⁶ updates"] * (price is not None), "updates/s here",
    ]  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in made.rows:
        p = row.cluster
        paid = [] if price is None else [f"{row.core_seconds / 3.6 * price:.3g}"]
        table.add_row(
            f"{p.workers:,}", f"{p.mean_staleness:.1f}", f"{p.max_staleness:,}", *[f"{p.dropped:.0%}"] * dropping,
            f"{p.updates_per_second:,.0f}", f"{p.speedup:.1f}", f"{p.server_busy:.0%}", error_text(row.error),
            f"{row.core_seconds:.3g}", *paid, "" if row.here is None else f"{row.here.updates_per_second:,.0f}",
            style="bold green" if p.workers == made.advice.workers else "",
        )  # fmt: skip
    return table
