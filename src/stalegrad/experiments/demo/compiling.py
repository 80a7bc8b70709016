"""Compiling comes first and on both cores, so that no clock of the demonstration has it in: numba keeps it on disk."""

import shutil
import subprocess
from pathlib import Path

from stalegrad.engines.threads.compiled_server import WORTH_COMPILING
from stalegrad.experiments.demo import survival
from stalegrad.experiments.demo.task import Settings
from stalegrad.potentials import Linear
from stalegrad.runs.sample import sample


def compile_first(potential: Linear, settings: Settings, out: Path) -> None:
    """What threads need, in this process; what processes need, at the same time in the one that needs it.

    Shorter runs than this compile next to nothing.
    """
    if settings.steps < WORTH_COMPILING:
        return
    store = out / "first"
    shutil.rmtree(store, ignore_errors=True)
    beside = subprocess.Popen(
        [*survival.command(settings, out, store), "--steps", str(settings.burn_in + 100)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        sample(potential, settings.kernel, steps=WORTH_COMPILING, thin=WORTH_COMPILING // 2, workers=2,
               engine="threads", progress=False)  # fmt: skip
        beside.wait()
    finally:
        beside.kill()
        beside.wait()
        shutil.rmtree(store, ignore_errors=True)
