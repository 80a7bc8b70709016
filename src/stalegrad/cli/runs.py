"""``stalegrad run``, ``resume``, ``show``, ``list``, ``rm``, ``plot`` and ``report``: runs in a folder each."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

import stalegrad
from stalegrad._internal.errors import ArgumentError, GradientError, StalegradError, StoreError
from stalegrad.analysis.diagnostics.evidence import MODEL_WANTED
from stalegrad.analysis.diagnostics.findings import Findings
from stalegrad.cli.common import console, page_options, say, written
from stalegrad.engines import Engine
from stalegrad.engines.tables import ENGINES, engine_from_table
from stalegrad.kernels.noise import MAX_CHAINS, MAX_WORKERS
from stalegrad.potentials import Potential
from stalegrad.runs.failures import Diverged, RunFailed
from stalegrad.runs.jobs import JobFile, ModelFunction
from stalegrad.runs.prepare import chosen_engine
from stalegrad.runs.result import Run


def _known_engine(name: str | None) -> str | None:
    if name is not None and name not in ENGINES.members:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, ENGINES.members))}.")
    return name


RUNS = Path("runs")
"""Where runs are put, and looked for, by default."""

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended: 128 and the number of the signal."""

Folder = Annotated[Path, typer.Argument(metavar="RUN", show_default=False, help="Folder of a run, such as runs/x.")]
Json = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON instead.")]
Quiet = Annotated[bool, typer.Option("--no-progress", help="Do not show how far it is.")]
Workers = Annotated[int | None, typer.Option(metavar="N", help="Workers of each chain.", min=1, max=MAX_WORKERS)]
EngineName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help=f"Who computes the gradients: {', '.join(ENGINES.members)}.", callback=_known_engine
    ),
]
Observe = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME:WHERE",
        help="Also tell json:FILE, tensorboard:FOLDER, mlflow:EXPERIMENT or prometheus:FILE; may be given again.",
    ),
]
LivePage = Annotated[bool, typer.Option("--watch", help="Serve a page that shows the run while it goes on.")]
Host = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Where the page listens; by default only this machine can reach it."),
]
Port = Annotated[int | None, typer.Option(metavar="N", help="Port of the page, 8707 if it is free.", min=0, max=65535)]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The cluster, for an engine that has an address: ray.")
]


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", show_default=False, help="The job.")],
    engine: EngineName = None,
    address: Address = None,
    workers: Workers = None,
    servers: Annotated[int | None, typer.Option(metavar="N", help="Chains.", min=1, max=MAX_CHAINS)] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Updates of each chain.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of everything random.", min=0)] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="Where to keep the run; by default in runs/, under the file's name.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run that is there already.")] = False,
    watch: LivePage = False,
    host: Host = None,
    port: Port = None,
    observe: Observe = None,
    quiet: Quiet = False,
) -> None:
    """Run the job that a TOML file describes, and keep it in a folder. Options override the file.

    The same file serves every engine. Ctrl-C stops the run and keeps what has been sampled; resume goes on with it.
    """
    from stalegrad.runs.sample import sample

    job = JobFile.read(file).changed(engine=engine, workers=workers, servers=servers, steps=steps, seed=seed)
    job = job if address is None else job.at(address)
    place = store or job.store or (RUNS / job.name if overwrite else _free(RUNS / job.name))
    job = job.changed(store=place)
    job.engine_object().begin()
    potential = job.potential()
    arguments = {**job.arguments(potential), "overwrite": overwrite, "progress": not quiet}
    seen = _onlookers(arguments.pop("observers", []), observe, watch, host, port)
    _finish(place, lambda: sample(potential, **arguments, **seen), potential, quiet)


def resume(
    folder: Folder,
    engine: EngineName = None,
    address: Address = None,
    workers: Workers = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Updates of each chain in all, counted from the start.", min=1)
    ] = None,
    step_size: Annotated[
        float | None,
        typer.Option(metavar="H", help="Step size from here on: smaller, after a run that has diverged."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="What makes the model, if not what the run was made with."),
    ] = None,
    watch: LivePage = False,
    host: Host = None,
    port: Port = None,
    observe: Observe = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was stopped, or let one that has ended make more steps."""
    from stalegrad.runs.store import inspect

    job = _job(inspect(folder).job)
    if job is None and model is None:
        where = shlex.quote(str(_short(folder)))
        raise StoreError(
            f"{folder} was begun by a Python program and not by a job file, so that it does not say how to make its "
            "model. Name a function without arguments that makes it:\n"
            f"  stalegrad resume {where} --model module:function\n"
            "where module.py is a file in this folder, and function() returns the potential that the run was made with"
        )
    chosen = _engine(job, engine, address)
    if chosen is not None:
        chosen.begin()
    potential = None if model is None else model_of(folder, model)
    settings: dict[str, Any] = {
        "engine": chosen,
        "workers": workers,
        "steps": steps,
        "step_size": step_size,
        "progress": not quiet,
        **_onlookers([] if job is None else job.observer_objects(), observe, watch, host, port),
    }
    _finish(folder, lambda: stalegrad.resume(folder, potential, **settings), potential, quiet)


def model_of(folder: Path, name: str) -> Potential:
    """The model of a run, made by a function of this name; by the one that its job file has, if the name is job."""
    from stalegrad.runs.store import inspect

    job = _job(inspect(folder).job)
    if name == "job":
        if job is None:
            raise StoreError(
                f"{folder} was not begun by a job file. Name what makes its model: --model module:function"
            )
        return job.potential()
    arguments, folders = ({}, ()) if job is None else (job.model.arguments, (job.folder,))
    return ModelFunction(name, arguments).potential(Path.cwd(), *folders)


def _onlookers(
    of_job: list[Any], observe: list[str] | None, watch: bool, host: str | None, port: int | None
) -> dict[str, Any]:
    """Who looks on, as :func:`stalegrad.sample` takes it: those of the job, and those of the command."""
    from stalegrad.runs.observers.tables import named_observer

    observers = [*of_job, *map(named_observer, observe or [])]
    page = watch or host is not None or port is not None
    return {
        **({"observers": observers} if observers else {}),
        **({"watch": page_options(host, port)} if page else {}),
    }


def _engine(job: JobFile | None, name: str | None, address: str | None) -> Engine | None:
    """With the settings that the job has for it, if there is a job; None for what the run had last."""
    if job is None:
        if address is not None:
            return engine_from_table({"name": name or "ray", "address": address})
        return None if name is None else chosen_engine(name)
    if address is not None:
        return job.changed(engine=name).at(address).engine_object()
    return None if name is None else job.engine_object(name)


def show(
    folder: Folder,
    as_json: Json = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="job|MODULE:FUNCTION",
            help="Make the checks that need the model, too: that of the run's job file, or what this function makes.",
        ),
    ] = None,
) -> None:
    """Sum up a run: what it is, how far it came, what its chains did and what some parameters say."""
    from stalegrad.cli import screens
    from stalegrad.runs.store import inspect
    from stalegrad.runs.summary import summarise

    info, result = inspect(folder), _load(folder)
    potential = None if model is None else model_of(folder, model)
    summary, findings = summarise(result), _findings(result, potential) if min(info.draws) else None
    if as_json:
        diagnosis = None if findings is None else findings.as_dict()
        typer.echo(
            json.dumps({**screens.plain_info(info), "summary": summary.table(), "diagnosis": diagnosis}, indent=1)
        )
    else:
        said = screens.no_draws(info) if findings is None else str(_by_command(findings, info.job))
        screens.show(console, info, summary, said)


def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the runs are.")] = RUNS, as_json: Json = False
) -> None:
    """List the runs in a folder, one line each."""
    from stalegrad.cli import screens

    if not folder.is_dir():
        raise StalegradError(f"there is no folder {folder}. Runs are put there by: stalegrad run FILE.toml")
    inner = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    rows = [screens.listed(path) for path in inner]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    elif not rows:
        say(f"no runs in {folder} yet")
    else:
        screens.show_list(console, rows)


def remove(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN…", show_default=False, help="Folders of runs.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs. Nothing else is ever deleted: no folder that holds no run, and no run that is being written."""
    from stalegrad.runs.store import folder as stores

    for folder in folders:
        if not stores.is_run(folder):
            raise StoreError(f"{folder} holds no run. Nothing was deleted")
    for folder in folders:
        if yes or typer.confirm(f"Delete {_short(folder)}?"):
            stores.remove(folder)
            say(f"deleted {_short(folder)}")


def plot(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="Where to put the pictures; by default RUN/plots."),
    ] = None,
) -> None:
    """Draw the pictures of a run."""
    from stalegrad.analysis.plots import plot_run

    if out is None:
        out = folder / "plots"
        if out.is_symlink():
            raise StoreError(f"{out} is a link out of the run's folder. Delete it, or say where to: --out FOLDER")
    result = _load_draws(folder)
    out.mkdir(parents=True, exist_ok=True)
    written(*plot_run(result, out))


def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PLACE", help="Where to put the page, a folder or a .html file; by default RUN."),
    ] = None,
) -> None:
    """Write a page about a run, for a browser: how it was made, what it found, and whether to believe it."""
    from stalegrad.analysis.report import write_report
    from stalegrad.cli import screens
    from stalegrad.runs.store import inspect

    info, result = inspect(folder), _load_draws(folder)
    about = screens.plain_info(info)
    written(write_report(result, out or folder, title=info.path.name, findings=_findings(result), about=about))


def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", show_default=False, help="Folders of runs.")],
    out: Annotated[Path, typer.Option(metavar="PLACE", help="Where to put the page, a folder or a .html file.")] = Path(
        "comparison.html"
    ),
) -> None:
    """Write a page about two runs or more of one model: what they say, how fast they said it, and how they differ."""
    from stalegrad.analysis.report import write_comparison

    names = [str(_short(folder)) for folder in folders]
    written(write_comparison(dict(zip(names, map(_load_draws, folders), strict=True)), out))


def _finish(folder: Path, sampling: Callable[[], Run], potential: Potential | None, quiet: bool) -> None:
    """Sample, then say what came of it, where it is, and what can be done with it. The diagnosis may use the model."""
    from stalegrad.cli import screens
    from stalegrad.runs.store import inspect
    from stalegrad.runs.summary import summarise

    where = shlex.quote(str(_short(folder)))
    try:
        result = sampling()
    except Diverged as error:
        raise StalegradError(
            f"{error.reason}.\n"
            f"To go on from the last good checkpoint:\n"
            f"  stalegrad resume {where} --step-size {error.smaller:g}\n"
            f"To delete it (stalegrad run with --overwrite begins again in its place):\n"
            f"  stalegrad rm {where}"
        ) from None
    except (GradientError, RunFailed):
        say(f"What was sampled until then is in {where}: stalegrad show {where}", err=True)
        raise
    info, findings = inspect(folder), ""  # unless it is quiet the sampling has printed them
    if quiet:
        found = _by_command(_findings(result, potential), info.job) if min(info.draws) else None
        findings = screens.no_draws(info) if found is None else str(found)
    screens.show(console, info, summarise(result), findings)
    say(f"\nThe run is in {where}. Next:")
    for command, what in _NEXT.items():
        say(f"  stalegrad {command:6} {where}   {what}")
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


_NEXT = {
    "show": "these numbers again",
    "plot": "pictures",
    "report": "a page for a browser",
    "resume": "go on, with --steps for more",
}


def _job(table: Any) -> JobFile | None:
    """The file that described a run, if there was one: a store may also keep any other table."""
    try:
        return JobFile.from_table(table)
    except ArgumentError:
        return None


def _load(folder: Path) -> Run:
    return stalegrad.load(folder)


def _load_draws(folder: Path) -> Run:
    """For what cannot be done without draws."""
    from stalegrad.cli import screens
    from stalegrad.runs.store import inspect

    info = inspect(folder)
    if not min(info.draws):
        raise StoreError(f"{folder}: {screens.no_draws(info)}")
    return _load(folder)


def _findings(result: Run, potential: Potential | None = None) -> Findings:
    return result.diagnose(potential)


def _by_command(findings: Findings, job: Any) -> Findings:
    """The same with what can be typed, where a check says what a program would have to give."""
    give = f"needs the model: stalegrad show --model {'module:function' if _job(job) is None else 'job'}"
    return replace(findings, skipped={name: why.replace(MODEL_WANTED, give) for name, why in findings.skipped.items()})


def _free(place: Path) -> Path:
    """The place itself, or with the first number at its end that is free."""
    others = (place.with_name(f"{place.name}-{number}") for number in count(2))
    return place if not place.exists() else next(other for other in others if not other.exists())


def _short(path: Path) -> Path:
    """Relative to where we are, if it is below."""
    return path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path
