"""The six methods: each spends the same number of gradients, and predicts.

SGD is SGHMC at T = 0, with the learning rate falling to 0 along a cosine; see :meth:`stalegrad.SGHMC.from_sgd` for its
units. A sampler's prediction is the average over its draws, an ensemble's that over the last parameters of its members.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels import SGHMC
from stalegrad.kernels.schedules import Cyclical
from stalegrad.potentials import Potential
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample


@dataclass(frozen=True)
class Budget:
    """What a method may spend, and how.

    Args:
        gradients: of minibatches, in all chains together.
        members: of an ensemble; also cycles, and chains that start from an ensemble.
        draws: that predict, of the samplers, in all.
        lr: learning rate of SGD and of the stages that explore, for the mean loss.
        sampling_lr: of the samplers while they sample, where it does not follow from a cycle.
        momentum: of all.
        batch_size: J.
        explore: the share of a cycle, and of a chain of an ensemble, at temperature 0.
    """

    gradients: int = 2_000
    members: int = 4
    draws: int = 12
    lr: float = 0.01
    sampling_lr: float = 0.003
    momentum: float = 0.9
    batch_size: int = 64
    explore: float = 0.7


@dataclass(frozen=True)
class Task:
    """The models of one seed.

    Args:
        model: makes the model whose start has this number; the data are the same.
        last_layer: makes the model of the last layer alone, of a network with these parameters.
        n_data: N.
        seed: of the runs.
    """

    model: Callable[[int], Potential]
    last_layer: Callable[[Array], Potential]
    n_data: int
    seed: int


Predictors = list[tuple[Potential, Array, float]]
"""The model, θ and the weight of each draw that predicts."""


def _kernel(task: Task, budget: Budget, lr: float, temperature: float = 1.0) -> SGHMC:
    return SGHMC.from_sgd(lr, budget.momentum, task.n_data, temperature=temperature)


def _run(model: Potential, kernel: Any, task: Task, **options: Any) -> Run:
    return sample(model, kernel, seed=task.seed, engine="inline", progress=False, **options)


def _cooled(task: Task, budget: Budget, steps: int) -> SGHMC:
    """SGD whose learning rate falls to 0 in so many steps; lr is proportional to h², so that h falls as its root."""
    kernel = _kernel(task, budget, budget.lr, temperature=0.0)
    return replace(kernel, step_size=Cyclical(kernel.schedule(0), steps))


def sgd(task: Task, budget: Budget) -> Predictors:
    """One network, which has all gradients to itself."""
    model, steps = task.model(0), budget.gradients
    run = _run(model, _cooled(task, budget, steps), task, steps=steps, burn_in=steps - 1)
    return [(model, run.draws[0, -1], 1.0)]


def ensemble(task: Task, budget: Budget) -> Predictors:
    """Networks from different starts, which share the gradients."""
    model, steps = task.model(0), budget.gradients // budget.members
    run = _run(
        model, _cooled(task, budget, steps), task, steps=steps, burn_in=steps - 1, servers=budget.members,
        initial=_starts(task, budget),
    )  # fmt: skip
    return [(model, theta, 1.0) for theta in run.draws[:, -1]]


def sghmc(task: Task, budget: Budget) -> Predictors:
    """One chain: half of its gradients at the learning rate of SGD and T = 0, the other half sample."""
    model, steps = task.model(0), budget.gradients
    first = _kernel(task, budget, budget.lr).schedule(0)
    kernel = _kernel(task, budget, budget.sampling_lr).after_optimising(steps // 2, step_size=first)
    return _predictors(model, _run(model, kernel, task, steps=steps, thin=steps // 2 // budget.draws))


def cyclical(task: Task, budget: Budget) -> Predictors:
    """One chain in cycles, each of which explores and then samples."""
    model, period = task.model(0), budget.gradients // budget.members
    kernel = _kernel(task, budget, budget.lr).in_cycles(period, explore=budget.explore)
    sampling = (period - kernel.stages.explore) * budget.members
    run = _run(model, kernel, task, steps=period * budget.members, thin=max(1, sampling // budget.draws))
    return _predictors(model, run)


def from_ensemble(task: Task, budget: Budget) -> Predictors:
    """One chain a member, each of which optimises first."""
    model, steps = task.model(0), budget.gradients // budget.members
    optimise = round(budget.explore * steps)
    first = _kernel(task, budget, budget.lr).schedule(0)
    kernel = _kernel(task, budget, budget.sampling_lr).after_optimising(optimise, step_size=first)
    run = _run(
        model, kernel, task, steps=steps, servers=budget.members, initial=_starts(task, budget),
        thin=max(1, (steps - optimise) * budget.members // budget.draws),
    )  # fmt: skip
    return _predictors(model, run)


def last_layer(task: Task, budget: Budget) -> Predictors:
    """SGD of everything with half of the gradients; then the last layer is sampled, its inputs as they are."""
    model, steps = task.model(0), budget.gradients // 2
    network = _run(model, _cooled(task, budget, steps), task, steps=steps, burn_in=steps - 1).draws[0, -1]
    head = task.last_layer(network)
    kernel = _kernel(task, budget, budget.sampling_lr)
    run = _run(head, kernel, task, steps=steps, burn_in=steps // 5, thin=(steps - steps // 5) // budget.draws)
    return _predictors(head, run)


METHODS: dict[str, Callable[[Task, Budget], Predictors]] = {
    "SGD": sgd,
    "ensemble of SGD": ensemble,
    "SGHMC": sghmc,
    "cyclical SGHMC": cyclical,
    "SGHMC from an ensemble": from_ensemble,
    "last layer only": last_layer,
}
"""By the name in tables and pictures."""


def _starts(task: Task, budget: Budget) -> Array:
    return np.stack([task.model(member).initial() for member in range(budget.members)])


def _predictors(model: Potential, run: Run) -> Predictors:
    weights = run.step_sizes
    return [
        (model, run.draws[s, draw], float(weights[s, draw]))
        for s in range(run.draws.shape[0])
        for draw in range(run.draws.shape[1])
    ]
