"""The sections of ``make bench``, in the order of the page: each a script of its own that writes a :class:`Result`."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import processor

HERE = Path(__file__).resolve().parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")
PATIENCE = 1800.0
"""Seconds after which a section counts as hung."""


@dataclass(frozen=True)
class Section:
    """One script.

    Args:
        name: of its results.
        script: in this folder, without .py.
        title: if it cannot be run, what the page calls it.
        words: arguments.
    """

    name: str
    script: str
    title: str
    words: tuple[str, ...] = ()


SECTIONS = (
    Section("logistic", "logistic_steps", "Steps a second: logistic regression"),
    Section("softmax", "softmax", "Steps a second: softmax regression"),
    Section("jax", "jax_steps", "Models in JAX and NumPyro"),
    Section("perceptron", "perceptron", "Steps a second: two-layer perceptrons"),
    Section("lenet", "networks", "Steps a second: LeNet", ("--network", "lenet")),
    Section("cifar10_quick", "networks", "Steps a second: Cifar10-Quick", ("--network", "cifar10_quick")),
    Section("precision_logistic", "precision_logistic", "Time to precision: logistic regression"),
    Section("precision_lenet", "precision_lenet", "Time to precision: LeNet"),
    Section("deep_peers", "deep_peers", "A classifier beside posteriors and laplace-torch"),
    Section("effective", "effective", "Effective draws a second: logistic regression"),
    Section("variance_reduction", "variance_reduction", "Variance reduction: logistic regression"),
    Section("server", "server", "The server's ceiling"),
    Section("engine_cost", "engine_cost", "What an engine costs"),
    Section("two_cores", "two_cores", "Two threads, one chain"),
    Section("time_speedup", "time_speedup", "Time speedup of a posterior average"),
    Section("lenet_threads", "lenet_threads", "LeNet on two threads"),
    Section("saturation", "saturation", "Workers that saturate a chain"),
    Section("async_efficiency", "async_efficiency", "Efficiency of asynchronous workers"),
    Section("scale", "scale", "Scale, on paper"),
    Section("memory", "memory", "Memory"),
    Section("startup", "startup", "Start-up"),
)


def run(section: Section, folder: Path, quick: bool) -> dict[str, Any]:
    """The section's results, or why there are none: a failed section does not stop the others."""
    file, begun = folder / f"{section.name}.json", time.perf_counter()
    command = [sys.executable, str(HERE / f"{section.script}.py"), *section.words, "--json", str(file)]
    command += ["--quick"] if quick else []
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    problem = ""
    try:
        with (folder / f"{section.name}.stderr").open("w+", encoding="utf-8") as errors:
            done = subprocess.run(command, env=environment, stderr=errors, timeout=PATIENCE, check=False)
            errors.seek(0)
            said = errors.read()
        sys.stderr.write(said)
        if done.returncode:
            problem = (said.strip().splitlines() or ["nothing was said"])[-1]
            problem = f"status {done.returncode}: {problem}"
    except subprocess.TimeoutExpired:
        problem = f"no end after {PATIENCE:.0f} s"
    if not problem and not file.exists():
        problem = "it wrote no results"
    found = {"title": section.title} if problem else json.loads(file.read_text(encoding="utf-8"))
    found |= {"name": section.name, "seconds": time.perf_counter() - begun, "processor": processor(), "code": code()}
    return found | ({"failure": problem} if problem else {})


def code() -> str:
    """Which commit is measured; nothing outside of a checkout."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
