"""Compiling comes first and on both cores, so that no clock of the demonstration has it in: numba keeps it on disk."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from stalegrad.engines.threads.compiled_server import WORTH_COMPILING
from stalegrad.experiments.demo.staleness import KINDS
from stalegrad.experiments.demo.task import Settings, model
from stalegrad.potentials import Linear
from stalegrad.runs.sample import sample

_BESIDE = "import sys; from stalegrad.experiments.demo.compiling import compile_beside; compile_beside(*sys.argv[1:])"


def compile_first(potential: Linear, settings: Settings, out: Path) -> None:
    """What both kinds of gradients need, in this process; what the run needs that is killed, beside it in another.

    The second kind shares all but the outermost functions with the first. Shorter runs compile next to nothing.
    """
    if settings.steps < WORTH_COMPILING:
        return
    store = out / "first"
    shutil.rmtree(store, ignore_errors=True)
    command = [sys.executable, "-c", _BESIDE, str(store)]
    beside = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for architecture in KINDS.values():
            _sample(potential, architecture)
        beside.wait()
    finally:
        beside.kill()
        beside.wait()
        shutil.rmtree(store, ignore_errors=True)


def compile_beside(store: str) -> None:
    """A run on processes that is stored."""
    sample(model(), Settings().kernel, steps=200, workers=2, engine="processes", store=store, progress=False)


def _sample(potential: Linear, architecture: Any) -> None:
    """The shortest run that is worth compiling a loop for."""
    sample(
        potential, Settings().kernel, steps=WORTH_COMPILING, thin=WORTH_COMPILING // 2, workers=2, engine="threads",
        architecture=architecture, progress=False,
    )  # fmt: skip
