"""All sections of the experiment, those that are asked for, and their picture.

Sections are independent, and what is in the folder is not made again: interrupted, the same call goes on.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.version import VERSION
from stalegrad.experiments.free_staleness import cost, dropping, gaussian, logistic, networks, softmax
from stalegrad.experiments.free_staleness.dropping import Settings as DroppingSettings
from stalegrad.experiments.free_staleness.gaussian import Settings as GaussianSettings
from stalegrad.experiments.free_staleness.mse import Settings as MSESettings
from stalegrad.experiments.free_staleness.picture import draw
from stalegrad.experiments.parts import kept

SECTIONS = ("gaussian", "a9a", "dropping", "cost", "softmax", "lenet", "cifar10")
"""In the order in which they are made: the dearest last."""


@dataclass(frozen=True)
class Settings:
    """The constants of all sections."""

    gaussian: GaussianSettings = field(default_factory=GaussianSettings)
    a9a: MSESettings = field(default_factory=MSESettings)
    softmax: MSESettings = softmax.SOFTMAX
    dropping: DroppingSettings = field(default_factory=DroppingSettings)
    lenet: networks.Plan = networks.LENET
    cifar10: networks.Plan = networks.CIFAR10
    cost_sizes: tuple[int, ...] = (124, 7_850, 431_080)


def reproduce(
    out: Path,
    *,
    settings: Settings | None = None,
    sections: Sequence[str] = SECTIONS,
    budget: float | None = None,
    processes: int = 1,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Make what is missing in ``out``, and write free_staleness.json and free_staleness.png there.

    Args:
        out: the folder.
        settings: the constants.
        sections: which to make, of :data:`SECTIONS`.
        budget: minutes for softmax regression and for each network, after which no further chain is begun; another call
            goes on.
        processes: chains of networks at a time.
        report: called with what is being done and the share that is done.
    """
    settings, begun = settings or Settings(), time.perf_counter()
    plans = {"lenet": settings.lenet, "cifar10": settings.cifar10}
    hurry: dict[str, Any] = {"budget": budget, "processes": processes}
    makers: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: gaussian.measure(settings.gaussian),
        "a9a": lambda: logistic.measure(out, settings.a9a, report),
        "dropping": lambda: dropping.measure(settings.dropping),
        "cost": lambda: {"rows": cost.measure(settings.cost_sizes)},
        "softmax": lambda: softmax.measure(out, settings.softmax, report, deadline=_end(budget)),
        "lenet": lambda: networks.measure(out, plans["lenet"], report, **hurry),
        "cifar10": lambda: networks.measure(out, plans["cifar10"], report, **hurry),
    }
    numbers = made_before(out) | {"stalegrad": VERSION}
    for number, name in enumerate(sections):
        report(name, number / len(sections))
        small = name not in ("a9a", "softmax", *plans)  # those keep their chains, and are put together anew
        numbers[name] = kept(out / "units" / f"{name}.json", makers[name]) if small else makers[name]()
    numbers["seconds"] = round(time.perf_counter() - begun, 1)
    write_numbers_and_picture(out, "free_staleness", numbers, draw)
    return numbers


def _end(budget: float | None) -> float:
    """When so many minutes from now are over, by :func:`time.time`."""
    return float("inf") if budget is None else time.time() + 60 * budget


def made_before(out: Path) -> dict[str, Any]:
    """The sections that are in the folder already, so that those asked for are added to them."""
    path = out / "free_staleness.json"
    numbers: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return numbers
