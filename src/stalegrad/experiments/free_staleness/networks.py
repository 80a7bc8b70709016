"""Networks, whose curvature nobody owns: does it help to send workers ahead, and to tame what comes back?

LeNet on MNIST and Cifar10-Quick on CIFAR-10 with the authors' minibatches and momentum, from random weights, on the
simulated cluster of figures 3 and 4. Forms are compared at equal numbers of gradients: *fresh*, one worker; *plain*, W
workers; *ahead*, W workers that are sent ahead on a straight course; *tamed*, the same with ``tame=0.1``; see
:class:`stalegrad.StaleGradients`. All forms of a seed have the same noise.

The paper's own failure is that on CIFAR-10 six and nine workers do worse than four at equal iterations of each worker.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.experiments.losses.curves import summary
from stalegrad.experiments.losses.tasks import TASKS
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import Unit, execute
from stalegrad.experiments.verdicts import Verdict, all_of, below

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ahead": {"ahead": "straight"},
    "tamed": {"ahead": "straight", "tame": 0.1},
}
"""What each form of more than one worker adds to a unit."""

_CHANCE = log(10)  # the loss of ten classes that are equally likely
_STRIDE = 144  # gradients: W = 9 and W = 16 both divide it


class Failure(NamedTuple):
    """The comparison at equal iterations of each worker: is the loss of more workers higher than that of the first?"""

    rate: float
    iterations: int
    workers: tuple[int, ...]
    seeds: int


@dataclass(frozen=True)
class Plan:
    """Which chains of a network are made.

    Args:
        task: the data set.
        rates: learning rates, of one seed each.
        main_rate: the authors'.
        seeds: of the main rate and of those in ``seeded``.
        strides: the length of each chain, in units of 144 gradients.
        seeded: further learning rates with all seeds.
        workers: W of the stale forms.
        failure: the comparison at equal iterations; None for none.
    """

    task: str
    rates: tuple[float, ...]
    main_rate: float
    seeds: int
    strides: int
    seeded: tuple[float, ...] = ()
    workers: tuple[int, ...] = (9, 16)
    failure: Failure | None = None

    @property
    def gradients(self) -> int:
        """How many gradients each chain takes."""
        return _STRIDE * self.strides

    def seeds_of(self, rate: float) -> int:
        """How many repetitions a learning rate has."""
        return self.seeds if rate in (self.main_rate, *self.seeded) else 1

    def unit(self, form: tuple[str, int], rate: float, seed: int) -> Unit:
        """The chain of a form, a learning rate and a seed."""
        name, workers = form
        return Unit(
            task=self.task, workers=workers, chain=0, seed=seed, iterations=self.gradients // workers,
            points=self.strides, lr=rate, **FORMS.get(name, {}),
        )  # fmt: skip

    @property
    def forms(self) -> list[tuple[str, int]]:
        """Name and W of all that are compared."""
        return [("fresh", 1), *((name, w) for w in self.workers for name in FORMS)]

    def units(self) -> list[Unit]:
        """Every chain at equal gradients as a unit of work: one seed after the other, the main rate first."""
        wanted = [
            self.unit(form, rate, seed)
            for rate in self.rates
            for seed in range(self.seeds_of(rate))
            for form in self.forms
        ]
        return sorted(wanted, key=lambda unit: (unit.seed, unit.lr != self.main_rate))

    def failure_unit(self, form: str, workers: int, seed: int) -> Unit:
        """A chain at equal iterations of each worker."""
        assert self.failure is not None, "only plans with such a comparison are asked"
        return Unit(
            task=self.task, workers=workers, chain=0, seed=seed, iterations=self.failure.iterations, points=1,
            lr=self.failure.rate, **FORMS[form],
        )  # fmt: skip

    def failure_units(self) -> list[Unit]:
        """Every chain at equal iterations of each worker, one form and one seed after the other."""
        if self.failure is None:
            return []
        return [
            self.failure_unit(name, w, seed)
            for name in FORMS
            for seed in range(self.failure.seeds)
            for w in self.failure.workers
        ]


LENET = Plan("mnist", (0.001, 0.002, 0.003, 0.005, 0.01), 0.001, seeds=5, strides=3, seeded=(0.01,))
CIFAR10 = Plan(
    "cifar10", (0.0001, 0.0003, 0.001), 0.001, seeds=3, strides=1, failure=Failure(0.00025, 20, (4, 6, 9), seeds=10)
)
"""The authors' learning rate is 0.001 for both."""


def measure(
    out: Path, plan: Plan, report: Report, *, budget: float | None = None, processes: int = 1
) -> dict[str, Any]:
    """The test losses of every chain, and the largest learning rate at which each form trains.

    Args:
        out: the experiment's folder; chains that are in it are not made again.
        plan: which chains.
        report: called with what is being done and the share that is done.
        budget: minutes after which no further chain is begun, so that those that are missing are left for another call;
            0 to look at what is there. None for as long as it takes.
        processes: how many chains at a time, without a budget.
    """
    folder = UnitFolder(out, execute_briefly, processes)
    wanted = [*plan.failure_units(), *plan.units()]
    if budget is None:
        results = folder.results(wanted, report)
    else:
        end = time.monotonic() + 60 * budget
        results = {}
        for unit in wanted:
            if folder.made(unit) or time.monotonic() < end:
                results |= folder.results([unit], report)
    rows = []
    for form in plan.forms:
        found = {rate: _losses(plan, results, form, rate) for rate in plan.rates}
        trained = [rate for rate, losses in found.items() if losses and all(_trains(each) for each in losses)]
        rows.append(
            {
                "form": form[0], "workers": form[1], "loss": {f"{rate:g}": losses for rate, losses in found.items()},
                "largest_lr": max(trained, default=None),
            }
        )  # fmt: skip
    seconds = sum(each["seconds"] + each.get("seconds_of_losses", 0.0) for each in results.values())
    return {
        "title": TASKS[plan.task].title, "main_lr": plan.main_rate, "lr": list(plan.rates), "seeds": plan.seeds,
        "gradients": [_STRIDE * (k + 1) for k in range(plan.strides)], "rows": rows,
        "failure": _failure(plan, results),
        "verdicts": [verdict.plain() for verdict in _against_plain(plan, results)],
        "chains": [len(results), len(wanted)], "core_minutes": seconds / 60,
    }  # fmt: skip


def execute_briefly(unit: Unit) -> dict[str, Any]:
    """The numbers of a chain without the likelihood of every datum, a file of a few hundred bytes."""
    found = execute(unit)
    return {name: value for name, value in found.items() if name not in ("log_likelihood", "step_size")}


def _end(result: dict[str, Any]) -> float:
    """The loss of the last draw. A chain that diverged has learnt nothing: its loss is taken to be that of guessing."""
    losses = _curve(result)
    return _CHANCE if losses is None else losses[-1]


def _curve(result: dict[str, Any]) -> list[float] | None:
    """Test loss after every stride; None for a chain that diverged.

    Whether it was ended, its loss is no number (None in a file), or more than twice that of guessing.
    """
    losses = result.get("loss")
    if losses is None or not all(loss is not None and loss < 2 * _CHANCE for loss in losses):
        return None
    return [float(loss) for loss in losses]


def _against_plain(plan: Plan, results: dict[Unit, dict[str, Any]]) -> list[Verdict]:
    """Whether each form ends below the plain one of as many workers, seed by seed, where there are several seeds."""
    found = []
    for rate in (each for each in plan.rates if plan.seeds_of(each) > 1):
        for workers in plan.workers:
            for form in (name for name in FORMS if name != "plain"):
                pairs = [
                    [plan.unit((name, workers), rate, seed) for name in (form, "plain")]
                    for seed in range(plan.seeds_of(rate))
                ]
                gains = [_end(results[a]) - _end(results[b]) for a, b in pairs if a in results and b in results]
                mean, half = summary(np.array(gains)) if gains else (np.nan, np.nan)
                lost = sum(_curve(results[b]) is None for _, b in pairs if b in results)
                found.append(
                    Verdict(
                        f"lr {rate:g}, {workers} workers: {form} ends below plain after {plan.gradients} gradients",
                        below(float(mean), float(half)),
                        f"{len(gains)} seeds: {mean:+.3f} ± {half:.3f}; {lost} of the plain chains diverged",
                    )
                )
    return found


def _failure(plan: Plan, results: dict[Unit, dict[str, Any]]) -> dict[str, Any] | None:
    """The losses of every form and W at equal iterations, and whether more workers are worse than the fewest.

    Of each form the seeds count that all its numbers of workers have.
    """
    if plan.failure is None:
        return None
    rate, iterations, workers, seeds = plan.failure
    rows, verdicts = [], []
    for form in FORMS:
        units = [[plan.failure_unit(form, w, seed) for w in workers] for seed in range(seeds)]
        made = [[results[unit] for unit in row] for row in units if all(unit in results for unit in row)]
        losses = np.array([[_end(each) for each in row] for row in made]).reshape(-1, len(workers))
        rows += [
            {"form": form, "workers": w, "loss": losses[:, k].tolist(),
             "diverged": sum(_curve(row[k]) is None for row in made)}
            for k, w in enumerate(workers)
        ]  # fmt: skip
        verdicts.append(_worse(form, workers, iterations, losses))
    return {
        "lr": rate, "iterations": iterations, "workers": list(workers), "seeds": seeds, "rows": rows,
        "verdicts": [verdict.plain() for verdict in verdicts],
    }  # fmt: skip


def _worse(form: str, workers: tuple[int, ...], iterations: int, losses: Array) -> Verdict:
    """Whether all that have more workers end above those with the fewest, seed by seed, at 95 % together."""
    level = 1 - 0.05 / (len(workers) - 1)
    parts = []
    for k in range(1, len(workers)):
        mean, half = summary(losses[:, 0] - losses[:, k], level) if len(losses) else (np.nan, np.nan)
        parts.append((workers[k], float(mean), float(half)))
    more = " and ".join(map(str, workers[1:]))
    listed = ", ".join(f"{w} above {workers[0]} by {-mean:+.3f} ± {half:.3f}" for w, mean, half in parts)
    return Verdict(
        f"{form}: {more} workers end worse than {workers[0]} after {iterations} iterations of each",
        all_of([below(mean, half) for _, mean, half in parts]),
        f"{len(losses)} seeds: {listed}" if len(losses) else "not one seed is whole",
    )


def _losses(
    plan: Plan, results: dict[Unit, dict[str, Any]], form: tuple[str, int], rate: float
) -> list[list[float] | None]:
    """Test loss after every stride, of each seed that was made; None for a chain that diverged."""
    units = [plan.unit(form, rate, seed) for seed in range(plan.seeds_of(rate))]
    return [_curve(results[unit]) for unit in units if unit in results]


def _trains(losses: Sequence[float] | None) -> bool:
    """Whether a chain ends at least 5 % below the loss of guessing."""
    return losses is not None and losses[-1] < 0.95 * _CHANCE
