"""The command ``stalegrad``. Only words and tables here: what a command does lives in the package."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import stalegrad
from stalegrad.admission import Policy
from stalegrad.errors import StalegradError
from stalegrad.noise import MAX_WORKERS
from stalegrad.simulation import Constant, Exponential, Law, LogNormal, Network

app = typer.Typer(
    name="stalegrad",
    help="Asynchronous stochastic-gradient MCMC with stale gradients.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
reproduce = typer.Typer(help="Reproduce a figure of the paper: a picture and all its numbers.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")

console = Console()
Out = Annotated[
    Path,
    typer.Option("--out", file_okay=False, writable=True, help="Folder for what is written; made if it is not there."),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def main() -> None:
    """Entry point: errors that stalegrad raises on purpose become one clear line and exit status 1."""
    try:
        app()
    except (StalegradError, OSError) as error:  # not through rich: brackets in a message or a path are no markup
        typer.echo(f"{typer.style('error:', fg='red', bold=True)} {error}", err=True)
        sys.exit(1)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"stalegrad {stalegrad.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Out = Path("demo-output"),
    steps: Annotated[int, typer.Option(help="Updates of each of the two chains.", min=1000)] = 80_000,
    workers: Annotated[int, typer.Option(help="Workers of each chain.", min=1, max=64)] = 3,
    seed: Seed = 0,
) -> None:
    """Sample a real posterior with stale gradients in half a minute: live progress, tables, pictures and a report."""
    from stalegrad.experiments.demo import Settings, demonstrate

    demonstrate(Settings(steps=steps, workers=workers, seed=seed), out, console=console)


@reproduce.command("fig1")
def fig1(
    out: Out,
    runs: Annotated[int, typer.Option(help="Repetitions behind the first panel's expectations.", min=3)] = 200,
    seed: Seed = 0,
) -> None:
    """MSE of stale SGLD for six staleness values at equal budgets, and bias and variance of a chain that mixes."""
    from stalegrad.experiments import fig1 as experiment

    out.mkdir(parents=True, exist_ok=True)  # before the work: a place that cannot be written to should not cost it
    with console.status("sampling…"):
        numbers = experiment.reproduce(experiment.Settings(runs=runs, seed=seed))
    table = Table("τ", "updates", "step size", "MSE at the end", "± s.e.", title=f"Figure 1, {runs} runs")
    columns = ("tau", "step_size", "end_mse", "end_mse_error")
    for tau, h, mse, error in zip(*(numbers[name] for name in columns), strict=True):
        table.add_row(f"{tau}", f"{numbers['steps_per_tau'] * tau:,}", f"{h:.3g}", f"{mse:.4g}", f"{error:.1g}")
    console.print(table)
    console.print(
        f"largest / smallest end point: {numbers['end_ratio']:.3f}   ({numbers['seconds']:.1f} s of sampling)"
    )
    _written(*experiment.save(numbers, out))


@reproduce.command("fig2")
def fig2(
    out: Out,
    runs: Annotated[int, typer.Option(help="Repetitions behind each variance.", min=20)] = 200,
    max_workers: Annotated[int, typer.Option(help="Try 1, 2, 3, … up to this many workers.", min=2, max=64)] = 9,
    seed: Seed = 0,
) -> None:
    """Variance of the test loss on a9a against iterations and time, and the speedup of W workers, with intervals."""
    from rich.progress import Progress, TimeElapsedColumn

    from stalegrad.experiments import fig2 as experiment

    out.mkdir(parents=True, exist_ok=True)
    columns = (*Progress.get_default_columns()[:-1], TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        numbers = experiment.reproduce(
            experiment.Settings(runs=runs, max_workers=max_workers, seed=seed),
            report=lambda what, share: progress.update(task, description=what, completed=share),
        )
    cluster, measured = numbers["cluster"], numbers["time_speedup_measured"]["speedup"]
    table = Table(title=f"Figure 2, {runs} runs: speedup at equal variance")
    for heading in ("workers", "mean τ", "iteration", "95 %", "cluster¹", "slowed²", "here³", "measured⁴"):
        table.add_column(heading, justify="right")
    for k, workers in enumerate(numbers["workers"]):
        low, high = numbers["iteration_speedup_interval"][k]
        table.add_row(
            f"{workers}", f"{numbers['staleness']['mean'][k]:.1f}", f"{numbers['iteration_speedup'][k]:.2f}",
            f"{low:.1f}–{high:.1f}", f"{cluster['time_speedup'][k]:.2f}", f"{cluster['time_speedup_slowed'][k]:.2f}",
            f"{numbers['time_speedup_simulated'][k]:.2f}", f"{measured[k]:.2f}" if k < len(measured) else "",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"Time speedups: ¹ of a simulated cluster with gradients of {1e3 * cluster['gradient']:g} ms; ² measured here "
        f"with workers that sleep as long; ³ of this machine with a core for every worker, simulated with measured "
        f"times; ⁴ of this machine. Engine: {numbers['engine']}. ({numbers['seconds']:.0f} s)"
    )
    _written(*experiment.save(numbers, out))


class LawName(StrEnum):
    """Laws of compute times that the command line offers."""

    constant = "constant"
    exponential = "exponential"
    lognormal = "lognormal"


class PolicyName(StrEnum):
    """What happens at the staleness bound."""

    drop = "drop"
    wait = "wait"


@app.command()
def simulate(
    max_workers: Annotated[
        int, typer.Option(help="Try 1, 2, 4, … up to this many workers.", min=1, max=MAX_WORKERS)
    ] = 1024,
    compute: Annotated[float, typer.Option(help="Mean seconds of a gradient on a worker.", min=0)] = 0.025,
    law: Annotated[LawName, typer.Option(help="Law of those seconds.")] = LawName.lognormal,
    variation: Annotated[float, typer.Option(help="Standard deviation over mean, of the log-normal law.", min=0)] = 0.2,
    stragglers: Annotated[float, typer.Option(help="Share of the workers that are slower.", min=0, max=1)] = 0.0,
    straggler_factor: Annotated[float, typer.Option(help="How many times slower they are.")] = 5.0,
    update: Annotated[float, typer.Option(help="Seconds of an update on the server.", min=0)] = 0.001,
    latency: Annotated[float, typer.Option(help="Seconds that a message travels.", min=0)] = 5e-5,
    bandwidth: Annotated[float, typer.Option(help="Bytes a second of the server's link, each way.")] = 1.25e9,
    parameters: Annotated[int, typer.Option(help="Parameters of the model; 4 bytes each.", min=1)] = 431_080,
    max_staleness: Annotated[int | None, typer.Option(help="Bound on the staleness; none by default.", min=0)] = None,
    policy: Annotated[PolicyName, typer.Option(help="What happens at the bound.")] = PolicyName.drop,
    steps: Annotated[int, typer.Option(help="Updates to simulate for each number of workers.", min=100)] = 20_000,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", file_okay=False, writable=True, help="Folder for scaling.png and scaling.json."),
    ] = None,
) -> None:
    """Predict staleness, throughput and speedup against the number of workers, without any cluster.

    The defaults are LeNet on one core a worker and a 10 Gbit/s network.
    """
    from stalegrad.experiments import scaling

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    counts = [2**k for k in range(max_workers.bit_length()) if 2**k < max_workers] + [max_workers]
    network = Network(latency=latency, bandwidth=bandwidth, message_bytes=4 * parameters)

    def law_of(workers: int) -> Law:
        slow = round(stragglers * workers)
        factors = {workers - 1 - k: straggler_factor for k in range(slow)}
        if law is LawName.constant:
            return Constant(compute, factors=factors)
        if law is LawName.exponential:
            return Exponential(compute, factors=factors)
        return LogNormal(compute, variation, factors=factors)

    chosen: Policy = "wait" if policy is PolicyName.wait else "drop"
    with console.status("simulating…"):
        predictions = scaling.predict(
            counts, law=law_of, steps=steps, network=network, update=update, max_staleness=max_staleness,
            policy=chosen, seed=seed,
        )  # fmt: skip
    table = Table(title="One server, predicted")
    for heading in ("workers", "mean τ", "max τ", "dropped", "updates/s", "speedup", "server busy"):
        table.add_column(heading, justify="right")
    for p in predictions:
        table.add_row(
            f"{p.workers:,}", f"{p.mean_staleness:.1f}", f"{p.max_staleness:,}", f"{p.dropped:.1%}",
            f"{p.updates_per_second:,.0f}", f"{p.speedup:.1f}", f"{p.server_busy:.0%}",
        )  # fmt: skip
    console.print(table)
    if out is not None:
        settings: dict[str, Any] = {
            "compute": compute, "law": law.value, "variation": variation, "stragglers": stragglers,
            "straggler_factor": straggler_factor, "update": update, "latency": latency, "bandwidth": bandwidth,
            "parameters": parameters, "max_staleness": max_staleness, "policy": chosen, "steps": steps, "seed": seed,
        }  # fmt: skip
        _written(*scaling.save(predictions, settings, out))


def _written(*paths: Path) -> None:
    for path in paths:
        typer.echo(f"wrote {path}")
