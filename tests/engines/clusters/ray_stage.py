"""What the tests of Ray share: a model that tells who computes it, a script beside a run, and what must hold after."""

import os
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import ray

import stalegrad as sg
from stalegrad.potentials import Potential
from stalegrad.testing import small_model

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)
TOKEN = secrets.token_hex(32)
SYSTEM = {
    # A node whose process is gone fails every check at once, and is given up after twenty seconds. Not sooner: so does
    # one whose connection was lost or refused for a moment, until gRPC tries again, after 1, 2, 4 … s (seen as status
    # 14, UNAVAILABLE). One
    # that is slow, because other programs run beside it, has a minute for each check, for each sign of life of a
    # connection, and five for its helpers to start, without which it ends itself.
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 20,
    "health_check_timeout_ms": 60_000,
    "health_check_initial_delay_ms": 30_000,
    "grpc_keepalive_timeout_ms": 60_000,
    "grpc_client_keepalive_timeout_ms": 60_000,
    "agent_register_timeout_ms": 300_000,
    "worker_register_timeout_seconds": 300,
    "idle_worker_killing_time_threshold_ms": 60_000,  # processes that wait for work are kept for the next test
    "num_workers_soft_limit": 16,
}
NODE = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20, "include_dashboard": False}


STEPS = 3000
SETTLED = 32  # gradients after which a process has brought some to its server, whatever it brings in a call


class Slow(Potential):
    """:func:`small_model` that takes its time until told to hurry, and tells which processes compute.

    A process computes a hundred gradients of 20 ms, then some of 300 ms: no run ends before its script does, however
    long Ray takes to notice that a node is gone.
    """

    def __init__(self, folder):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._folder, self._reported, self._computed = model, folder, os.getpid(), 0

    def gradient(self, theta, indices):
        if self._reported != os.getpid():
            node = ray.get_runtime_context().get_node_id()
            (self._folder / f"{os.getpid()}").write_text(node)
            self._reported = os.getpid()
        self._computed += 1
        if self._computed == SETTLED:
            (self._folder / f"{os.getpid()}.settled").touch()
        if not (self._folder / "hurry").exists():
            time.sleep(0.02 if self._computed <= 100 else 0.3)
        return self._model.gradient(theta, indices)


class Stage:
    """A script in this thread, where nodes can be added and removed, and a run beside it in another."""

    def __init__(self, folder):
        self.folder = folder / "stage"
        self.folder.mkdir()

    def play(self, script, engine, *, steps=STEPS, workers=2, **options):
        """Sample while the script runs; once it is through, the gradients hurry up."""
        options = {"steps": steps, "workers": workers, "seed": 3, "engine": engine, "progress": False, **options}
        with ThreadPoolExecutor(1) as beside:
            run = beside.submit(sg.sample, Slow(self.folder), KERNEL, **options)
            try:
                script(self)
            finally:
                (self.folder / "hurry").touch()
            return run.result()

    def computing(self):
        """The processes that have computed, and the nodes that they are on."""
        return {int(file.name): file.read_text() for file in self.folder.iterdir() if file.name.isdecimal()}

    def settled(self):
        """How many processes have computed for a while, so that their server knows them."""
        return len(list(self.folder.glob("*.settled")))

    def wait_for(self, condition, seconds=300.0):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(0.05)
        return found


def assert_sound(run, steps=STEPS):
    """Complete, nothing applied twice, and a replay gives the same bits."""
    for chain in run.trace.chains:
        assert chain.steps == steps
        assert chain.applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, np.asarray(run.draws))


def server_processes(log, chain=0):
    """The processes that have served a chain, in order, as far as the run has told."""
    found = (re.search(rf"server of chain {chain} is process (\d+)", record.getMessage()) for record in log.records)
    return [int(match[1]) for match in found if match]
