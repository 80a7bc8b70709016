"""Prometheus' text format, in a file for the node exporter's textfile collector, or for anybody who serves it."""

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from stalegrad._internal import files
from stalegrad._internal.validation import real_number
from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import Recipe, Snapshot

_LABEL = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")
_FINAL = ("finished", "interrupted", "failed", "killed")


@dataclass
class Prometheus(Observer):
    """Replaces a file with the newest numbers; a reader sees the old ones or the new ones, never half of them.

    Args:
        path: of the file; the textfile collector wants names that end in ``.prom``.
        every: seconds between two snapshots.

    >>> import pathlib, tempfile, stalegrad as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     look_on = Prometheus(f"{folder}/run.prom")
    ...     settings = {"steps": 50, "engine": "inline", "observers": look_on, "progress": False}
    ...     _ = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), **settings)
    ...     pathlib.Path(f"{folder}/run.prom").exists()
    True
    """

    path: str | Path
    every: float = 5.0

    def __post_init__(self) -> None:
        self.every = real_number("every", self.every, above=0)
        self._name = ""

    def start(self, recipe: Recipe) -> None:
        """The name of the run is a label of all numbers."""
        self._name = recipe.name
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Replace the file with the numbers of now."""
        files.write(Path(self.path), exposition(snapshot, self._name).encode(), "metrics")


def exposition(snapshot: Snapshot, name: str) -> str:
    """A snapshot in the text format, version 0.0.4.

    Args:
        snapshot: the run.
        name: of the run, its label.
    """
    run = f'run="{_label(name)}"'
    families: dict[str, tuple[str, str, list[tuple[str, float]]]] = {}

    def add(metric: str, kind: str, text: str, value: float, labels: str = "") -> None:
        samples = families.setdefault(f"stalegrad_{metric}", (kind, text, []))[2]
        if isfinite(value):
            samples.append((f"{{{run}{',' * bool(labels)}{labels}}}", value))

    add("running", "gauge", "1 while the run goes on.", float(snapshot.state not in _FINAL))
    add("seconds", "gauge", "Seconds of the run.", snapshot.seconds)
    add("progress_ratio", "gauge", "Share of its updates that the slowest chain has made.", snapshot.progress)
    add("gradients_per_second", "gauge", "Gradients of all chains, lately.", snapshot.gradients_per_second)
    add("busy_ratio", "gauge", "Share of their time in which workers compute, lately.", snapshot.busy)
    add("delay", "gauge", "h·λ·(τ + ½), largest of the chains.", snapshot.delay)
    add("delay_limit", "gauge", "What it must stay below.", snapshot.delay_limit)
    add("loss", "gauge", "Of a minibatch at the last draw.", snapshot.loss)
    for s, chain in enumerate(snapshot.chains):
        of = f'chain="{s}"'
        add("updates_total", "counter", "Updates made.", chain.updates, of)
        add("dropped_total", "counter", "Gradients that came too late.", chain.dropped, of)
        add("refused_total", "counter", "Messages that were unusable.", chain.refused, of)
        add("staleness_mean", "gauge", "Of the gradients that were used.", chain.mean_staleness, of)
        add("staleness_max", "gauge", "Of the gradients that were used.", chain.max_staleness, of)
    for function in snapshot.functions:
        of = f'function="{_label(function.name)}"'
        add("estimate", "gauge", "Average over the draws.", function.value, of)
        add("estimate_error", "gauge", "Its Monte Carlo standard error.", function.error, of)
        add("rhat", "gauge", "Whether chains agree.", function.rhat, of)
        add("effective_draws", "gauge", "What the draws are worth.", function.ess, of)
    lines = []
    for metric, (kind, text, samples) in families.items():
        if samples:
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
            lines += [f"{metric}{labels} {value!r}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return _NOT_UTF8.sub("?", text).translate(_LABEL)
