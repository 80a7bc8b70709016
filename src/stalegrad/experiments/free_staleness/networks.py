"""Networks, whose curvature nobody owns: does it help to send workers the point where the chain will be?

LeNet on MNIST with the authors' minibatches and momentum, from random weights, on the simulated cluster of figures 3
and 4. Four forms are compared at equal numbers of gradients: *fresh*, one worker;
*plain*, W workers; *straight* and *expected*, W workers that are sent ahead on one of the two courses of
:class:`stalegrad.StaleGradients`. All forms of a seed have the same noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.progress_bar import Report
from stalegrad.experiments.losses.tasks import TASKS
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import Unit, execute
from stalegrad.protocol.foresight import COURSES

_CHANCE = log(10)  # the loss of ten classes that are equally likely
_STRIDE = 144  # gradients: W = 9 and W = 16 both divide it


@dataclass(frozen=True)
class Plan:
    """Which chains of a network are made.

    Args:
        task: the data set.
        rates: learning rates, of one seed each.
        main_rate: the one that has all seeds.
        seeds: of that one.
        strides: the length of each chain, in units of 144 gradients.
        workers: W of the stale forms.
    """

    task: str
    rates: tuple[float, ...]
    main_rate: float
    seeds: int
    strides: int
    workers: tuple[int, ...] = (9, 16)

    @property
    def gradients(self) -> int:
        """How many gradients each chain takes."""
        return _STRIDE * self.strides

    def within(self, minutes: float | None) -> "Plan":
        """The same with chains that are shorter, if the whole would take longer than so many core minutes."""
        if minutes is None:
            return self
        each = TASKS[self.task].machine.gradient * _STRIDE * len(self.units())
        return replace(self, strides=int(max(1, min(self.strides, 60 * minutes / each))))

    def unit(self, form: tuple[str, int], rate: float, seed: int) -> Unit:
        """The chain of a form, a learning rate and a seed."""
        name, workers = form
        return Unit(
            task=self.task, workers=workers, chain=0, seed=seed, iterations=self.gradients // workers,
            points=self.strides, lr=rate, ahead=next((course for course in COURSES if course == name), ""),
        )  # fmt: skip

    @property
    def forms(self) -> list[tuple[str, int]]:
        """Name and W of all that are compared."""
        return [("fresh", 1), *((name, w) for w in self.workers for name in ("plain", *COURSES))]

    def units(self) -> list[Unit]:
        """Every chain of the plan, as a unit of work."""
        return [
            self.unit(form, rate, seed)
            for form in self.forms
            for rate in self.rates
            for seed in range(self.seeds if rate == self.main_rate else 1)
        ]


LENET = Plan("mnist", (0.001, 0.003), 0.001, seeds=1, strides=3)
"""The authors' learning rate is 0.001."""


def measure(out: Path, plan: Plan, processes: int, report: Report) -> dict[str, Any]:
    """The test losses of every chain, and the largest learning rate at which each form trains.

    Args:
        out: the experiment's folder; chains that are in it are not made again.
        plan: which chains.
        processes: how many at a time.
        report: called with what is being done and the share that is done.
    """
    results = UnitFolder(out, execute, processes).results(plan.units(), report)
    rows = []
    for form in plan.forms:
        found = {rate: _losses(plan, results, form, rate) for rate in plan.rates}
        trained = [rate for rate, losses in found.items() if all(_trains(each) for each in losses)]
        rows.append(
            {
                "form": form[0], "workers": form[1], "loss": {f"{rate:g}": losses for rate, losses in found.items()},
                "largest_lr": max(trained, default=None),
            }
        )  # fmt: skip
    return {
        "title": TASKS[plan.task].title, "main_lr": plan.main_rate, "lr": list(plan.rates), "seeds": plan.seeds,
        "gradients": [_STRIDE * (k + 1) for k in range(plan.strides)], "rows": rows,
        "core_minutes": sum(each["seconds"] + each.get("seconds_of_losses", 0.0) for each in results.values()) / 60,
    }  # fmt: skip


def _losses(
    plan: Plan, results: dict[Unit, dict[str, Any]], form: tuple[str, int], rate: float
) -> list[list[float] | None]:
    """Test loss after every stride, of each seed; None for a chain that diverged."""
    seeds = range(plan.seeds if rate == plan.main_rate else 1)
    return [results[plan.unit(form, rate, seed)].get("loss") for seed in seeds]


def _trains(losses: Sequence[float] | None) -> bool:
    """Whether a chain ends at least 5 % below the loss of guessing."""
    return losses is not None and bool(np.isfinite(losses).all()) and losses[-1] < 0.95 * _CHANCE
