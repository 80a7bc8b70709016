"""A Ray cluster of two nodes with a network between them, which is cut while a run goes on. A program of its own.

It must be alone in a network namespace and a process namespace, where it may do as it likes (``test_ray_network.py``):
this namespace has the head and the run, another the second node, and a pair of veth devices joins them.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import stalegrad as sg
from stalegrad.engines import Ray
from stalegrad.testing import FaultyModel, small_model

HERE, THERE = "10.77.0.1", "10.77.0.2"
PORT = 6399
KERNEL = sg.SGLD(step_size=0.002)
STEPS, CUT, SECONDS = 900, 100, 3.0
TIMEOUT = 6.0


class Link:
    """Two namespaces and the devices between them."""

    def __init__(self):
        self.other = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        while os.readlink(f"/proc/{self.other.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        ip("link", "add", "sg0", "type", "veth", "peer", "name", "sg1", "netns", str(self.other.pid))
        for command, device, address in ((ip, "sg0", HERE), (self.ip_there, "sg1", THERE)):
            command("link", "set", "lo", "up")
            command("address", "add", f"{address}/24", "dev", device)
            command("link", "set", device, "up")

    def there(self, *command):
        return ["nsenter", f"--net=/proc/{self.other.pid}/ns/net", *command]

    def ip_there(self, *words):
        subprocess.run(self.there("ip", *words), check=True)

    def cut(self):
        self.ip_there("link", "set", "sg1", "down")

    def heal(self):
        self.ip_there("link", "set", "sg1", "up")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def node(*options, prefix=()):
    """Start a node with room for one worker. It ends with the namespace."""
    ray = Path(sys.executable).parent / "ray"
    room = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--block"]
    with (Path(os.environ["RAY_TMPDIR"]) / f"node-{options[0]}.log").open("w") as log:
        subprocess.Popen([*prefix, str(ray), "start", *options, *room], stdout=log, stderr=log)


def main(folder):
    link = Link()
    node("--head", f"--node-ip-address={HERE}", f"--port={PORT}", "--include-dashboard=false",
         '--resources={"stable": 1}', f"--temp-dir={os.environ['RAY_TMPDIR']}")  # fmt: skip
    node(f"--address={HERE}:{PORT}", f"--node-ip-address={THERE}", prefix=link.there())
    wait_until_it_answers()
    calls, seen = folder / "calls", {}

    def script():
        wait_for(calls, CUT)
        link.cut()
        time.sleep(SECONDS)
        link.heal()
        seen["healed"] = count(calls)
        wait_for(calls, seen["healed"] + CUT)
        link.cut()
        seen["cut"] = count(calls)

    beside = threading.Thread(target=script, daemon=True)
    beside.start()
    engine = Ray(
        address=f"{HERE}:{PORT}", gradients_per_call=1, server_resources={"stable": 1}, heartbeat=0.5, timeout=TIMEOUT
    )
    model = FaultyModel(calls, {}, seconds=0.02)
    run = sg.sample(model, KERNEL, steps=STEPS, workers=2, seed=3, engine=engine, progress=False)
    beside.join()
    (chain,) = run.trace.chains
    seen["events"] = [(event.kind, event.details) for event in run.events]
    seen["rows"] = [np.flatnonzero(chain.worker == worker).tolist() for worker in range(2)]
    seen["dead"] = run.events[0].worker if run.events else None
    seen["twice"] = chain.applied_twice()
    seen["same"] = bool(np.array_equal(run.draws, sg.replay(run.trace, small_model(), KERNEL).draws))
    print("seen", json.dumps(seen), flush=True)


def wait_until_it_answers():
    for _ in range(600):
        with contextlib.suppress(OSError):
            return socket.create_connection((HERE, PORT), 1.0).close()
        time.sleep(0.1)
    raise TimeoutError("the head did not start")


def count(calls):
    return calls.stat().st_size if calls.exists() else 0


def wait_for(calls, number):
    while count(calls) < number:
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
