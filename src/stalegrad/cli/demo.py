"""``stalegrad demo``: sample a real posterior and report on it."""

from pathlib import Path
from typing import Annotated

import typer

from stalegrad.cli.common import Out, Seed, console


def demo(
    out: Out = Path("demo-output"),
    steps: Annotated[int, typer.Option(help="Updates of each of the two chains.", min=1000)] = 80_000,
    workers: Annotated[int, typer.Option(help="Workers of each chain.", min=1, max=64)] = 3,
    seed: Seed = 0,
) -> None:
    """Sample a real posterior with stale gradients in half a minute: live progress, tables, pictures and a report."""
    from stalegrad.experiments.demo import Settings, demonstrate

    demonstrate(Settings(steps=steps, workers=workers, seed=seed), out, console=console)
