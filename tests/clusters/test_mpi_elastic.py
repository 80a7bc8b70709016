"""Workers of the MPI engine that are jobs of their own: killed with -9, replaced, cut off; on one host and on two."""

import json
import signal
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.store import inspect

from .mpi_jobs import Ranks, mpi
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
        self.server.until((self._ports / "server-0.json").exists, "the server's door")
        return self

    def __exit__(self, *_):
        for job in (self.server, *self.workers):
            if not job.process.stdout.closed:  # else its end was waited for
                job.kill()

    def join(self, count, host=0, card=None):
        """Have workers join, and wait until they work."""
        free = self._free()
        joined = [self._start(host, card, STALEGRAD_JOIN=str(self._ports)) for _ in range(count)]
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
        status, told, err = self.server.end()
        assert status == 0, err
        return told[0]

    def _free(self):
        return json.loads((self._ports / "server-0.json").read_text())["free"]

    def _start(self, host, card=None, **environment):
        prefix = ()
        if self._hosts is not None:
            prefix = self._hosts.command(host)
            environment |= {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": card or self._hosts.card}
        return Ranks(1, "elastic", self._folder, prefix, HEARTBEAT=self._heartbeat, **environment)


def assert_whole(told, deaths):
    """The run lost nothing by so many deaths: each was noticed, and its draws are those of its trace."""
    details = told.pop("details")
    assert len(details) == deaths
    assert all("no sign of life" in each for each in details)
    expected = told.pop("expected")
    assert expected > 0
    assert told == {"interrupted": True, "same": True, "draws": expected, "twice": 0, "kinds": ["died"] * deaths}


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
        status, told, err = worker.end()
        assert (status, told) == (0, []), err


def test_kill_9_of_the_server_ends_its_workers_and_leaves_a_valid_store(tmp_path):
    with Elastic(tmp_path, heartbeat=1.5) as run:
        (worker,) = run.join(1)
        run.server.until(lambda: min(inspect(run.store).updates) > 0, "a checkpoint")
        run.server.kill()
        status, told, err = worker.end()
        assert status != 0
        assert told == []
        assert "the server has given no sign of life" in err
    assert inspect(run.store).state == "killed"
    stored = sg.load(run.store)
    kernel = sg.SGHMC(step_size=0.02, friction=5.0)
    again = sg.resume(run.store, Wide(tmp_path / "more", 0.0), kernel, steps=stored.trace.chains[0].steps + 500,
                      engine="inline", progress=False)  # fmt: skip
    replayed = sg.replay(again.trace, Wide(tmp_path / "more", 0.0), kernel)
    np.testing.assert_array_equal(replayed.draws, again.draws)


def test_nobody_joins_where_no_server_is(tmp_path):
    status, told, err = mpi(1, "too_few", tmp_path, STALEGRAD_JOIN=str(tmp_path))
    assert status != 0
    assert told == []
    assert f"no server has its door open in {tmp_path}" in err


def test_an_mpi_that_cannot_do_it_is_refused_at_the_start(tmp_path):
    status, (unsafe, closed), err = mpi(1, "no_ports", tmp_path)
    assert status == 0, err
    assert "Start the job with MPIR_CVAR_CH4_NETMOD=ofi" in unsafe["error"]
    assert "opens no port to which workers could connect" in closed["error"]
    assert "Start the workers together with the servers, without elastic=..." in closed["error"]
    assert inspect(tmp_path / "ofi").state == "failed"


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
        status, told, err = far.end()
        assert status != 0
        assert told == []
        assert "the server has given no sign of life" in err
        run.join(1, host=0, card="lo")  # the cable is still cut
        assert_whole(run.end(), deaths=1)


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
        status, told, err = job.end()
        assert status == 0, err
        assert told == [{"kinds": ["hung"], "workers": [1], "steps": 300, "same": True}]
    assert inspect(tmp_path / "run").state == "finished"
