"""The MPI engine under real ``mpiexec``: conformance, faults, stores, idle ranks, workers that come and go."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines.mpi.layout import Layout
from stalegrad.engines.mpi.packet import Packet
from stalegrad.store import inspect
from stalegrad.testing import KERNELS, FaultyModel, small_model

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src"
MPIEXEC = Path(sys.executable).parent / "mpiexec"
LIMIT = 110.0  # seconds; ranks end themselves after 120
KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)


class Ranks:
    """A job of mpiexec, in a session of its own so that nothing of it can be left behind."""

    def __init__(self, ranks, case, folder, **environment):
        script = [sys.executable, "-m", "mpi4py", str(HERE / "mpi_rank.py"), case, str(folder)]
        self.process = subprocess.Popen(
            [str(MPIEXEC), "-n", str(ranks), *script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(SOURCE)} | environment,
        )  # fmt: skip

    def end(self):
        """Wait for its end; the exit status, the lines of facts and what was said on standard error."""
        try:
            out, err = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the job did not end in {LIMIT:.0f} s: {self.kill()}")
        return self.process.returncode, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err

    def kill(self):
        """kill -9 of mpiexec and all below it, and what MPICH then leaves in shared memory."""
        pids = descendants(self.process.pid)
        left = {match for pid in pids for match in mapped(pid)}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in left:
            Path(path).unlink(missing_ok=True)
        return self.process.communicate()


def descendants(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in descendants(int(child)))]


def mapped(pid):
    try:
        return re.findall(r"/dev/shm/mpich_shm_\w+", Path(f"/proc/{pid}/maps").read_text())
    except OSError:
        return []


def mpi(ranks, case, folder, **environment):
    return Ranks(ranks, case, folder, **environment).end()


def until(there, job, what):
    deadline = time.monotonic() + LIMIT
    while not there():
        if job.process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"{what} did not come: {job.kill()}")
        time.sleep(0.05)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile here what the ranks need, once, rather than on every rank at the same time."""
    for kernel in (*KERNELS, KERNEL):
        run = sg.sample(small_model(), kernel, steps=4, engine="threads", progress=False)
        sg.replay(run.trace, small_model(), kernel)


def test_the_conformance_suite_and_bit_exact_replay_of_every_shape(tmp_path):
    status, told, err = mpi(15, "conformance", tmp_path)
    assert status == 0, err
    assert told[0] == {"ranks": 5, "suite": "kept"}
    shapes = [{"ranks": s + s * w, "servers": s, "workers": w, "events": 0} for s in (1, 3) for w in (1, 2, 4)]
    assert told[1:] == shapes


def test_a_stored_run_is_interrupted_and_resumed_on_other_ranks(tmp_path):
    job = Ranks(5, "interrupted", tmp_path)
    store = tmp_path / "run"
    until(lambda: store.exists() and min(inspect(store).updates) > 20, job, "the 20th update of both chains")
    job.process.send_signal(signal.SIGINT)  # mpiexec passes it on
    status, (told,), err = job.end()
    assert status == 0, err
    assert told["interrupted"] is True
    assert told["same"] is True
    assert told["workers"] == 2  # of server 0; server 1 has one
    assert told["draws"] == told["steps"]
    assert all(20 < steps < 10**6 for steps in told["steps"])
    assert not (tmp_path / "another").exists()
    goal = max(told["steps"]) + 50
    status, (again,), err = mpi(3, "interrupted", tmp_path, STEPS=str(goal))
    assert status == 0, err
    assert again == {"interrupted": False, "steps": [goal] * 2, "same": True, "draws": [goal] * 2, "workers": 1}
    assert [chain.steps for chain in sg.load(store).trace.chains] == [goal] * 2


def assert_valid(store, state, model):
    """A store that can be read, says how the run ended, replays bit for bit, and can be resumed."""
    assert inspect(store).state == state
    run = sg.load(store)
    assert min(chain.steps for chain in run.trace.chains) > 0
    for chain, draws in zip(sg.replay(run.trace, small_model(), KERNEL).chain_draws, run.chain_draws, strict=True):
        np.testing.assert_array_equal(chain, draws)
    goal = max(chain.steps for chain in run.trace.chains) + 10
    longer = sg.resume(store, model, KERNEL, steps=goal, engine="inline", progress=False)
    assert [chain.steps for chain in longer.trace.chains] == [goal] * len(longer.trace.chains)


def test_an_exception_on_a_servers_rank_ends_the_job_with_its_traceback_and_a_valid_store(tmp_path):
    status, told, err = mpi(4, "broken_server", tmp_path)
    assert status != 0
    assert told == []
    assert "LookupError: unforeseen" in err
    assert "rank 1, the server of chain 1, has failed" in err
    assert "in broken" in err  # the line of the traceback
    assert_valid(tmp_path / "run", "failed", small_model())


def test_kill_9_of_a_rank_ends_the_job_and_leaves_a_valid_store(tmp_path):
    status, told, _ = mpi(3, "killed_worker", tmp_path)
    assert status != 0
    assert told == []
    assert_valid(tmp_path / "run", "killed", FaultyModel(tmp_path / "more", {}, seconds=0.0))


def test_a_rank_that_fails_before_sampling_ends_the_job(tmp_path):
    status, _, err = mpi(3, "missing_data", tmp_path)
    assert status != 0
    assert "FileNotFoundError: the data of rank 1" in err


def test_too_few_ranks_are_refused_once_and_clearly(tmp_path):
    status, _, err = mpi(2, "too_few", tmp_path)
    assert status != 0
    assert err.count("servers=2: needs at least 3 ranks with engine='mpi'") == 1
    assert "there are 2. Start it with mpiexec -n 3" in err


def test_ranks_that_disagree_are_refused_on_all_of_them(tmp_path):
    status, told, err = mpi(3, "unlike", tmp_path)
    assert status == 0, err
    assert sorted(line["rank"] for line in told) == [0, 1, 2]
    assert {line["refused"].partition(" than ")[0] for line in told} == {
        "engine='mpi': ranks [2] were called with another model, seed or number of servers"
    }


def test_only_rank_0_goes_on_and_is_told_when_it_has_nobody_left(tmp_path):
    status, told, err = mpi(3, "twice", tmp_path)
    assert status != 0
    assert told == [{"rank": 0}]
    assert "they ended with the first sg.sample" in err
    assert "of their time in gradients" in err  # the verdict of the first run


def test_a_rank_that_hangs_is_left_behind(tmp_path):
    status, told, err = mpi(3, "hung", tmp_path)
    assert told == [{"kinds": ["hung"], "steps": 100, "same": True}]
    assert "some workers do not answer; the run is complete" in err
    assert status == 0, err


def test_idle_ranks_leave_the_processor_to_others(tmp_path):
    """While all gradients sleep, no rank uses a tenth of a core."""
    status, told, err = mpi(4, "idle", tmp_path)
    assert status == 0, err
    assert sorted(line["rank"] for line in told) == [0, 1, 2, 3]
    assert all(line["passed"] > 0.5 for line in told)
    assert all(line["share"] < 0.10 for line in told), told


def test_elastic_workers_are_killed_and_others_join(tmp_path):
    """kill -9 of a worker's mpiexec and of the worker itself: heartbeats notice, another one takes its place."""
    ports, calls = tmp_path / "ports", tmp_path / "calls"
    server = Ranks(1, "elastic", tmp_path)
    workers = []

    def join():
        workers.append(Ranks(1, "elastic", tmp_path, STALEGRAD_JOIN=str(ports)))

    def free():
        door = ports / "server-0.json"
        return json.loads(door.read_text())["free"] if door.exists() else None

    def grown(since):
        return calls.exists() and calls.stat().st_size > since + 20

    try:
        until((ports / "server-0.json").exists, server, "the server's door")
        join()
        join()
        until(lambda: free() == 0, server, "two workers")
        until(lambda: grown(0), server, "gradients")
        for victim in range(2):
            workers[victim].kill()
            until(lambda: free() == 1, server, "the news of a death")
            join()
            until(lambda: free() == 0, server, "another worker")
            until(partial(grown, calls.stat().st_size), server, "its gradients")
        (tmp_path / "stop").touch()
        status, told, err = server.end()
        assert status == 0, err
        assert told[0] | {"details": None} == {
            "steps": 2000, "same": True, "kinds": ["died"] * 2, "twice": 0, "details": None
        }  # fmt: skip
        assert all("no sign of life" in details for details in told[0]["details"])
        for worker in workers[2:]:
            status, told, err = worker.end()
            assert (status, told) == (0, []), err
    finally:
        for job in (server, *workers):
            if job.process.poll() is None:
                job.kill()


def test_nobody_joins_where_no_server_is(tmp_path, monkeypatch):
    """Without mpiexec: MPI starts a world of one."""
    code = """
import stalegrad as sg
from stalegrad.testing import small_model
sg.sample(small_model(), sg.SGLD(step_size=0.002), steps=10, engine="mpi")
"""
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "STALEGRAD_JOIN": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode != 0
    assert f"no server has its door open in {tmp_path}" in done.stderr


@pytest.mark.parametrize(("servers", "ranks"), [(1, 2), (1, 9), (2, 4), (2, 7), (3, 4), (3, 5), (5, 7), (4, 40)])
def test_every_rank_has_one_part_and_every_server_a_worker(servers, ranks):
    layout = Layout(servers, ranks)
    posts = [(rank, post) for rank in range(ranks) for post in layout.posts_of(rank)]
    assert {rank for rank, _ in posts} == set(range(servers, ranks))
    for s in range(servers):
        mine = [rank for rank, (server, _) in sorted(posts, key=lambda each: each[1]) if server == s]
        assert mine == layout.workers_of(s)
        assert 1 <= len(mine) <= layout.workers
        assert layout.workers - len(mine) <= 1
        assert sorted(number for _, (server, number) in posts if server == s) == list(range(len(mine)))


def test_a_traceback_that_is_too_long_keeps_its_ends():
    packet = Packet(3, np.float32)
    packet.set_text("first" + "x" * 100_000 + "last")
    assert packet.text.startswith("first")
    assert packet.text.endswith("last")
    assert len(packet.text.encode()) <= 16_000
    assert packet.vector.ctypes.data % 64 == 0


@pytest.mark.parametrize("settings", [{"patience": 0.0}, {"restarts": -1}, {"heartbeat": 0.0}])
def test_settings_are_checked_before_mpi_starts(settings):
    with pytest.raises(sg.ArgumentError):
        sg.engines.MPI(**settings)
