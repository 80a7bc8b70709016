"""A number of workers, and what to expect of it."""

from typing import Any, NamedTuple

from stalegrad.planning.contention import Here
from stalegrad.planning.scaling import Prediction


class Row(NamedTuple):
    """One line of a forecast."""

    cluster: Prediction
    """With a core for every worker and for the server."""
    here: Here | None
    """On this machine; None where there are far more workers than cores."""
    error: float | None
    """Of the variance along the stiffest direction, at the staleness of the cluster; None if it was not checked."""

    @property
    def workers(self) -> int:
        """W, the workers of each chain."""
        return self.cluster.workers

    @property
    def core_seconds(self) -> float:
        """What 1,000 updates of a chain cost: W workers and a server hold a core each.

        Whatever the number of workers, equally many updates give equal precision, as long as the step size stands the
        staleness. So this is also, up to a factor, what equal precision costs.
        """
        return 1000 * (self.workers + 1) / self.cluster.updates_per_second

    @property
    def efficiency(self) -> float:
        """Speedup over W: 1 where no worker is wasted."""
        return self.cluster.speedup / self.workers

    def table(self) -> dict[str, Any]:
        """What the cluster's prediction does not have, in plain types."""
        return {
            "core_seconds_per_1000_updates": self.core_seconds,
            "variance_error": self.error,
            "updates_per_second_here": None if self.here is None else self.here.updates_per_second,
            "mean_staleness_here": None if self.here is None else self.here.mean_staleness,
        }
