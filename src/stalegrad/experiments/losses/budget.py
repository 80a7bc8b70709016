"""How many iterations fit into the minutes that one has, from measured costs."""

import time
from dataclasses import dataclass

from stalegrad._internal.errors import ArgumentError
from stalegrad.experiments.losses.tasks import Model, Task
from stalegrad.experiments.times import time_step

_STEPS = 40
_SPARE = 0.85  # of the minutes: processes side by side share caches and memory, so that each is slower than one alone


@dataclass(frozen=True)
class Costs:
    """Seconds on one core of the machine at hand.

    Args:
        step: a gradient and its update.
        loss: one evaluation of the test loss.
    """

    step: float
    loss: float


def measure_costs(task: Task, model: Model, draws: int = 3) -> Costs:
    """Time steps and evaluations of the loss on this machine."""
    start = model.start(0)
    kernel = model.kernel(task, task.recipe.lr, 1.0)
    step = time_step(model.potential, kernel, count=_STEPS)
    model.log_likelihood(start)
    begun = time.perf_counter()
    for _ in range(draws):
        model.log_likelihood(start)
    return Costs(step.gradient + step.update, (time.perf_counter() - begun) / draws)


def affordable(task: Task, costs: Costs, *, updates: int, chains: int, seconds: float) -> int:
    """L̄, a multiple of ``task.points``: what ``seconds`` of one core are enough for, at most the whole experiment.

    Args:
        task: the experiment.
        costs: measured.
        updates: of all chains together for each iteration of a worker.
        chains: how many there are; each evaluates the loss ``task.points`` times.
        seconds: of one core.
    """
    left = _SPARE * seconds - chains * task.points * costs.loss
    rounds = int(left / (updates * costs.step * task.points))
    if rounds < 1:
        least = (chains * task.points * costs.loss + updates * costs.step * task.points) / _SPARE
        raise ArgumentError(
            "budget", f"{seconds:.0f} s of a core for {task.name}", "is not enough for the shortest experiment",
            f"Give at least {least / 60:.1f} core minutes to this data set, or fewer seeds.",
        )  # fmt: skip
    return min(rounds * task.points, task.iterations)
