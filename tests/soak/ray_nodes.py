"""A Ray cluster for a soak, of which nodes come and go by order: ``python -m tests.soak.ray_nodes HOME``.

It listens on the loopback alone and asks for the token that RAY_AUTH_TOKEN_PATH names. ``address`` in the home says
where it is; ``add``, ``remove`` and ``end`` are orders, which are removed when they have been carried out.
"""

import os
import sys
import time
from pathlib import Path

CPUS = 6  # of the node that stays: two servers' workers


def main():
    from ray.cluster_utils import Cluster  # here: whoever collects tests imports this file, and Ray takes a while
    from tests.engines.clusters.ray_stage import NODE, SYSTEM

    home, master, more = Path(sys.argv[1]), int(os.environ["SOAK_PID"]), []
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=CPUS, _system_config=SYSTEM, **NODE)
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
