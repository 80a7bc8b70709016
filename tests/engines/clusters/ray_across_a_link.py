"""A Ray cluster on two hosts whose link is cut while a run goes on. A program of its own, see ``test_ray_network.py``.

It is the first of its process namespace: whatever it has started ends with it. Ray's head and the run are on host 0.

    python ray_across_a_link.py FOLDER            all of it
    python ray_across_a_link.py FOLDER ADDRESS    the run alone
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import ray

import stalegrad as sg
from stalegrad.engines import Ray
from stalegrad.potentials import Potential
from stalegrad.testing import small_model

KERNEL = sg.SGLD(step_size=0.002)
PORT = 6399
START = 100.0  # seconds for a node
TOO_BUSY = 77  # the status that says that Ray could not be started here
RAY = str(Path(sys.executable).parent / "ray")
NODE = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--block"]


class PerNodeCount(Potential):
    """:func:`small_model` that takes 20 ms a gradient and counts them, node by node."""

    def __init__(self, folder):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._folder = model, folder

    def gradient(self, theta, indices):
        time.sleep(0.02)
        with (self._folder / f"node-{ray.get_runtime_context().get_node_id()}").open("a") as file:
            file.write(".")
        return self._model.gradient(theta, indices)


def sample(folder, address):
    """A run that goes on until a file asks it to stop."""
    threading.Thread(target=interrupt_on_request, args=(folder,), daemon=True).start()
    engine = Ray(address=address, gradients_per_call=1, server_resources={"stable": 1}, heartbeat=0.5, timeout=10.0)
    run = sg.sample(
        PerNodeCount(folder), KERNEL, steps=10**6, thin=10, workers=2, seed=3, engine=engine, progress=False
    )
    (chain,) = run.trace.chains
    reported = {
        "events": [(event.kind, event.details) for event in run.events],
        "interrupted": run.interrupted,
        "twice": chain.applied_twice(),
        "same": bool(np.array_equal(run.draws, sg.replay(run.trace, small_model(), KERNEL).draws)),
    }
    (folder / "reported").write_text(json.dumps(reported))


def interrupt_on_request(folder):
    while not (folder / "enough").exists():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)


class Stage:
    """The hosts and what runs on them."""

    def __init__(self, folder, hosts):
        self._folder, self._hosts, self._nodes, self._started = folder, hosts, [], 0

    def start(self, host, *command):
        with (self._folder / "log").open("a") as log:
            return subprocess.Popen(self._hosts.command(host, *command), stdout=log, stderr=log)

    def node(self, host, *options):
        """Start a node. Ray gives it half a minute, too little on a busy machine, and it is then started again."""
        deadline, started = time.monotonic() + START, self._started
        process = None
        while not self.says("Ray runtime started", times=started + 1):
            if time.monotonic() > deadline:
                sys.exit(TOO_BUSY)
            if process is None or process.poll() is not None:
                process = self.start(host, RAY, "start", *options, *NODE)
            time.sleep(0.1)
        self._started += 1

    def gradients(self, node):
        """How many were computed on a node, 0 or 1 in any order."""
        self._nodes.extend(set(self._folder.glob("node-*")) - set(self._nodes))
        return self._nodes[node].stat().st_size if len(self._nodes) > node else 0

    def says(self, words, times=1):
        log = self._folder / "log"
        return log.exists() and log.read_text().count(words) >= times


def wait_for(condition):
    while not condition():  # the test has a limit for all of it
        time.sleep(0.05)


def play(folder):
    """Start two nodes and a run; cut the link for three seconds, then for good."""
    from networks import TwoHosts  # beside this program; tests that look for examples import it from elsewhere

    with TwoHosts() as hosts:
        stage, (here, there) = Stage(folder, hosts), hosts.addresses
        address = f"{here}:{PORT}"
        stage.node(0, "--head", f"--node-ip-address={here}", f"--port={PORT}", "--include-dashboard=false",
                   f"--temp-dir={os.environ['RAY_TMPDIR']}", '--resources={"stable": 1}')  # fmt: skip
        stage.node(1, f"--address={address}", f"--node-ip-address={there}")
        run = stage.start(0, sys.executable, __file__, str(folder), address)
        wait_for(lambda: stage.gradients(0) > 20 and stage.gradients(1) > 20)
        hosts.cut()
        time.sleep(3.0)
        hosts.heal()
        healed = [stage.gradients(node) for node in range(2)]
        wait_for(lambda: all(stage.gradients(node) > healed[node] + 20 for node in range(2)))  # both go on
        hosts.cut()
        wait_for(lambda: stage.says("no sign of life"))
        alone = [stage.gradients(node) for node in range(2)]
        wait_for(lambda: any(stage.gradients(node) > alone[node] + 20 for node in range(2)))  # one goes on
        (folder / "enough").touch()
        run.wait()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if len(sys.argv) > 2:
        sample(place, sys.argv[2])
    else:
        play(place)
