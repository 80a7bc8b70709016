"""``stalegrad reproduce fig3 | fig4 | supplement | step-sizes | averaging``: test losses of the paper's models."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from stalegrad.cli.common import Out, console, progress_bar, written


class DatasetName(StrEnum):
    """Data sets of the paper."""

    a9a = "a9a"
    mnist = "mnist"
    cifar10 = "cifar10"


Dataset = Annotated[DatasetName | None, typer.Option(help="One data set; all three by default.")]
Budget = Annotated[
    float | None,
    typer.Option(help="Minutes that it may take: fewer iterations are made where the whole would take longer.", min=0),
]
Iterations = Annotated[int | None, typer.Option(help="Iterations of each worker, in place of --budget.", min=1)]
Seeds = Annotated[int | None, typer.Option(help="Repetitions, in place of the data set's own number.", min=1)]
Rate = Annotated[float | None, typer.Option("--lr", help="Learning rate, in place of the model's own.", min=1e-12)]
Processes = Annotated[int | None, typer.Option(help="Chains at a time; one a core by default.", min=1)]


def add_to(figures: typer.Typer) -> None:
    """Add the commands for figures 3 and 4, the supplement, step sizes and averaging."""
    for name, summary in (
        ("fig3", "Test loss against iterations and time, one server with 1, 2, 4, 6 and 9 workers."),
        ("fig4", "The same for 1, 3, 5 and 7 servers with two workers each."),
        ("supplement", "The same for 1 to 9 workers, and for 1 to 7 servers with 1, 2, 4 and 6 workers each."),
    ):
        figures.command(name, help=f"{summary} {_GOES_ON}")(_figure_command(name))
    figures.command("step-sizes", help=f"Where nine workers become worse than four, and the smaller step. {_GOES_ON}")(
        step_sizes
    )
    figures.command(help=f"Averaged predictions against single draws and SGD of equal cost. {_GOES_ON}")(averaging)


_GOES_ON = "Interrupted, the same command goes on where it was."


def _figure_command(name: str) -> Callable[..., None]:
    def command(
        out: Out,
        dataset: Dataset = None,
        budget: Budget = None,
        iterations: Iterations = None,
        seeds: Seeds = None,
        lr: Rate = None,
        processes: Processes = None,
    ) -> None:
        if budget is not None and iterations is not None:
            raise typer.BadParameter("Give --budget or --iterations, not both.")
        from stalegrad.experiments.losses import figure
        from stalegrad.experiments.losses.tasks import TASKS

        out.mkdir(parents=True, exist_ok=True)
        names = [dataset.value] if dataset else list(TASKS)
        with progress_bar() as report:
            numbers = figure.reproduce(
                name, out, names, budget=budget, iterations=iterations, seeds=seeds, lr=lr, processes=processes,
                report=report,
            )  # fmt: skip
        for found in numbers["datasets"].values():
            console.print(_losses(found))
            _print_extent(found)
        written(out / f"{name}.json", out / f"{name}.png")

    return command


def _losses(found: dict[str, Any]) -> Table:
    table = Table(title=f"{found['title']}: after {found['iterations']:,} iterations a worker")
    for heading in ("S × W", "mean τ", "loss φ̂", "± 95 %", "averaged²", "last draw", "cluster", "speedup¹"):
        table.add_column(heading, justify="right")
    for row in found["layouts"]:
        half, speedup = row["half_width"][-1], row["iteration_speedup"]
        table.add_row(
            f"{row['servers']} × {row['workers']}",
            f"{row['staleness_mean']:.1f}",
            f"{row['loss'][-1]:.4f}",
            "" if half != half else f"{half:.4f}",
            f"{row['predictive_loss'][-1]:.4f}",
            f"{row['last_draw']:.4f}",
            f"{row['seconds'][-1]:,.0f} s",
            "" if speedup is None else f"{speedup:.1f}",
        )
    return table


def _print_extent(found: dict[str, Any]) -> None:
    whole, made = found["whole_iterations"], found["iterations"]
    chosen = f", what {found['budget']:g} minutes were estimated to be enough for" if found["budget"] else ""
    share = "the whole experiment" if made == whole else f"{made:,} of {whole:,} iterations{chosen}"
    repetitions = f"{found['seeds']} repetition{'s' if found['seeds'] > 1 else ''}"
    console.print(
        "¹ iterations that the first row took to its final φ̂, over those that took this row there, if it got there; "
        "more servers lower the variance of φ̂ only. ² Loss of the "
        f"averaged prediction. This is {share}, {repetitions}, {found['core_seconds'] / 60:.1f} core minutes."
    )


def step_sizes(
    out: Out,
    dataset: Annotated[DatasetName, typer.Option(help="Data set.")] = DatasetName.cifar10,
    lr: Annotated[list[float], typer.Option("--lr", help="A learning rate; give several.")] = [  # noqa: B006
        0.00003, 0.00006, 0.000125, 0.00025, 0.0005,
    ],
    workers: Annotated[list[int], typer.Option(help="A number of workers; give several.")] = [4, 9],  # noqa: B006
    iterations: Annotated[int, typer.Option(help="Iterations of each worker.", min=10)] = 200,
    points: Annotated[int, typer.Option(help="Evaluations of the test loss on the way.", min=1)] = 10,
    seeds: Annotated[int, typer.Option(help="Repetitions.", min=1)] = 2,
    processes: Processes = None,
) -> None:  # fmt: skip
    """Compare final test losses over learning rates and numbers of workers."""
    from stalegrad.experiments.losses import step_sizes as experiment

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as report:
        numbers = experiment.reproduce(
            out, dataset.value, lr=lr, workers=workers, iterations=iterations, points=points, seeds=seeds,
            processes=processes, report=report,
        )  # fmt: skip
    table = Table("learning rate", *(f"{count} workers" for count in numbers["workers"]), title=numbers["title"])
    for row in numbers["rows"]:
        table.add_row(f"{row['lr']:g}", *(_end(loss[-1]) for loss in row["loss"]))
    console.print(table)
    found = numbers["verdict"]
    console.print(
        f"Most workers become worse than fewer at lr = {found['too_large']}; repaired at lr = {found['repaired_at']}."
    )
    written(out / "step_sizes.json", out / "step_sizes.png")


def _end(loss: float) -> str:
    return "diverged" if loss != loss else f"{loss:.4f}"


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
