"""``stalegrad reproduce fig3 | fig4 | supplement | step-sizes | grids | averaging``: losses of the paper's models."""

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from stalegrad.cli.common import Out, console, print_verdicts, progress_bar, written


class DatasetName(StrEnum):
    """Data sets of the paper."""

    a9a = "a9a"
    mnist = "mnist"
    cifar10 = "cifar10"


class Keeper(StrEnum):
    """Who keeps the momentum: the server, or each worker one of its own."""

    server = "server"
    workers = "workers"


class LayerList(StrEnum):
    """Whose list of layers a network has: Caffe's or the paper's."""

    caffe = "caffe"
    paper = "paper"


class ControlName(StrEnum):
    """What is left out, to see what it does."""

    fresh = "fresh"
    cold = "cold"
    worker_momentum = "worker-momentum"


Dataset = Annotated[DatasetName | None, typer.Option(help="One data set; all three by default.")]
Budget = Annotated[
    float | None,
    typer.Option(help="Minutes: chains are left where they then are, drawn, and go on with the next call.", min=0),
]
Iterations = Annotated[
    int | None, typer.Option(help="Iterations of each worker, in place of the figure's own plan.", min=1)
]
Seeds = Annotated[int | None, typer.Option(help="Repetitions, in place of the plan's.", min=1)]
Rate = Annotated[float | None, typer.Option("--lr", help="Learning rate, in place of the model's own.", min=1e-12)]
Processes = Annotated[int | None, typer.Option(help="Chains at a time; one a core by default.", min=1)]
Temperature = Annotated[float, typer.Option(help="1 samples the posterior; 0 is SGD with momentum.", min=0)]
MomentumAt = Annotated[
    Keeper, typer.Option(help="Who keeps the momentum; workers do so without noise, as in the authors' public code.")
]
LayersOf = Annotated[LayerList, typer.Option(help="Layers of the networks: as Caffe's files or the paper count them.")]
Controls = Annotated[
    list[ControlName] | None,
    typer.Option(help="Made beside it: fresh (no gradient is stale), cold (no noise), worker-momentum; give several."),
]
Measure = Annotated[
    bool, typer.Option("--measure-times", help="Also time worker processes here: let nothing else run meanwhile.")
]


def add_to(figures: typer.Typer) -> None:
    """Add the commands for figures 3 and 4, the supplement, step sizes, grids and averaging."""
    for name, summary in (
        ("fig3", "Test loss against iterations and time, one server with 1, 2, 4, 6 and 9 workers."),
        ("fig4", "The same for 1, 3, 5 and 7 servers with two workers each."),
        ("supplement", "The same for 1 to 9 workers, and for 1 to 7 servers with 1, 2, 4 and 6 workers each."),
    ):
        figures.command(name, help=f"{summary} {_GOES_ON}")(_figure_command(name))
    figures.command(
        "step-sizes", help=f"Where 6 and 9 workers become worse than four, and the smaller step. {_GOES_ON}"
    )(step_sizes)
    figures.command(help=f"What φ̂ of figure 3 owes to how often φ is looked at. {_GOES_ON}")(grids)
    figures.command(help=f"Averaged predictions against single draws and SGD of equal cost. {_GOES_ON}")(averaging)


_FEWEST_UPDATES = 1_000  # from which on draws of all W are compared
_GOES_ON = "Interrupted, the same command goes on where it was."


def _figure_command(name: str) -> Callable[..., None]:
    def command(
        out: Out,
        dataset: Dataset = None,
        budget: Budget = None,
        iterations: Iterations = None,
        seeds: Seeds = None,
        lr: Rate = None,
        temperature: Temperature = 1.0,
        momentum: MomentumAt = Keeper.server,
        layers: LayersOf = LayerList.caffe,
        control: Controls = None,
        measure_times: Measure = False,
        processes: Processes = None,
    ) -> None:
        from stalegrad.experiments.losses.figure import Wanted

        wanted = Wanted(
            iterations, seeds, lr, temperature, momentum.value, layers.value, tuple(c.value for c in control or ()),
        )  # fmt: skip
        names = [dataset.value] if dataset else [each.value for each in DatasetName]
        make_figure(name, out, names, wanted, deadline_of(budget), processes=processes, measure=measure_times)

    return command


def deadline_of(budget: float | None) -> float:
    """When so many minutes from now will be over, by :func:`time.time`."""
    return float("inf") if budget is None else time.time() + 60 * budget


def make_figure(name: str, out: Path, names: list[str], wanted: Any, deadline: float, **options: Any) -> None:
    """Make figure 3, 4 or the supplement, and print its tables and verdicts."""
    from stalegrad.experiments.losses import figure

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        numbers = figure.reproduce(name, out, names, wanted, deadline=deadline, report=report, **options)
    for found in (*numbers["datasets"].values(), *numbers["longest"].values()):
        console.print(_losses(found))
        _print_extent(found)
        alone = [row for row in found["layouts"] if row["servers"] == 1]
        if len(alone) > 1 and (by_updates := _by_updates(alone)).row_count:
            console.print(by_updates)
        print_verdicts(found["verdicts"])
    if left := [each for each in names if each not in numbers["datasets"]]:
        console.print(f"Not one repetition was finished of: {', '.join(left)}. The same command goes on with them.")
    drawn = zip(("datasets", "longest"), figure.pictures(name, out), strict=True)
    written(out / f"{name}.json", *(path for kind, path in drawn if numbers[kind]))


def _losses(found: dict[str, Any]) -> Table:
    table = Table(title=f"{found['title']}: after {found['iterations']:,} iterations a worker")
    for heading in ("S × W", "τ", "φ̂", "± 95 %", "draw", "averaged¹", "cluster", "speedup²"):
        table.add_column(heading, justify="right")
    for row in found["layouts"]:
        half, speedup = row["average"]["half_width"][-1], row.get("iteration_speedup")
        table.add_row(
            row["name"],
            f"{row['staleness_mean']:.1f}",
            _loss(row, "average"),
            "" if half != half else f"{half:.5f}",
            _loss(row, "current"),
            _loss(row, "predictive"),
            f"{found['iterations'] * row['seconds_per_iteration']:,.0f} s",
            "" if row is found["layouts"][0] or speedup is None or speedup[0] != speedup[0] else _ratio(*speedup),
        )
    return table


def _by_updates(rows: list[dict[str, Any]]) -> Table:
    """How good draws are after as many updates, whoever has made them."""
    table = Table("updates", title="Loss of the draw by updates of all workers together, median of the last tenth")
    for row in rows:
        table.add_column(f"W = {row['workers']}" + (f", {row['control']}" if row["control"] else ""), justify="right")
    found = [dict(row["by_updates"]) for row in rows]
    for updates in sorted({each for by_updates in found for each in by_updates if each >= _FEWEST_UPDATES}):
        table.add_row(f"{updates:,}", *(f"{each[updates]:.4f}" if updates in each else "" for each in found))
    return table


def _loss(row: dict[str, Any], kind: str) -> str:
    return "∞" if row["diverged"] else f"{row[kind]['loss'][-1]:.5f}"


def _ratio(middle: float, low: float, high: float) -> str:
    """With its interval below it, so that the table fits into 80 columns."""
    return f"{middle:.1f}" if low != low else f"{middle:.1f}\n({low:.1f}–{high:.1f})"


def _print_extent(found: dict[str, Any]) -> None:
    whole, made = found["whole_iterations"], found["iterations"]
    share = "the whole experiment" if made == whole else f"{made:,} of {whole:,} iterations"
    repetitions = f"{found['seeds']} repetition{'s' if found['seeds'] > 1 else ''}"
    grid = max((row["grid_error"] for row in found["layouts"] if row["grid_error"] == row["grid_error"]), default=0.0)
    console.print(
        "τ is the mean, draw the loss of the current one. ¹ Loss of the prediction averaged over draws and servers. "
        "² Iterations that one worker took to its final φ̂, "
        f"over those that took W workers there. Looking at φ half as often changes φ̂ by {grid:.2%} at most. "
        f"This is {share}, {repetitions}; its chains took {found['core_seconds'] / 60:.1f} core minutes."
    )


def step_sizes(
    out: Out,
    dataset: Annotated[DatasetName, typer.Option(help="Data set.")] = DatasetName.cifar10,
    lr: Annotated[list[float], typer.Option("--lr", help="A learning rate; give several.")] = [  # noqa: B006
        0.00006, 0.000125, 0.00025, 0.0005, 0.001,
    ],
    workers: Annotated[list[int], typer.Option(help="A number of workers; give several.")] = [4, 6, 9],  # noqa: B006
    iterations: Annotated[int, typer.Option(help="Iterations of each worker.", min=1)] = 200,
    seeds: Annotated[int, typer.Option(help="Repetitions.", min=1)] = 3,
    budget: Budget = None,
    temperature: Temperature = 1.0,
    momentum: MomentumAt = Keeper.server,
    layers: LayersOf = LayerList.caffe,
    processes: Processes = None,
) -> None:  # fmt: skip
    """Compare final test losses over learning rates and numbers of workers."""
    from stalegrad.experiments.losses import step_sizes as experiment
    from stalegrad.experiments.losses.figure import Wanted

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        numbers = experiment.reproduce(
            out, dataset.value, lr=lr, workers=workers, iterations=iterations, seeds=seeds,
            wanted=Wanted(temperature=temperature, momentum=momentum.value, layers=layers.value),
            deadline=deadline_of(budget), processes=processes, report=report,
        )  # fmt: skip
    table = Table("learning rate", *(f"{count} workers" for count in numbers["workers"]), title=numbers["title"])
    for row in numbers["rows"]:
        ends = zip(row["loss"], row["half_width"], row["diverged"], strict=True)
        table.add_row(f"{row['lr']:g}", *(_end(loss[-1], half[-1], gone) for loss, half, gone in ends))
    console.print(table)
    print_verdicts(numbers["verdicts"])
    written(out / "step_sizes.json", *([out / "step_sizes.png"] if numbers["rows"] else []))


def _end(loss: float, half: float, diverged: int) -> str:
    if diverged:
        return f"{diverged} diverged"
    return f"{loss:.4f}" + ("" if half != half else f" ± {half:.4f}")


def grids(
    out: Out,
    dataset: Annotated[DatasetName, typer.Option(help="Data set.")] = DatasetName.mnist,
    workers: Annotated[list[int], typer.Option(help="A number of workers; give several.")] = [1, 2, 4, 6, 9],  # noqa: B006
    iterations: Annotated[int, typer.Option(help="Iterations of each worker.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="Which repetition of figure 3.", min=0)] = 0,
    lr: Rate = None,
    budget: Annotated[float | None, typer.Option(help="Minutes after which no chain is begun.", min=0)] = None,
    processes: Processes = None,
) -> None:
    """Look at chains of figure 3 after every update, and compare φ̂ with what the figure's grid makes of it."""
    from stalegrad.experiments.losses import grids as experiment

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        numbers = experiment.reproduce(
            out, dataset.value, workers=workers, iterations=iterations, seed=seed, lr=lr,
            deadline=deadline_of(budget), processes=processes, report=report,
        )  # fmt: skip
    table = Table(title=f"{numbers['title']}: φ̂ after {iterations:,} iterations a worker, by where φ is looked at")
    for heading in ("workers", "updates", "at every update", "looks of figure 3", "error", "half of them"):
        table.add_column(heading, justify="right")
    for row in numbers["rows"]:
        table.add_row(
            f"{row['workers']}", f"{row['updates']:,}" + (", diverged" if row["diverged"] else ""),
            f"{row['average']:.5f}", f"{row['looks']:,}", f"{row['error']:+.3%}", f"{row['error_of_half']:+.3%}",
        )  # fmt: skip
    console.print(table)
    if numbers["left_out"]:
        left = ", ".join(f"W = {count}" for count in numbers["left_out"])
        console.print(f"Not made yet: {left}. The same command goes on with it.")
    print_verdicts(numbers["verdicts"])
    written(out / "grids.json")


def averaging(
    out: Out,
    dataset: Annotated[DatasetName, typer.Option(help="Data set.")] = DatasetName.mnist,
    gradients: Annotated[int, typer.Option(help="Gradients that each row costs.", min=100)] = 20_000,
    draws: Annotated[int, typer.Option(help="Draws on the way; the second half is averaged.", min=2)] = 60,
    workers: Annotated[int, typer.Option(help="Workers of the sampler.", min=1)] = 2,
    seeds: Annotated[int, typer.Option(help="Repetitions.", min=1)] = 3,
    lr: Rate = None,
    temperature: Annotated[list[float], typer.Option(help="A temperature; give several.")] = [1.0, 0.1],  # noqa: B006
    sgd_lr: Annotated[list[float], typer.Option(help="A learning rate of SGD; give several.")] = [0.003, 0.01],  # noqa: B006
    processes: Processes = None,
) -> None:
    """Score averaged predictions beside single draws and SGD of equal cost."""
    from stalegrad.experiments.losses import averaging as experiment

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        numbers = experiment.reproduce(
            out, dataset.value, gradients=gradients, draws=draws, workers=workers, seeds=seeds, lr=lr,
            temperatures=temperature, sgd_lr=sgd_lr, processes=processes, report=report,
        )  # fmt: skip
    title = f"{dataset.value}, {gradients:,} gradients each, mean of {seeds} repetitions"
    table = Table("", "accuracy", "log-likelihood", "Brier", "ECE", title=title)
    for row in numbers["rows"]:
        table.add_row(
            row["name"], f"{row['accuracy']:.2%}", f"{row['mean_log_likelihood']:.4f}", f"{row['brier_score']:.4f}",
            f"{row['calibration_error']:.4f}",
        )  # fmt: skip
    console.print(table)
    written(out / "averaging.json")
