"""Thousands of workers that join one server and are lost: ``python elastic_joins.py --joins 3000``.

The server is a process of its own. Some workers are processes, too, forked from this one: they join, compute a few
gradients and kill themselves in the middle of one. The others are threads, which do the same and close their connection
in the middle of a gradient: that is all that the server ever sees of a death, and a hundred times cheaper. What is
printed at the end says what is left of them in the server: nothing.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import stalegrad as sg
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.engine import JOIN
from stalegrad.engines.mpi.heartbeats import HeartbeatExchange
from stalegrad.engines.mpi.join_search import join_server
from stalegrad.engines.mpi.packet import Packet
from stalegrad.engines.mpi.rank_worker import Membership, RankWorker
from stalegrad.engines.mpi.ranks import fingerprint
from stalegrad.engines.mpi.socket_channel import SocketChannel
from stalegrad.potentials import Minibatches, Potential
from stalegrad.protocol.worker import Worker

KERNEL = sg.SGLD(step_size=0.002)
PARAMETERS = 20_000
SEED = 5
PLACES, AT_ONCE = 24, 8
MOST_PROCESSES = 100


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(Potential):
    """A Gaussian whose gradient of a certain number, if any, is the end of whoever computes it."""

    def __init__(self, last=None, end=kill_self):
        super().__init__(PARAMETERS, Minibatches(40, 4), np.dtype(np.float32))
        self.left, self.end = last, end

    def gradient(self, theta, indices):
        if self.left is not None:
            if self.left == 0:
                self.end()
            self.left -= 1
            time.sleep(0.002)
        return theta + np.float32(indices.mean())


def sample(folder, joins, last=None):
    """What the server and every worker call. So few draws are kept that their memory does not count."""
    engine = sg.engines.MPI(elastic=folder, heartbeat=120.0)
    return sg.sample(
        Mortal(last), KERNEL, steps=500 * joins, thin=joins, workers=PLACES, engine=engine, progress=False, seed=SEED
    )


def serve(folder, joins):
    """The server, until it is interrupted; then what it has seen."""
    run = sample(folder, joins)
    again = sg.replay(run.trace, Mortal(), KERNEL)
    (chain,) = run.trace.chains
    facts = {
        "deaths": len(run.events), "kinds": sorted({event.kind for event in run.events}), "steps": chain.steps,
        "twice": chain.applied_twice(), "same": bool(np.array_equal(again.draws, run.draws)),
    }  # fmt: skip
    print(json.dumps(facts), flush=True)


def fork_worker(folder, joins, last):
    """A worker that dies in a gradient of this number; its process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.environ[JOIN] = str(folder)
        sample(folder, joins, last)
    except BaseException as error:
        print(f"a worker could not join: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def lose_processes(ports, joins, count, rng):
    """Have so many processes join and kill themselves; how many failed to join."""
    died, failed, living = 0, 0, set()
    while died < count:
        while len(living) < min(AT_ONCE, count - died):
            living.add(fork_worker(ports, joins, int(rng.integers(1, 8))))
        pid, status = os.waitpid(-1, 0)
        if pid in living:
            living.discard(pid)
            killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            died, failed = died + killed, failed + (not killed)
    return failed


def lose_connection(ports, last):
    """Join, compute a few gradients, and close the connection in the middle of one."""
    connection, verdict = join_server(ports, fingerprint(Mortal(), SEED))
    channel = SocketChannel(connection, Packet(PARAMETERS, np.dtype(np.float32)).room.nbytes)
    model = Mortal(last, channel.close)
    heartbeats = HeartbeatExchange(channel, every=1.0)

    def check():
        heartbeats.exchange()
        if channel.closed:
            raise ConnectionAbortedError

    worker = Worker(model, SEED, verdict.server, verdict.place)
    with contextlib.suppress(ConnectionAbortedError):
        RankWorker(
            [Membership(Connection(channel, 0, model, at_server=False), worker, verdict.incarnation)], check
        ).run(0.0)


def usage(pid):
    """Resident kilobytes, descriptors and threads of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "resident kB": int(status["VmRSS"].split()[0]), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
    }  # fmt: skip


def usage_when_alone(server, ports):
    """The server's usage once it has noticed that all workers are gone."""
    deadline = time.monotonic() + 120.0
    while json.loads((ports / "server-0.json").read_text())["free"] < PLACES:
        assert time.monotonic() < deadline, "the server has not noticed that its workers are gone"
        time.sleep(0.05)
    return usage(server.pid)


def play(joins, folder):
    """Have so many workers join and go; the facts of it."""
    sg.sample(Mortal(), KERNEL, steps=2, engine="inline", progress=False)  # whatever workers import or compile
    ports, begun, rng = folder / "ports", time.perf_counter(), np.random.default_rng(7)
    with (folder / "said").open("w") as said:
        command = [sys.executable, __file__, "--serve", str(ports), "--joins", str(joins)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
    try:
        while not (ports / "server-0.json").exists():
            assert server.poll() is None, (folder / "said").read_text()
            time.sleep(0.05)
        processes = min(MOST_PROCESSES, joins // 2)
        failed = lose_processes(ports, joins, processes, rng)
        before = usage_when_alone(server, ports)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            lost = [threads.submit(lose_connection, ports, int(rng.integers(1, 8))) for _ in range(joins - processes)]
            for count, each in enumerate(as_completed(lost), start=1):
                each.result()
                if count % 250 == 0:
                    seconds = time.perf_counter() - begun
                    print(count, f"{seconds:.0f} s", usage(server.pid), file=sys.stderr, flush=True)
        after = usage_when_alone(server, ports)
        server.send_signal(signal.SIGINT)
        out, _ = server.communicate(timeout=600)
        assert out, (folder / "said").read_text()[-2000:]
        growth = {name: after[name] - before[name] for name in after}
        facts = {"joins": joins, "of processes": processes, "failed": failed, **json.loads(out.splitlines()[-1])}
        return {**facts, "growth": growth, "seconds": round(time.perf_counter() - begun)}
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
        server.stdout.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--joins", type=int, default=3000)
    parser.add_argument("--serve", type=Path)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve, asked.joins)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            print(json.dumps(play(asked.joins, Path(scratch))))
