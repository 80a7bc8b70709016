"""The process that samples in a soak: it takes orders from a folder, one run after the other, and answers there.

    python -m tests.soak.subject ENGINE HOME            until it is ordered to end
    python -m tests.soak.subject ENGINE HOME NUMBER     as an elastic worker that joins the run of that order

An order is ``order-NUMBER.json`` in the home, its answer ``answer-NUMBER.json``. On MPI all ranks follow the orders,
and rank 0 answers.
"""

import ctypes
import gc
import itertools
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np

import stalegrad as sg
from stalegrad._internal import failpoints
from stalegrad.runs.store import inspect
from stalegrad.testing import KERNELS

from .model import SoakModel, healthy
from .watch import usage

PATIENCE, HEARTBEAT, RESTARTS = 2.0, 3.0, 50
CHECKPOINT = 0.2  # seconds
POLL = 0.02


def engine_of(name, home):
    """The engine, with deadlines between the short faults and the long ones."""
    engines = sg.engines
    return {
        "inline": lambda: engines.Inline(),
        "threads": lambda: engines.Threads(patience=PATIENCE, restarts=RESTARTS),
        "processes": lambda: engines.Processes(patience=PATIENCE, restarts=RESTARTS),
        "mpi": lambda: engines.MPI(patience=PATIENCE, restarts=RESTARTS, everywhere=True),
        "elastic": lambda: engines.MPI(elastic=home / "ports", heartbeat=HEARTBEAT, restarts=RESTARTS),
        "ray": lambda: engines.Ray(gradients_per_call=4, heartbeat=0.5, timeout=HEARTBEAT, restarts=RESTARTS),
    }[name]()


def carry_out(order, name, home):
    """Sample or resume as ordered; the run."""
    plan, store = order["plan"], Path(order["store"])
    model, kernel = SoakModel(Path(order["folder"])), KERNELS[plan["kernel"] % len(KERNELS)]
    common = {"engine": engine_of(name, home), "progress": False, "on_store_error": order["on_store_error"]}
    if order["do"] == "resume":
        return sg.resume(store, model, kernel, **common)
    settings = {key: plan[key] for key in ("seed", "servers", "workers", "thin", "burn_in")}
    return sg.sample(
        model, kernel, steps=order["steps"], store=store, checkpoint_every=CHECKPOINT, **settings, **common
    )


def promises(order):
    """What the store of a complete run holds, against what it should."""
    plan, info = order["plan"], inspect(order["store"])
    run = sg.load(order["store"])
    again = sg.replay(run.trace, healthy(), KERNELS[plan["kernel"] % len(KERNELS)])
    expected = (order["steps"] - plan["burn_in"]) // plan["thin"]
    return {
        "state": info.state,
        "updates": [chain.steps for chain in run.trace.chains],
        "twice": sum(chain.applied_twice() for chain in run.trace.chains),
        "lost": sum(max(0, expected - draws) for draws in info.draws),
        "same": all(np.array_equal(a, np.asarray(b)) for a, b in zip(again.chain_draws, run.chain_draws, strict=True)),
        "events": dict(Counter(event.kind for event in run.events)),
    }


def answer_to(order, name, home):
    """Carry out an order; how it went, and what the process occupies afterwards."""
    try:
        carry_out(order, name, home)
    except sg.RunFailed as failure:
        facts = {"outcome": "failed", "error": str(failure)}
    except Exception:
        facts = {"outcome": "raised", "error": traceback.format_exc()}
    else:
        facts = {"outcome": "complete"} | (promises(order) if leads(name) else {})
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free and not returned to the system is no growth
    return facts | {"usage": asdict(usage(os.getpid()))}


def leads(name):
    """Whether this process is the one that answers."""
    if name != "mpi":
        return True
    from mpi4py import MPI  # not before: the engine prepares it

    return MPI.COMM_WORLD.rank == 0


def follow(name, home):
    """Carry out orders until one says that it is enough, or nobody is left who gives them."""
    master = int(os.environ["SOAK_PID"])
    for number in itertools.count():
        file = home / f"order-{number}.json"
        while not file.exists():
            if not Path(f"/proc/{master}").exists():
                return
            time.sleep(POLL)
        order = json.loads(file.read_text())
        if order["do"] == "end":
            return
        facts = answer_to(order, name, home)
        if leads(name):
            partial = home / f".answer-{number}"
            partial.write_text(json.dumps(facts))
            partial.rename(home / f"answer-{number}.json")


def simulate_full_disk(flag):
    """Where nothing can be mounted: have every write of a store fail while the flag is there, until its folder goes."""
    full = False
    while flag.parent.exists():
        if flag.exists() != full:
            full = not full
            failpoints.arm("*:1:full" if full else "")
        time.sleep(POLL)


def main():
    name, home = sys.argv[1], Path(sys.argv[2])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s: %(message)s")
    if flag := os.environ.get("SOAK_FULL"):
        threading.Thread(target=simulate_full_disk, args=(Path(flag),), daemon=True).start()
    if len(sys.argv) > 3:
        carry_out(json.loads((home / f"order-{sys.argv[3]}.json").read_text()), name, home)
    else:
        (home / f"pid-{os.environ.get('PMI_RANK', '0')}").write_text(str(os.getpid()))
        follow(name, home)


if __name__ == "__main__":
    main()
