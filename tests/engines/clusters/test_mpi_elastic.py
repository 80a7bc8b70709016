"""Workers of the MPI engine that are jobs of their own: killed with -9, replaced, cut off; on one host and on two."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.store import inspect

from .mpi_jobs import HERE, LIMIT, SOURCE, Ranks, mpi
from .mpi_rank import Wide
from .networks import TwoHosts

pytestmark = pytest.mark.usefixtures("compiled")


class Elastic:
    """A server, and the workers that have joined it. Whatever of it is left when the block ends is killed.

    Args:
        folder: of the test.
        heartbeat: seconds of silence that mean death.
        hosts: where jobs run; None for this host.
    """

    def __init__(self, folder, heartbeat, hosts=None):
        self._folder, self._heartbeat, self._hosts = folder, str(heartbeat), hosts
        self.store, self._ports, self._calls = folder / "run", folder / "ports", folder / "calls"
        self.workers = []

    def __enter__(self):
        self.server = self._start(0)
        self.server.until((self._ports / "server-0.json").exists, "the server's port")
        return self

    def __exit__(self, *_):
        for job in (self.server, *self.workers):
            if not job.process.stdout.closed:  # else its end was waited for
                job.kill()

    def join(self, count, host=0):
        """Have workers join, and wait until they work."""
        free = self._free()
        joined = [self._start(host, STALEGRAD_JOIN=str(self._ports)) for _ in range(count)]
        self.workers += joined

        def all_in():
            for worker in joined:
                assert worker.process.poll() is None, worker.kill()
            return self._free() == free - count

        self.server.until(all_in, "another worker")
        self.goes_on()
        return joined

    def goes_on(self):
        """Wait for more gradients."""
        before = self._calls.stat().st_size if self._calls.exists() else 0
        self.server.until(lambda: self._calls.exists() and self._calls.stat().st_size > before + 20, "more gradients")

    def lose(self, count):
        """Wait until the server has noticed so many deaths."""
        self.server.until(lambda: self._free() == count, f"the news of {count} deaths")

    def end(self):
        """Interrupt the run; what the server tells."""
        self.server.process.send_signal(signal.SIGINT)
        status, reported, err = self.server.end()
        assert status == 0, err
        return reported[0]

    def _free(self):
        return json.loads((self._ports / "server-0.json").read_text())["free"]

    def _start(self, host, **environment):
        prefix = ()
        if self._hosts is not None:
            prefix = self._hosts.command(host)
        return Ranks(1, "elastic", self._folder, prefix, HEARTBEAT=self._heartbeat, **environment)


def assert_whole(reported, deaths, noticed="its connection was closed"):
    """The run lost nothing by so many deaths: each was noticed, and its draws are those of its trace."""
    details = reported.pop("details")
    assert len(details) == deaths
    assert all(noticed in each for each in details)
    expected = reported.pop("expected")
    assert expected > 0
    assert reported == {"interrupted": True, "same": True, "draws": expected, "twice": 0, "kinds": ["died"] * deaths}


def test_kill_9_of_four_workers_and_others_join(tmp_path):
    """One at a time and all at once, in the middle of a transfer or of a gradient, as it happens."""
    with Elastic(tmp_path, heartbeat=1.5) as run:
        victims = run.join(2)
        for count in (1, 2):
            for victim in victims[:count]:
                victim.kill()
            run.lose(count)
            victims = victims[count:] + run.join(count)
        victims.pop().kill()
        run.lose(1)
        run.goes_on()  # with the one that is left
        assert_whole(run.end(), deaths=4)
        (worker,) = victims
        status, reported, err = worker.end()
        assert (status, reported) == (0, []), err


def test_kill_9_of_the_server_ends_its_workers_and_leaves_a_valid_store(tmp_path):
    with Elastic(tmp_path, heartbeat=1.5) as run:
        (worker,) = run.join(1)
        run.server.until(lambda: min(inspect(run.store).updates) > 0, "a checkpoint")
        run.server.kill()
        status, reported, err = worker.end()
        assert status != 0
        assert reported == []
        assert "the server has closed the connection: it has ended, or was killed" in err
    assert inspect(run.store).state == "killed"
    stored = sg.load(run.store)
    kernel = sg.SGHMC(step_size=0.02, friction=5.0)
    again = sg.resume(run.store, Wide(tmp_path / "more", 0.0), kernel, steps=stored.trace.chains[0].steps + 500,
                      engine="inline", progress=False)  # fmt: skip
    replayed = sg.replay(again.trace, Wide(tmp_path / "more", 0.0), kernel)
    np.testing.assert_array_equal(replayed.draws, again.draws)


@contextmanager
def architecture_server(folder, **environment):
    """A server of a short run, and the environment of a worker that is to join it."""
    server = Ranks(1, "elastic_architecture", folder, SEED="3", **environment)
    try:
        server.until((folder / "ports" / "server-0.json").exists, "the server's port")
        yield server, {"STALEGRAD_JOIN": str(folder / "ports"), **environment}
    finally:
        if not server.process.stdout.closed:  # else its end was waited for
            server.kill()


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [("downpour", {}), ("worker_noise", {}), ("none", {"STEP_SIZE": "auto"})],
    ids=["downpour", "worker noise", "a step size that the server finds"],
)
def test_a_worker_that_joins_has_the_model_that_the_architecture_makes(architecture, settings, tmp_path):
    """It prepares its run as the server does, so that both agree on the model."""
    with architecture_server(tmp_path, ARCHITECTURE=architecture, **settings) as (server, join):
        status, reported, err = mpi(1, "elastic_architecture", tmp_path, SEED="3", **join)
        assert (status, reported) == (0, []), err
        status, reported, err = server.end()
        assert status == 0, err
        assert reported == [{"steps": 60, "same": True, "events": 0}]


def test_a_worker_with_another_seed_or_secret_is_turned_away_and_the_next_one_is_not(tmp_path):
    """And is told so at once, also by a server that has no other workers. Who joins right after it does so."""
    with architecture_server(tmp_path, ARCHITECTURE="none") as (server, join):
        status, reported, err = mpi(1, "elastic_architecture", tmp_path, SEED="4", **join)
        assert (status == 0, reported) == (False, [])
        assert "the run that was to be joined has another model or seed" in err
        stolen = shutil.copytree(tmp_path / "ports", tmp_path / "stolen")
        (stolen / "server-0.secret").write_bytes(bytes(32))
        status, reported, err = mpi(
            1, "elastic_architecture", tmp_path, SEED="3", **{**join, "STALEGRAD_JOIN": str(stolen)}
        )
        assert (status == 0, reported) == (False, [])
        assert "it has turned us away: the secret in the folder is not the one of its run" in err
        assert json.loads((tmp_path / "ports" / "server-0.json").read_text())["turned_away"] >= 1
        status, reported, err = mpi(1, "elastic_architecture", tmp_path, SEED="3", **join)
        assert (status, reported) == (0, []), err
        status, reported, err = server.end()
        assert (status, reported) == (0, [{"steps": 60, "same": True, "events": 0}]), err
        assert "did not show the run's secret" in err


def test_a_second_run_in_the_folder_of_another_is_refused(tmp_path):
    with architecture_server(tmp_path, ARCHITECTURE="none"):
        before = json.loads((tmp_path / "ports" / "server-0.json").read_text())
        (tmp_path / "second").mkdir()
        (tmp_path / "second" / "ports").symlink_to(tmp_path / "ports")
        for folder, problem in (("second", "is a link"), (".", "another run is being served in")):
            status, _, err = mpi(1, "elastic_twice", tmp_path / folder)
            assert status != 0
            assert problem in err
        after = json.loads((tmp_path / "ports" / "server-0.json").read_text())
        assert [after[name] for name in ("port", "pid")] == [before[name] for name in ("port", "pid")]


def test_forty_workers_join_and_go_and_nothing_is_left_of_them(tmp_path):
    """A bounded form of ``python elastic_joins.py --joins 3000``; MPI's own connections end after 2,046."""
    done = subprocess.run(
        [sys.executable, str(HERE / "elastic_joins.py"), "--joins", "40"], env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    growth = reported.pop("growth")  # of twenty: too few to tell their memory from the allocator's
    assert growth["descriptors"] <= 0
    assert growth["threads"] <= 0
    assert {name: reported[name] for name in ("joins", "deaths", "kinds", "twice", "same")} == {
        "joins": 40, "deaths": 40, "kinds": ["died"], "twice": 0, "same": True
    }  # fmt: skip


def test_nobody_joins_where_no_server_is(tmp_path):
    status, reported, err = mpi(1, "too_few", tmp_path, STALEGRAD_JOIN=str(tmp_path))
    assert status != 0
    assert reported == []
    assert f"no server can be joined in {tmp_path}" in err


def test_a_server_that_can_open_no_port_says_so_at_the_start(tmp_path):
    status, (closed,), err = mpi(1, "no_ports", tmp_path, STALEGRAD_LISTEN="192.0.2.1")
    assert status == 0, err
    assert "no port could be opened on STALEGRAD_LISTEN=192.0.2.1" in closed["error"]
    assert "start the workers together with the servers, without elastic=..." in closed["error"]
    assert inspect(tmp_path / "run").state == "failed"


# ---------------------------------------------------------------------------------------------------------- two hosts


def test_elastic_workers_behind_a_cable_that_is_cut_and_healed_and_then_cut_for_good(tmp_path):
    """Server and worker on two hosts. What is shorter than the heartbeat does no harm; what is longer is a death."""
    with TwoHosts() as hosts, Elastic(tmp_path, heartbeat=6.0, hosts=hosts) as run:
        (far,) = run.join(1, host=1)
        hosts.cut()
        time.sleep(2.0)
        hosts.heal()
        run.goes_on()
        hosts.cut()
        run.lose(2)
        status, reported, err = far.end()
        assert status != 0
        assert reported == []
        assert "the server has given no sign of life" in err
        run.join(1, host=0)  # the cable is still cut
        assert_whole(run.end(), deaths=1, noticed="no sign of life")


def test_a_rank_behind_a_cable_that_is_cut_for_seconds_is_left_out(tmp_path):
    """One mpiexec over two hosts. Nobody dies, and the run is completed by whoever can be reached."""
    with TwoHosts() as hosts:
        hosts.write_ssh(tmp_path / "ssh")
        near, far = hosts.addresses
        job = Ranks(
            3, "behind_a_cable", tmp_path, hosts.command(0),
            ("-launcher", "ssh", "-launcher-exec", str(tmp_path / "ssh"), "-localhost", near, "-hosts",
             f"{near}:2,{far}:1"),
            FI_PROVIDER="tcp", FI_TCP_IFACE=hosts.card, MPIR_CVAR_CH4_NETMOD="ofi",
        )  # fmt: skip
        calls = tmp_path / "calls"
        job.until(lambda: calls.exists() and calls.stat().st_size > 50, "gradients")
        hosts.cut()
        time.sleep(3.0)
        hosts.heal()
        (tmp_path / "healed").touch()
        status, reported, err = job.end()
        assert status == 0, err
        assert reported == [{"kinds": ["hung"], "workers": [1], "steps": 300, "same": True}]
    assert inspect(tmp_path / "run").state == "finished"
