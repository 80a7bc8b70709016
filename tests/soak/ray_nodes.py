"""A Ray cluster for a soak, of which nodes come and go by order: ``python -m tests.soak.ray_nodes HOME``.

It listens on the loopback alone and asks for the token that RAY_AUTH_TOKEN_PATH names. ``address`` in the home says
where it is; ``add``, ``remove`` and ``end`` are orders, which are removed when they have been carried out.
"""

import os
import sys
import time
from pathlib import Path

CPUS = 6  # of the node that stays: two servers' workers
TRIES = 5  # Ray gives a node half a minute to start, which a busy machine may not have


def begun():
    """A cluster of one node; several tries, because Ray gives a start up where the machine is busy."""
    from ray.cluster_utils import Cluster  # here: whoever collects tests imports this file, and Ray takes a while
    from tests.engines.clusters.ray_stage import NODE, SYSTEM

    for left in reversed(range(TRIES)):
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=CPUS, _system_config=SYSTEM, **NODE)
        except Exception as problem:
            cluster.shutdown()
            if not left or "during startup" not in str(problem):
                raise
        else:
            return cluster
    raise AssertionError("the last try has returned or raised")


def main():
    from tests.engines.clusters.ray_stage import NODE

    home, master, more = Path(sys.argv[1]), int(os.environ["SOAK_PID"]), []
    cluster = begun()
    try:
        (home / "address").write_text(cluster.address)
        while not (home / "end").exists() and Path(f"/proc/{master}").exists():
            if (home / "add").exists():
                more.append(cluster.add_node(num_cpus=2, **NODE))
                (home / "add").unlink()
            if (home / "remove").exists():
                if more:
                    cluster.remove_node(more.pop(0), allow_graceful=False)
                (home / "remove").unlink()
            time.sleep(0.05)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
