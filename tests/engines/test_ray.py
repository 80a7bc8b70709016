"""The Ray engine on real Ray clusters on this machine: promises, kills of everything that can be killed, refusals."""

import json
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import ray
from ray._private.authentication_test_utils import reset_auth_token_state
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad.cli import app
from stalegrad.engines import Ray
from stalegrad.engines.desk import Point
from stalegrad.engines.ray import security, watching
from stalegrad.engines.ray.connection import on_loopback
from stalegrad.engines.ray.packing import pack_point, unpack_point
from stalegrad.potentials import Potential
from stalegrad.testing import KERNELS, check_engine, check_replay, small_model

pytestmark = pytest.mark.cluster

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)
TOKEN = secrets.token_hex(32)


@pytest.fixture(scope="module")
def nodes():
    """A cluster that listens on the loopback alone and asks for a token; this process is connected to it."""
    folder = Path(tempfile.mkdtemp(prefix="sg-"))  # a short name: Ray's sockets are in it
    (folder / "token").write_text(TOKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(folder / "token"))
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_worker_niceness", "0")  # else whatever runs beside these tests comes first
        patch.delenv("RAY_ADDRESS", raising=False)
        reset_auth_token_state()  # Ray has read the variables when it was imported
        made = Cluster()
        try:
            made.add_node(num_cpus=4, _system_config=SYSTEM, **NODE)
            with on_loopback():
                ray.init(address=made.address, logging_level=logging.ERROR, log_to_driver=False)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


SYSTEM = {
    "health_check_period_ms": 500,
    "idle_worker_killing_time_threshold_ms": 60_000,  # processes that wait for work are kept for the next test
    "num_workers_soft_limit": 16,
}
NODE = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20, "include_dashboard": False}


class Slow(Potential):
    """:func:`small_model` that takes 20 ms a gradient until told to hurry, and tells which processes compute."""

    def __init__(self, folder):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._folder, self._told = model, folder, os.getpid()

    def gradient(self, theta, indices):
        if self._told != os.getpid():
            node = ray.get_runtime_context().get_node_id()
            (self._folder / f"{os.getpid()}").write_text(node)
            self._told = os.getpid()
        if not (self._folder / "hurry").exists():
            time.sleep(0.02)
        return self._model.gradient(theta, indices)


class Stage:
    """A script in this thread, where nodes can be added and removed, and a run beside it in another."""

    def __init__(self, folder):
        self.folder = folder / "stage"
        self.folder.mkdir()

    def play(self, script, engine, *, steps=1200, workers=2, **options):
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
        return {int(file.name): file.read_text() for file in self.folder.iterdir() if file.name != "hurry"}

    def wait_for(self, condition, seconds=60.0):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(0.05)
        return found


@pytest.fixture
def stage(nodes, tmp_path):
    return Stage(tmp_path)


def assert_sound(run, steps=1200):
    """Complete, nothing applied twice, and a replay gives the same bits."""
    for chain in run.trace.chains:
        assert chain.steps == steps
        assert chain.applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, np.asarray(run.draws))


def server_processes(log, chain=0):
    """The processes that have served a chain, in order, as far as the run has told."""
    found = (re.search(rf"server of chain {chain} is process (\d+)", record.getMessage()) for record in log.records)
    return [int(match[1]) for match in found if match]


# ------------------------------------------------------------------------------------------------------- promises


def test_keeps_every_promise(nodes):
    check_engine(Ray(cpus_per_worker=0.5), servers=())  # but for replays, which come below
    assert ray.is_initialized()  # the user's own connection is left alone


@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (1, 2), (1, 4), (3, 1), (3, 2), (3, 4)])
def test_real_runs_replay_bit_for_bit(servers, workers, nodes):
    engine = Ray(gradients_per_call=(None, 1, 3)[(servers + workers) % 3], cpus_per_worker=0.25)
    run = check_replay(engine, KERNELS[workers % len(KERNELS)], servers=servers, workers=workers, steps=200)
    assert run.timing.count >= 200 * servers
    assert run.events == ()


@pytest.mark.parametrize(
    "architecture", [sg.VisitingShards((20, 12, 8), lengths=(4, 3, 2)), sg.Consensus((25, 15))],
    ids=lambda architecture: type(architecture).__name__,
)  # fmt: skip
def test_chains_with_shards_of_their_own_replay_bit_for_bit(architecture, nodes):
    """Other architectures are among the promises."""
    engine = Ray(cpus_per_worker=0.5)
    settings = {"steps": 80, "servers": 2, "seed": 4, "progress": False}
    run = sg.sample(small_model(), KERNEL, engine=engine, architecture=architecture, **settings)
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)


def test_large_points_leave_nothing_in_the_object_store(nodes):
    """Points and gradients of 0.8 MB pass through a store of 80 MB: what is not freed must be written to disk."""
    model = sg.potentials.from_loader(many_parameters, 100_000)
    run = sg.sample(model, sg.SGLD(step_size=1e-6), steps=250, workers=3, thin=50, engine=Ray(), progress=False)
    np.testing.assert_array_equal(sg.replay(run.trace, model, sg.SGLD(step_size=1e-6)).draws, run.draws)
    logs = "".join(file.read_text() for file in Path(nodes.head_node.get_logs_dir_path()).glob("raylet*.out"))
    assert "node_manager" in logs
    assert "Spilled" not in logs
    deadline = time.monotonic() + 20  # references that a server has borrowed are counted a moment longer
    while (held := ray._private.worker.global_worker.core_worker.get_all_reference_counts()) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert held == {}


@pytest.mark.slow
def test_memory_is_flat_over_a_hundred_thousand_updates(nodes, caplog, tmp_path):
    """One point or gradient of 4 kB that is kept at every update would be 300 MB from a fifth of the run on."""
    caplog.set_level(logging.INFO, "stalegrad")
    model = sg.potentials.from_gradient(partial(tell_and_zero, tmp_path), 500, n_data=2, batch_size=1, dtype=np.float64)
    engine = Ray(gradients_per_call=16)
    with ThreadPoolExecutor(1) as beside:
        run = beside.submit(
            sg.sample,
            model,
            sg.SGLD(step_size=1e-6),
            steps=100_000,
            workers=2,
            thin=1000,
            engine=engine,
            progress=False,
        )
        sizes = []
        while not run.done():
            time.sleep(0.1)
            if server := server_processes(caplog):
                sizes.append([own_bytes(process) for process in (os.getpid(), server[0], *os.listdir(tmp_path))])
    assert run.result().trace.chains[0].steps == 100_000
    sizes = [together for together in sizes if len(together) == 4]  # of the run itself, the server and both workers
    assert len(sizes) > 20, "it was over before it could be watched"
    early, late = sizes[len(sizes) // 5], sizes[-len(sizes) // 20]
    assert all(b - a < 30 << 20 for a, b in zip(early, late, strict=True)), (early, late)


def own_bytes(process):
    """A process's memory without what it shares, such as the object store, which has its own bound."""
    try:
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        found = None
    return 1024 * int(found[1]) if found else 0  # it has ended


def tell_and_zero(folder, theta, indices, told=[]):  # noqa: B006  told in this process
    if not told:
        told.append((folder / f"{os.getpid()}").touch())
    return np.zeros_like(theta)


def many_parameters(size):
    return sg.potentials.from_gradient(times_ten, size, n_data=2, batch_size=1, dtype=np.float64)


def times_ten(theta, indices):
    return 10.0 * theta + indices[0]


def test_a_job_file_runs_on_a_cluster_at_an_address(nodes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(
        'model = "stalegrad.examples:gaussian"\nsteps = 40\nworkers = 2\nkernel = {name = "SGLD", step_size = 1e-4}\n'
    )
    command = ["run", "job.toml", "--engine", "ray", "--address", nodes.address, "--no-progress"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    run = sg.load("runs/job")
    assert run.trace.chains[0].steps == 40
    assert sg.store.inspect("runs/job").sessions[-1]["engine"] == "Ray"


def test_points_of_several_readers_are_stored_once(nodes):
    one = Point(0, np.zeros((1, 50_000)), {0})
    assert pack_point(one) is one.values
    two = Point(0, np.zeros((1, 50_000)), {0, 1})
    reference = pack_point(two)
    assert isinstance(reference, ray.ObjectRef)
    assert pack_point(two) is reference
    np.testing.assert_array_equal(unpack_point(reference, 10.0), two.values)
    small = Point(0, np.zeros((1, 5)), {0, 1})
    assert pack_point(small) is small.values


# ---------------------------------------------------------------------------------------------------------- kills


def test_six_kills_of_workers(stage):
    killed = []

    def script(stage):
        for _ in range(6):
            pid = stage.wait_for(lambda: sorted(stage.computing().keys() - set(killed)))[-1]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        stage.wait_for(lambda: len(stage.computing()) >= 8)  # all six were replaced

    run = stage.play(script, Ray(gradients_per_call=8, restarts=6))
    assert len(set(killed)) == 6
    assert [event.kind for event in run.events] == ["died"] * 6
    assert all(event.worker in (0, 1) for event in run.events)
    assert all("WorkerCrashedError" in event.details for event in run.events)
    assert_sound(run)


def test_kills_of_the_server(stage, caplog, tmp_path):
    """With a store; that a server goes on without one, too, is shown by the death of its node, below."""
    caplog.set_level(logging.INFO, "stalegrad")
    store = tmp_path / "run"

    def script(stage):
        for kill in range(2):
            pid = stage.wait_for(lambda kill=kill: server_processes(caplog)[kill:])[0]
            known = sg.store.inspect(store).updates[0]
            stage.wait_for(lambda known=known: sg.store.inspect(store).updates[0] > known + 10)
            os.kill(pid, signal.SIGKILL)
        stage.wait_for(lambda: len(server_processes(caplog)) == 3)

    run = stage.play(script, Ray(gradients_per_call=8), store=store, checkpoint_every=0.5)
    assert [(event.kind, event.worker) for event in run.events] == [("died", None), ("died", None)]
    assert_sound(run)
    (chain,) = run.trace.chains
    first, second = (event.time for event in run.events)
    assert (chain.time < first).sum() > 10  # what was done before a kill counts
    assert ((chain.time > first) & (chain.time < second)).sum() > 10
    again = sg.load(store)
    np.testing.assert_array_equal(np.asarray(again.draws), np.asarray(run.draws))
    assert len(again.events) == 2
    assert not any(TOKEN.encode() in file.read_bytes() for file in store.rglob("*") if file.is_file())
    assert TOKEN not in caplog.text


def test_stopped_processes_count_as_cut_off(stage, caplog):
    """SIGSTOP, first of a worker, then of the server: no connection breaks, and nobody says anything any more."""
    caplog.set_level(logging.INFO, "stalegrad")

    def script(stage):
        first = stage.wait_for(lambda: sorted(stage.computing()) if len(stage.computing()) == 2 else None)
        os.kill(first[0], signal.SIGSTOP)
        stage.wait_for(lambda: "no sign of life" in caplog.text and len(stage.computing()) == 3)
        os.kill(server_processes(caplog)[0], signal.SIGSTOP)
        stage.wait_for(lambda: len(server_processes(caplog)) == 2)

    run = stage.play(script, Ray(gradients_per_call=8, heartbeat=0.5, timeout=3.0))
    assert [(event.kind, event.worker is None) for event in run.events] == [("died", False), ("died", True)]
    assert "no sign of life for 3." in run.events[0].details
    assert "no answer for 3 s" in run.events[1].details
    assert_sound(run)


def test_nodes_come_and_go(stage, nodes, caplog, monkeypatch):
    """A node with a worker dies; then one with the server and the other worker. Each time another node comes."""
    caplog.set_level(logging.INFO, "stalegrad")
    monkeypatch.setattr(watching, "_WAIT", 1.0)
    there = [nodes.add_node(num_cpus=1, resources=own, **NODE) for own in ({"pool": 1}, {"pool": 1, "stable": 1})]

    def script(stage):
        stage.wait_for(lambda: len(stage.computing()) == 2)
        assert len(set(stage.computing().values())) == 2  # spread
        caplog.clear()
        nodes.remove_node(there.pop(0), allow_graceful=False)
        stage.wait_for(lambda: "1 of 2 workers have not started: the cluster may be full" in caplog.text)
        assert len(stage.computing()) == 2  # no room, no replacement, and no fault
        there.append(nodes.add_node(num_cpus=2, resources={"pool": 2, "stable": 1}, **NODE))
        stage.wait_for(lambda: len(stage.computing()) == 3)
        nodes.remove_node(there.pop(0), allow_graceful=False)
        stage.wait_for(lambda: server_processes(caplog))
        stage.wait_for(lambda: len(stage.computing()) == 4)

    try:
        run = stage.play(script, Ray(gradients_per_call=8, resources={"pool": 1}, server_resources={"stable": 1}))
    finally:
        for node in there:
            nodes.remove_node(node)
    worker, server = run.events
    assert (worker.kind, worker.worker in (0, 1)) == ("died", True)
    assert (server.kind, server.worker) == ("died", None)
    assert_sound(run)
    assert (run.trace.chains[0].time < server.time).sum() > 10  # what the first server did counts, without any store


# ------------------------------------------------------------------------------------------------------- refusals


def test_a_cluster_with_a_token_is_closed_to_those_who_have_none(nodes):
    assert security.knock(nodes.address) == "closed"


@pytest.fixture
def open_cluster(tmp_path):
    """The one process of a cluster that everybody talks to first, started without a token."""
    program = Path(ray.__file__).parent / "core/src/ray/gcs/gcs_server"
    with socket_on_loopback() as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, f"--log_dir={tmp_path}", f"--gcs_server_port={port}", "--node-ip-address=127.0.0.1",
         "--session-name=open", "--config_list=e30="],
        env={**os.environ, "RAY_AUTH_MODE": "disabled"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def socket_on_loopback():
    import socket

    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


def test_an_open_cluster_is_found_out(open_cluster, monkeypatch):
    """With the loopback taken for the network: what is refused must not depend on what this process believes."""
    assert security.knock(open_cluster) == "open"
    monkeypatch.setattr(security, "is_loopback", lambda address: False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(sg.ArgumentError, match=r"answers without a token\. .*Ray\(insecure=True\)"):
        security.refuse_open_cluster(open_cluster, insecure=False)
    security.refuse_open_cluster(open_cluster, insecure=True)


@pytest.mark.parametrize("mode", [None, "disabled"])
def test_nothing_is_sent_into_the_network_without_a_token(mode, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(security, "knock", lambda address: pytest.fail("something was sent"))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **settings: pytest.fail("something was sent"))
    for address in ("192.0.2.7:6379", "head.example.org:6379"):
        with pytest.raises(sg.ArgumentError, match=r"cluster in the network, and token authentication is off"):
            sg.sample(small_model(), KERNEL, steps=10, engine=Ray(address=address), progress=False)
    security.refuse_open_cluster("127.0.0.1:6379", insecure=False)
    with pytest.raises(sg.ArgumentError, match="Ray's client"):
        sg.sample(small_model(), KERNEL, steps=10, engine=Ray(address="ray://192.0.2.7:10001"), progress=False)


def test_a_cluster_that_cannot_be_asked_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(security, "knock", lambda address: "ImportError: no such thing")
    with pytest.raises(sg.ArgumentError, match=r"could not be shown to ask for a token \(ImportError"):
        security.refuse_open_cluster("192.0.2.8:6379", insecure=False)


def test_another_cluster_than_the_one_connected_to_is_refused(nodes):
    with pytest.raises(sg.ArgumentError, match="is not the cluster that this process is connected to"):
        sg.sample(small_model(), KERNEL, steps=10, engine=Ray(address="127.0.0.1:1"), progress=False)


@pytest.mark.parametrize(
    "settings",
    [
        {"address": ""}, {"address": 6379}, {"cpus_per_worker": -1}, {"gpus_per_worker": "two"}, {"resources": [1]},
        {"resources": {"x": -1}}, {"server_resources": 3}, {"gradients_per_call": 0}, {"heartbeat": 0.0},
        {"timeout": 1.0}, {"patience": 0}, {"restarts": -1},
    ],
    ids=str,
)  # fmt: skip
def test_settings_are_checked(settings):
    with pytest.raises(sg.ArgumentError):
        Ray(**settings)


def test_without_ray_the_error_says_what_to_install(fresh_python):
    code = """
import sys
sys.modules["ray"] = None
import stalegrad as sg
from stalegrad.testing import small_model
try:
    sg.sample(small_model(), sg.SGLD(step_size=0.001), steps=10, engine="ray", progress=False)
except sg.MissingExtra as error:
    print(error)
"""
    done = fresh_python("-c", code)
    assert done.stdout == "engine='ray' needs an optional dependency: pip install 'stalegrad[ray]'\n", done.stderr


# ------------------------------------------------------------------------------------------------ a Ray of its own


SCRIPT = textwrap.dedent("""
    import json, os, signal, sys, threading, time
    from pathlib import Path
    import numpy as np
    import stalegrad as sg
    from stalegrad.testing import FaultyModel, small_model
    import ray

    folder = Path(sys.argv[1])
    kernel = sg.SGLD(step_size=0.002)
    seen = {}

    def interrupt():
        while not (folder / "calls").exists() or (folder / "calls").stat().st_size < 300:
            time.sleep(0.05)
        seen["address"] = ray.get_runtime_context().gcs_address
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt).start()
    model = FaultyModel(folder / "calls", {}, seconds=0.002)
    before = signal.getsignal(signal.SIGTERM)
    run = sg.sample(model, kernel, steps=10**6, thin=10, workers=2, engine="ray", progress=False)
    again = sg.replay(run.trace, small_model(), kernel)
    seen["interrupted"] = run.interrupted
    seen["steps"] = run.trace.chains[0].steps
    seen["same"] = bool(np.array_equal(run.draws, again.draws))
    seen["handler"] = signal.getsignal(signal.SIGTERM) == before
    seen["connected"] = ray.is_initialized()
    print(json.dumps(seen))
""")


def test_a_ray_of_its_own_listens_to_nobody_and_leaves_nothing(tmp_path):
    """The default: Ray is started for the run on the loopback, with a token; SIGTERM ends both with what there is."""
    home, scratch = tmp_path / "home", Path(tempfile.mkdtemp(prefix="sg-"))
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    shared = Path("/dev/shm")
    before = set(os.listdir(shared)) if shared.exists() else set()
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path)],
            env={**kept, "HOME": str(home), "TMPDIR": str(scratch)},
            capture_output=True, text=True, timeout=300, start_new_session=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        assert told.pop("address").startswith("127.0.0.1:")
        assert told.pop("steps") > 100
        assert told == {"interrupted": True, "same": True, "handler": True, "connected": False}
        assert list(home.iterdir()) == []  # no token was left there
        assert list(scratch.iterdir()) == []
        if shared.exists():
            assert not any("plasma" in name or "ray" in name for name in set(os.listdir(shared)) - before)
        assert processes_with(str(scratch)) == []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def processes_with(text):
    """The processes that have a text among their arguments."""
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc/self/cmdline").exists() else ():
        try:
            if entry.name.isdigit() and text in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
