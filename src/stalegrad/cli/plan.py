"""``stalegrad plan``: how many chains and workers, which minibatches and steps, before a job is run."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from stalegrad._internal.text import duration, printable, span
from stalegrad.cli.common import Seed, console, written
from stalegrad.cli.runs import EngineName
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.runs.jobs import JobFile

if TYPE_CHECKING:
    from stalegrad.planning import Forecast, Machines, Targets


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
    machines: Annotated[int | None, typer.Option(help="Machines of the cluster.", min=1)] = None,
    cores: Annotated[int | None, typer.Option(help="Cores of each of them.", min=1)] = None,
    link: Annotated[str, typer.Option(metavar="BITS", help="Bits a second of a machine's link: 10G, 100M.")] = "10G",
    memory: Annotated[str | None, typer.Option(metavar="BYTES", help="Memory of a machine, such as 64G.")] = None,
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
    there = _machines(machines, cores, link, latency, memory)
    with console.status("measuring…") as status:
        made = forecast(
            job, cluster=cluster, max_workers=max_workers, machines=there, targets=targets, seconds=seconds, seed=seed,
            report=lambda what: status.update(f"measuring: {what}…"),
        )  # fmt: skip
    console.print(_measured(made))
    console.print()
    if there is not None:
        layouts = _show_layouts(made, job, there, targets, file, seed)
        if out is not None:
            written(*made.save(out, layouts=layouts))
        return
    console.print(_predicted(made))
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


def _predicted(made: "Forecast") -> Table:
    """A line for every number of workers, within 80 columns; the one that is recommended has an arrow."""
    from stalegrad.planning.step_sizes import error_text

    title = "One chain, predicted: a core for each worker; here: on this machine"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    dropping = any(row.cluster.dropped > 0 for row in made.rows)
    headings = (
        "workers",
        "mean τ",
        *["dropped"] * dropping,
        "updates/s",
        "speedup",
        "variance off",
        "bottleneck",
        "here",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "bottleneck" else "right", no_wrap=True)
    for row in made.rows:
        p = row.cluster
        chosen = p.workers == made.advice.workers
        table.add_row(
            f"{'→ ' * chosen}{p.workers:,}", f"{p.mean_staleness:.1f}", *[f"{p.dropped:.0%}"] * dropping,
            f"{p.updates_per_second:,.0f}", f"{p.speedup:.1f}", error_text(row.error), p.bottleneck,
            "" if row.here is None else f"{row.here.updates_per_second:,.0f}/s", style="bold green" if chosen else "",
        )  # fmt: skip
    return table


def _continued(command: str, width: int) -> str:
    r"""A command on several lines, if it is too long for one, that can be pasted into a shell.

    >>> print(_continued("stalegrad run 'my job.toml' --steps 1000", 30))
    stalegrad run 'my job.toml' \
          --steps 1000
    """
    first, *words = re.findall(r"-\S+ (?!-)(?:'[^']*'|\S)+|(?:'[^']*'|\S)+", command)  # an option with its value
    lines = [first]
    for word in words:
        if len(f"{lines[-1]} {word} \\") > width:
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return " \\\n".join(lines)


def _machines(
    machines: int | None, cores: int | None, link: str, latency: float, memory: str | None
) -> "Machines | None":
    """What the options say of the cluster; None if they say nothing."""
    from stalegrad.planning.machines import Machines, parse_bits, parse_bytes

    if machines is None and cores is None:
        return None
    if cores is None:
        raise typer.BadParameter("say how many cores each machine has", param_hint="--cores")
    try:
        bandwidth = parse_bits(link)
        size = None if memory is None else parse_bytes(memory)
    except ValueError as error:
        raise typer.BadParameter(f"{error} is not a size such as 10G", param_hint="--link, --memory") from None
    return Machines(machines or 1, cores, bandwidth, latency, size)


def _show_layouts(
    made: "Forecast", job: JobFile, machines: "Machines", targets: "Targets", file: Path, seed: int
) -> "list[dict[str, Any]]":
    """What chains and workers on these machines would do, which to choose, why, and what to type; returns the rows."""
    from stalegrad.planning.layout_advice import advise_layout, commands
    from stalegrad.planning.machines import layouts
    from stalegrad.planning.machines import table as plain
    from stalegrad.planning.step_sizes import error_text

    found = layouts(job, made.calibration, made.step_sizes, machines, targets, seed, made.layouts_here)
    best, reasons = advise_layout(found, made.calibration, targets)
    how = "from short runs here" if best.measured else "predicted"
    title = f"{machines.count} machine{'s' * (machines.count != 1)} of {machines.cores} cores, {how}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("chains", "workers", "mean τ", "updates/s", "variance off", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("bottleneck", no_wrap=True)
    for layout in found:
        chosen = layout is best
        table.add_row(
            f"{'→ ' * chosen}{layout.servers:,}", f"{layout.workers:,}", f"{layout.mean_staleness:.1f}",
            f"{layout.servers * layout.updates_per_second:,.0f}", error_text(layout.error), span(layout.seconds),
            layout.bottleneck if layout.fits else "memory", style="bold green" if chosen else "",
        )  # fmt: skip
    console.print(table)
    console.print(Text("updates/s are those of all chains; the time is that to the precision of the job.", style="dim"))
    if made.unchecked:
        console.print(Text(printable(f"The step size was not checked: {made.unchecked}."), style="dim"))
    console.print()
    for warning in made.advice.warnings:
        console.print(Text(printable(warning), style="yellow"))
    for reason in reasons:
        subject, _, rest = reason.partition(":")
        console.print(Text.assemble((f"{subject}:", "bold"), printable(rest)))
    step = None if made.step_sizes is None else made.step_sizes.step_size
    for name, command in commands(best, machines, file, step):
        lines = _continued(command, console.width - 2)
        console.print(Text.assemble((f"\n{name}\n", "bold"), f"  {lines}"), soft_wrap=True)
    return [{**plain(layout), "recommended": layout is best} for layout in found]
