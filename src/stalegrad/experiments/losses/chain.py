"""Which chain: everything that determines it but its length.

Chains of the same name are the same chain, bit for bit, however long: a longer one begins with the shorter one.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.experiments.losses.tasks import Task
from stalegrad.experiments.losses.units import CHAINS
from stalegrad.potentials.networks import Layers

Momentum = Literal["server", "workers"]
"""Who keeps the momentum: the server, as in the paper, or each worker its own, as in the authors' public code."""


@dataclass(frozen=True, order=True)
class ChainName:
    """One chain of one server.

    Args:
        task: the name of the data set.
        workers: W.
        chain: s.
        seed: r, the repetition.
        lr: learning rate.
        temperature: 1 samples the posterior; 0 is SGD with momentum, with the prior as its weight decay.
        momentum: who keeps it. Workers that do so have no noise, as in the authors' public code, where it is added to a
            buffer that is never read: their temperature is 0.
        layers: of the network.
        fresh: a control: one worker makes the W·L̄ updates of W, with the same steps, so that no gradient is stale.
    """

    task: str
    workers: int
    chain: int
    seed: int
    lr: float
    temperature: float = 1.0
    momentum: Momentum = "server"
    layers: Layers = "caffe"
    fresh: bool = False

    @property
    def word(self) -> str:
        """All of it in one word, the name of its files."""
        kind = "" if self.temperature == 1 else f"-t{self.temperature:g}"
        kind += "" if self.momentum == "server" else "-momentum-at-workers"
        kind += "" if self.layers == "caffe" else f"-{self.layers}"
        kind += "-fresh" if self.fresh else ""
        return f"{self.task}-w{self.workers}-s{self.chain}-r{self.seed}-lr{self.lr:g}{kind}"

    @property
    def run_seed(self) -> int:
        """Of the chain's noise, minibatches and start."""
        return CHAINS * self.seed + self.chain

    def weights(self, task: Task, updates: int) -> Array:
        """h_l / h_0 of every update."""
        recipe = task.recipe
        power = recipe.power / 2 if self.momentum == "server" else recipe.power  # h = √(lr/N), or lr/N
        return np.asarray((1 + recipe.gamma / self.workers * np.arange(updates)) ** -power)
