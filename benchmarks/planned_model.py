"""A regression whose posterior is known exactly, for jobs that are planned and then run."""

from typing import Any

import numpy as np

import stalegrad as sg


class Laborious(sg.potentials.Linear):
    """A regression whose gradients take as long as those of a larger model: each is computed over and over.

    The posterior is the same, so that simulated runs, whose time is virtual, may do without.
    """

    work = 1

    def gradients(self, theta: Any, batches: Any, out: Any) -> None:
        """The same gradients, ``work`` times."""
        for _ in range(self.work):
            super().gradients(theta, batches, out)


def model(
    n_data: int = 2000, size: int = 20, batch_size: int = 400, narrow: float = 9.0, work: int = 10
) -> sg.potentials.Linear:
    """Weights whose posterior deviations differ by a factor √narrow, all data of noise 1.

    Args:
        n_data: N.
        size: d.
        batch_size: J.
        narrow: the largest curvature over the smallest.
        work: how often each gradient is computed.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_data, size)) * np.geomspace(1.0, narrow**0.5, size)
    y = X @ rng.normal(size=size) + rng.normal(size=n_data)
    kind = sg.potentials.Linear if work == 1 else Laborious
    made = kind(X, y, prior_scale=10.0, batch_size=batch_size, dtype=np.float64)
    if isinstance(made, Laborious):
        made.work = work
    return made
