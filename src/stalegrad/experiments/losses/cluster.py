"""The paper's cluster, 5 machines of 8 cores, in simulated time."""

from dataclasses import replace
from functools import cache

from stalegrad.experiments.losses.layouts import Layout
from stalegrad.experiments.times import Machine
from stalegrad.planning.scaling import updates_per_second

MACHINES = 5
CORES = 8
_UPDATES = 4000


@cache
def cluster_rate(machine: Machine, layout: Layout, size: int) -> float:
    """Updates a second of each server.

    Servers are spread over the machines. Two of them on one machine share its link; servers and workers that are more
    than the 40 cores share those.

    Args:
        machine: times with a core for each worker and a link for each server.
        layout: servers and workers.
        size: parameters of the model.
    """
    crowd = max(1.0, layout.servers * (layout.workers + 1) / (MACHINES * CORES))
    sharing = -(-layout.servers // MACHINES)
    crowded = replace(
        machine,
        gradient=machine.gradient * crowd,
        update=machine.update * crowd,
        bandwidth=machine.bandwidth / sharing,
    )
    return updates_per_second(crowded.trace(layout.workers, _UPDATES, size, seed=0).chains[0])
