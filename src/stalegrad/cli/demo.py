"""``stalegrad demo``: what the package claims, shown on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from stalegrad.cli.common import Out, Seed, console


def demo(
    out: Out = Path("demo-output"),
    steps: Annotated[int, typer.Option(help="Updates of each run.", min=1000)] = 100_000,
    seed: Seed = 0,
) -> None:
    """Show on one page that workers help, that late gradients can be had for nothing, and that runs survive."""
    from stalegrad.experiments.demo import Settings, demonstrate

    demonstrate(Settings(steps=steps, seed=seed), out, console=console)
