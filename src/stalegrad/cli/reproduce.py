"""``stalegrad reproduce``: the figures of the paper."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stalegrad.cli import reproduce_losses
from stalegrad.cli.common import Out, Seed, console, print_verdicts, progress_bar, written

if TYPE_CHECKING:
    from stalegrad.experiments.parts import Parts

figures = typer.Typer(help="Reproduce a figure of the paper: a picture and all its numbers.", no_args_is_help=True)

Budget = Annotated[
    float | None, typer.Option(help="Minutes after which nothing more is begun; the next call goes on.", min=0)
]


@contextmanager
def parts_of(figure: str, out: Path, budget: float | None) -> Iterator["Parts"]:
    """The parts of a figure that are in its folder; says so and ends the command where the time does not suffice."""
    from stalegrad.experiments.parts import OutOfTimeError, Parts

    out.mkdir(parents=True, exist_ok=True)  # before the work: a place that cannot be written to should not cost it
    try:
        yield Parts(out / "parts", figure, reproduce_losses.deadline_of(budget))
    except OutOfTimeError:
        console.print(f"The time is over before {figure} is whole. The same command goes on where this one was.")
        raise typer.Exit from None


@figures.command()
def fig1(
    out: Out,
    runs: Annotated[int, typer.Option(help="Repetitions behind the first panel's expectations.", min=3)] = 200,
    seed: Seed = 0,
    budget: Budget = None,
) -> None:
    """MSE of stale SGLD for six staleness values at equal budgets, and bias and variance of a chain that mixes."""
    from stalegrad.experiments import fig1 as experiment

    with parts_of("fig1", out, budget) as parts, console.status("sampling…"):
        numbers = experiment.reproduce(experiment.Settings(runs=runs, seed=seed), parts)
    table = Table("τ", "updates", "step size", "MSE at the end", "± s.e.", title=f"Figure 1, {runs} runs")
    columns = ("tau", "step_size", "end_mse", "end_mse_error")
    for tau, h, mse, error in zip(*(numbers[name] for name in columns), strict=True):
        table.add_row(f"{tau}", f"{numbers['steps_per_tau'] * tau:,}", f"{h:.3g}", f"{mse:.4g}", f"{error:.1g}")
    console.print(table)
    console.print(
        f"largest / smallest end point: {numbers['end_ratio']:.3f}   ({numbers['seconds']:.1f} s of sampling)"
    )
    print_verdicts(numbers["verdicts"])
    written(*experiment.save(numbers, out))


@figures.command()
def theory(
    out: Out,
    runs: Annotated[int, typer.Option(help="Independent runs behind each point.", min=200)] = 2_000,
    seed: Seed = 0,
    budget: Budget = None,
) -> None:
    """The theory's bounds, the exact Gaussian oracle and measured chains on top of each other."""
    from stalegrad.experiments import theory_picture as experiment

    with parts_of("theory", out, budget) as parts, console.status("sampling…"):
        numbers = experiment.reproduce(experiment.Settings(runs=runs, seed=seed), parts)
    print_verdicts(numbers["verdicts"])
    written(*experiment.save(numbers, out))


@figures.command()
def fig2(
    out: Out,
    runs: Annotated[int, typer.Option(help="Repetitions behind each variance.", min=20)] = 200,
    max_workers: Annotated[int, typer.Option(help="Try 1, 2, 3, … up to this many workers.", min=2, max=64)] = 9,
    seed: Seed = 0,
    budget: Budget = None,
) -> None:
    """Variance of the test loss on a9a against iterations and time, and the speedup of W workers, with intervals."""
    from stalegrad.experiments import fig2 as experiment

    with parts_of("fig2", out, budget) as parts, progress_bar() as report:
        settings = experiment.Settings(runs=runs, max_workers=max_workers, seed=seed)
        numbers = experiment.reproduce(settings, report=report, parts=parts)
    cluster, timed, made = numbers["cluster"], numbers["timed"], numbers["runs"]
    measured = numbers["time_speedup_measured"]["speedup"] if timed else []
    table = Table(title=f"Figure 2, {made} runs: speedup at equal variance")
    for heading in ("workers", "mean τ", "iteration", "95 %", "cluster¹", "slowed²", "here³", "measured⁴"):
        table.add_column(heading, justify="right")
    for k, workers in enumerate(numbers["workers"]):
        low, high = numbers["iteration_speedup_interval"][k]
        table.add_row(
            f"{workers}", f"{numbers['staleness']['mean'][k]:.1f}", f"{numbers['iteration_speedup'][k]:.2f}",
            f"{low:.1f}–{high:.1f}", f"{cluster['time_speedup'][k]:.2f}",
            f"{cluster['time_speedup_slowed'][k]:.2f}" if timed else "",
            f"{numbers['time_speedup_simulated'][k]:.2f}" if timed else "",
            f"{measured[k]:.2f}" if k < len(measured) else "",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"Time speedups: ¹ of a simulated cluster with gradients of {1e3 * cluster['gradient']:g} ms; ² measured here "
        f"with workers that sleep as long; ³ of this machine with a core for every worker, simulated with measured "
        f"times; ⁴ of this machine. Engine: {numbers['engine']}. ({numbers['seconds']:.0f} s)"
    )
    plain = numbers["plain"] or {"missing": experiment.Settings().plain.workers}
    missing = [f"{runs - made} of {runs} repetitions"] if made < runs else []
    missing += [f"W = {w} in the paper's setting" for w in plain["missing"]]
    missing += [] if timed else ["measured times"]
    if missing:
        console.print(f"Not made yet: {', '.join(missing)}. The same command goes on with it.")
    print_verdicts(numbers["verdicts"])
    written(*experiment.save(numbers, out))


@figures.command()
def architectures(
    out: Out,
    runs: Annotated[int, typer.Option(help="Repetitions behind each error.", min=3)] = 10,
    gradients: Annotated[int, typer.Option(help="Gradients of each contender on a9a, in all.", min=400)] = 9_000,
    seed: Seed = 0,
) -> None:
    """All architectures on a9a and on a skewed posterior: error against gradients, messages and time."""
    from stalegrad.experiments import architectures as experiment

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        settings = experiment.Settings(runs=runs, gradients=gradients, rare_gradients=4 * gradients, seed=seed)
        numbers = experiment.reproduce(settings, report=report)
    for found in numbers["targets"].values():
        table = Table(title=f"{found['title']}: errors in posterior standard deviations, {runs} runs")
        for heading in ("architecture", "W", "error at the end", "of it bias", f"gradients to {numbers['level']:g}"):
            table.add_column(heading, justify="left" if heading == "architecture" else "right")
        table.add_column("messages to it", justify="right")
        table.add_column("seconds to it", justify="right")
        for row in found["contenders"]:
            end, to = row["end"], row["to_level"]
            table.add_row(
                row["name"], f"{row['workers']}", f"{end['error']:.2f}",
                f"{end['bias']:+.2f} ± {end['bias_error']:.2f}",
                *("never" if to[what] is None else f"{to[what]:,.0f}" for what in ("gradients", "messages")),
                "never" if to["seconds"] is None else f"{to['seconds']:.1f}",
            )  # fmt: skip
        console.print(table)
    console.print(f"Times are those of a simulated cluster with a straggler. ({numbers['seconds']:.0f} s)")
    written(*experiment.save(numbers, out))


@figures.command("staleness-steps")
def staleness_steps(
    out: Out,
    runs: Annotated[int, typer.Option(help="Repetitions behind each MSE with exact gradients.", min=3)] = 400,
    network: Annotated[bool, typer.Option(help="Also CIFAR-10 at nine workers, some five minutes.")] = False,
    seed: Seed = 0,
) -> None:
    """Whether step sizes that depend on staleness keep the accuracy of few workers."""
    from stalegrad.experiments import staleness_steps as experiment
    from stalegrad.experiments import staleness_steps_network as networks
    from stalegrad.experiments.staleness_rules import RULES

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        if network:
            written(networks.reproduce(out, report=report))
        numbers = experiment.reproduce(experiment.Settings(runs=runs, seed=seed), report)
    table = Table(
        "workers", "gradients", "steps", "best mean hλ", "MSE there", "± s.e.", "first order", title="MSE of φ̂"
    )
    for row in numbers["results"]:
        table.add_row(
            row["cluster"], row["model"], RULES[row["rule"]].label, f"{row['best_step_size']:g}",
            f"{row['best_mse']:.4f}", f"{row['best_mse_error']:.4f}", f"{row['first_order']:.2f}",
        )  # fmt: skip
    console.print(table)
    written(*experiment.save(numbers, out))


@figures.command("free-staleness")
def free_staleness(
    out: Out,
    budget: Annotated[
        float | None,
        typer.Option(help="Minutes for softmax and for each network; the next call makes more chains.", min=0),
    ] = None,
    section: Annotated[
        list[str] | None,
        typer.Option(help="Only this section: gaussian, a9a, dropping, cost, softmax, lenet or cifar10; give several."),
    ] = None,
) -> None:
    """What is left of staleness when servers own the linear part or look ahead. Interrupted, it goes on."""
    from stalegrad.experiments.free_staleness import experiment

    wanted = section or list(experiment.SECTIONS)
    if unknown := [name for name in wanted if name not in experiment.SECTIONS]:
        raise typer.BadParameter(f"{unknown[0]} is no section. Give one of {', '.join(experiment.SECTIONS)}.")
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        numbers = experiment.reproduce(out, sections=wanted, budget=budget, report=report)
    for name in ("a9a", "softmax"):
        if name in wanted:
            title = f"{name}: speedup at equal MSE, with 95 % intervals"
            table = Table("workers", "form", "φ", "in updates a worker", "in seconds", title=title)
            for row in numbers[name]["speedup"]:
                updates = f"{row['speedup']:.1f} ({row['low']:.1f}–{row['high']:.1f})"
                value, low, high = row["seconds"]
                form = "compensated" if row["compensated"] else "plain"
                table.add_row(f"{row['workers']}", form, row["phi"], updates, f"{value:.1f} ({low:.1f}–{high:.1f})")
            console.print(table)
    if "dropping" in wanted:
        table = Table("policy", "correlation", "hλ", "shift / s.d.", "± s.e.", "dropped", title="Does dropping bias?")
        for row in numbers["dropping"]["rows"]:
            table.add_row(
                row["policy"], f"{row['correlation']:g}", f"{row['step_size']:g}", f"{row['shift']:+.2f}",
                f"{row['error']:.2f}", f"{row['dropped']:.0%}",
            )  # fmt: skip
        console.print(table)
    for name in ("lenet", "cifar10"):
        if name in wanted:
            table = Table("form", "workers", "largest lr that trains", title=numbers[name]["title"])
            for row in numbers[name]["rows"]:
                largest = row["largest_lr"]
                table.add_row(row["form"], f"{row['workers']}", "none" if largest is None else f"{largest:g}")
            console.print(table)
            failure = numbers[name]["failure"] or {"verdicts": []}
            print_verdicts([*numbers[name]["verdicts"], *failure["verdicts"]])
    written(out / "free_staleness.json", out / "free_staleness.png")


@figures.command()
def deep(
    out: Out,
    gradients: Annotated[int, typer.Option(help="That each method may spend.", min=100)] = 2_000,
    seeds: Annotated[int, typer.Option(help="Repetitions, 2 at least.", min=2, max=6)] = 3,
    budget: Annotated[float | None, typer.Option(help="Minutes for this call; the next goes on.", min=0)] = None,
    from_the_end: Annotated[bool, typer.Option(help="Begin with the last unit, beside one that does not.")] = False,
) -> None:
    """LeNet on MNIST: six ways to be uncertain, with equal gradients. Interrupted, it goes on."""
    from stalegrad.experiments.deep import experiment
    from stalegrad.experiments.deep.methods import Budget

    out.mkdir(parents=True, exist_ok=True)
    settings = experiment.Settings(seeds=tuple(range(seeds)), budget=Budget(gradients=gradients))
    with progress_bar() as report:
        numbers = experiment.reproduce(out, settings, budget=budget, from_the_end=from_the_end, report=report)
    if numbers is None:
        console.print("The time is up before all units are made; the next call goes on.")
        return
    title = f"LeNet on MNIST, {gradients:,} gradients each, {seeds} seeds: mean ± 95 %"
    table = Table("method", "NLL", "ECE", "accuracy", "AUROC turned", "AUROC noise", "FPR95 turned", title=title)
    shown = ("nll", "calibration_error", "accuracy", "auroc_rotated", "auroc_noise", "fpr95_rotated")
    for method, found in numbers["methods"].items():
        table.add_row(method, *(f"{found[name]['mean']:.4f} ± {found[name]['half']:.4f}" for name in shown))
    console.print(table)
    for name, method in numbers["best"].items():
        console.print(f"best {name}: {method}")
    written(out / "deep.json", out / "deep.png")


@figures.command("all")
def everything(
    out: Out,
    budget: Annotated[float | None, typer.Option(help="Minutes for all of it; the next call goes on.", min=0)] = None,
    processes: reproduce_losses.Processes = None,
) -> None:
    """Figures 1 to 4, the theory's picture and the supplement, each data set in a folder of its own. It goes on."""
    from stalegrad.experiments.losses.figure import Wanted

    deadline = reproduce_losses.deadline_of(budget)
    for name, make in (("fig1", fig1), ("theory", theory), ("fig2", fig2)):
        if not (out / f"{name}.json").exists():
            make(out, budget=None if budget is None else max(0.0, (deadline - time.time()) / 60))
    plan = [(figure, "a9a") for figure in ("fig3", "fig4", "supplement")]
    plan += [(figure, data) for data in ("mnist", "cifar10") for figure in ("fig3", "fig4")]
    plan += [("supplement", data) for data in ("mnist", "cifar10")]
    for figure, data in plan:
        wanted = Wanted(controls=("fresh",) if (figure, data) == ("fig3", "a9a") else ())
        reproduce_losses.make_figure(figure, out / data, [data], wanted, deadline, processes=processes)
    together(out)


@figures.command()
def together(out: Out) -> None:
    """Draw figures 3 and 4 of all data sets that are in OUT in one grid each, a row for each data set."""
    from stalegrad.experiments.losses.together import draw_together

    written(*draw_together(out))


reproduce_losses.add_to(figures)
