"""``stalegrad watch`` and ``timeline``: what a run is doing, and who did what when."""

import time
from math import inf
from pathlib import Path
from typing import Annotated

import typer

import stalegrad
from stalegrad.cli.common import page_options, say, written
from stalegrad.cli.runs import Folder, Host, Port, model_of


def watch(
    folder: Folder,
    host: Host = None,
    port: Port = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further host name by which browsers may ask for the page."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="What makes the model, or job for what the run's job file says: then loss and λ are shown, too.",
        ),
    ] = None,
) -> None:
    """Serve a page about a stored run, while it goes on, on whatever engine and machine, or after it. Ctrl-C ends it.

    What is shown is what the last checkpoints hold. The page cannot change anything, and nothing that the run names is
    imported unless --model says so.
    """
    from stalegrad.runs.observers.sampler import Sampler
    from stalegrad.runs.observers.stored import StoredSource
    from stalegrad.runs.watch.opening import open_page

    options = page_options(host, port, tuple(name or ()))
    with Sampler(StoredSource(folder, None if model is None else model_of(folder, model))) as sampler:
        page = open_page(options, sampler, secret=folder)
        say(page.announcement())
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            page.close()


def timeline(
    folder: Folder,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", dir_okay=False, help="Such as run.json, or run.json.gz.")
    ],
    begin: Annotated[float, typer.Option("--from", metavar="SECONDS", help="From which second of the run on.")] = 0.0,
    end: Annotated[float, typer.Option("--to", metavar="SECONDS", help="Up to which; all by default.")] = inf,
) -> None:
    """Write who computed when, for how long, as Chrome-trace JSON: open it at https://ui.perfetto.dev."""
    from stalegrad.runs.timeline import write_timeline

    run = stalegrad.load(folder)
    count = write_timeline(run.trace, out, events=run.events, begin=begin, end=end)
    written(out)
    say(f"{count:,} gradients. Open it at https://ui.perfetto.dev, or chrome://tracing.")
