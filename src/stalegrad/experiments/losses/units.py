"""A unit of work: one chain with its W workers, from its start to its end, and the test loss on the way.

Units are independent: they are executed in any order, on as many processes as there are cores, and what was done before
an interruption need not be done again.

A chain is executed inline, with the order of arrivals and the staleness of a simulated cluster: the same numbers on any
machine, with more workers than it has cores.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.types import Array
from stalegrad.experiments.losses.tasks import TASKS, Model, Task, model_of
from stalegrad.experiments.staleness_rules import with_rule
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.foresight import Course
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay

CHAINS = 1000
"""Chain s of repetition r is a run of its own, with the seed CHAINS · r + s: so the first of S chains are the chains of
fewer servers."""


@dataclass(frozen=True, order=True)
class Unit:
    """One chain.

    Args:
        task: the name of the data set.
        workers: W.
        chain: s.
        seed: r, the repetition.
        iterations: L̄; the chain makes W·L̄ updates.
        points: at how many even places on that way the test loss is evaluated.
        lr: learning rate.
        temperature: 1 samples the posterior; 0 is SGD with momentum, with the prior as its weight decay.
        rule: how steps depend on staleness, one of :mod:`stalegrad.experiments.staleness_rules`.
        ahead: the course on which workers are sent ahead, see :class:`stalegrad.StaleGradients`; none if empty.
        tame: how far a gradient may push a momentum, see there; 0 for any distance.
    """

    task: str
    workers: int
    chain: int
    seed: int
    iterations: int
    points: int
    lr: float
    temperature: float = 1.0
    rule: str = "constant"
    ahead: Course | Literal[""] = ""
    tame: float = 0.0

    @property
    def name(self) -> str:
        """All settings in one word, the name of its file."""
        kind = "" if self.temperature == 1 else f"-t{self.temperature:g}"
        kind += "" if self.rule == "constant" else f"-{self.rule}"
        kind += f"-{self.ahead}" if self.ahead else ""
        kind += f"-tame{self.tame:g}" if self.tame else ""
        length = f"l{self.iterations}-p{self.points}"
        return f"{self.task}-w{self.workers}-s{self.chain}-r{self.seed}-{length}-lr{self.lr:g}{kind}"

    @property
    def updates(self) -> int:
        """L = W·L̄, the updates of the chain."""
        return self.workers * self.iterations

    @property
    def run_seed(self) -> int:
        """Of the chain's noise, minibatches and start."""
        return CHAINS * self.seed + self.chain


def trace_of(unit: Unit, task: Task, size: int) -> Trace:
    """The order of arrivals on the simulated cluster."""
    return task.machine.trace(unit.workers, unit.updates, size, unit.run_seed)


def execute(unit: Unit) -> dict[str, Any]:
    """Sample, and evaluate the test loss: plain numbers, and log p(y | x, θ) of all draws and test data, (points, n).

    A chain that diverges gives none of these, and says when it did.
    """
    task = TASKS[unit.task]
    model = model_of(task.name, task.recipe.batch_size)
    begun = time.process_time()
    try:
        draws, steps, trace = chain_of(unit, task, model)
    except GradientError as error:
        return {**asdict(unit), "diverged": str(error), "seconds": time.process_time() - begun}
    sampled = time.process_time()
    likelihood = np.array([model.log_likelihood(theta) for theta in draws])
    return {
        **asdict(unit),
        "loss": (-likelihood.mean(1)).tolist(),
        "step_size": steps.tolist(),
        "staleness_mean": float(trace.chains[0].staleness.mean()),
        "staleness_max": int(trace.chains[0].staleness.max()),
        "seconds": sampled - begun,
        "seconds_of_losses": time.process_time() - sampled,
        "log_likelihood": likelihood.astype(np.float32),
    }


def chain_of(unit: Unit, task: Task, model: Model) -> tuple[Array, Array, Trace]:
    """The unit's draws, (points, n), their step sizes and its trace."""
    kernel = model.kernel(task, unit.lr, unit.temperature)
    trace = with_rule(trace_of(unit, task, model.potential.size), unit.rule, kernel.schedule)
    run = replay(
        trace, model.potential, kernel, seed=unit.run_seed,
        initial=model.start(unit.run_seed), thin=unit.updates // unit.points,
        architecture=_architecture(unit),
    )  # fmt: skip
    return run.draws[0], run.step_sizes[0], run.trace


def _architecture(unit: Unit) -> StaleGradients:
    if not unit.ahead:
        return StaleGradients(tame=unit.tame)
    return StaleGradients(look_ahead="auto", course=unit.ahead, tame=unit.tame)
