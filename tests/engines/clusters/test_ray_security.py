"""Which Ray clusters are used and which refused, and what a Ray of our own leaves behind: nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

import stalegrad as sg
from stalegrad.engines import Ray
from stalegrad.engines.ray import connection, security
from stalegrad.testing import small_model

from .ray_stage import KERNEL


def test_a_cluster_with_a_token_is_closed_to_those_who_have_none(nodes):
    assert security.probe(nodes.address) == "closed"


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
    assert security.probe(open_cluster) == "open"
    monkeypatch.setattr(security, "is_loopback", lambda address: False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(sg.ArgumentError, match=r"answers without a token\. .*Ray\(insecure=True\)"):
        security.refuse_open_cluster(open_cluster, insecure=False)
    security.refuse_open_cluster(open_cluster, insecure=True)


def test_the_check_executes_nothing_that_lies_in_the_current_folder(open_cluster, tmp_path, monkeypatch):
    for name in ("ray", "cloudpickle", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert security.probe(open_cluster) == "open"
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("address", [None, "auto", "10.1.2.3:6379"])
@pytest.mark.parametrize("before", [True, False], ids=["connected before", "connected here"])
def test_an_open_cluster_is_refused_once_this_process_is_connected_to_it(address, before, monkeypatch):
    """The name ``auto``, and a connection that was there before, say nothing of where the cluster is: it is asked."""
    if before and address is not None and address != "auto":
        address = "192.0.2.9:6379"  # what this process is connected to
    joined, left = [], []
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    if address is None and not before:
        monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setattr(ray, "is_initialized", lambda: before)
    monkeypatch.setattr(ray, "init", lambda **settings: joined.append(settings["address"]))
    monkeypatch.setattr(ray, "shutdown", lambda: left.append(True))
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="192.0.2.9:6379"))
    monkeypatch.setattr(connection, "_answers", lambda *_: True)
    monkeypatch.setattr(security, "_probed", lambda asked: "open" if asked == "192.0.2.9:6379" else "closed")
    with pytest.raises(sg.ArgumentError, match=r"192\.0\.2\.9:6379'.*answers without a token"):
        sg.sample(small_model(), KERNEL, steps=10, engine=Ray(address=address), progress=False)
    assert len(joined) == len(left) == (not before)  # and left again
    with connection.connected(Ray(address=address, insecure=True), None):
        pass  # if the user says so


@pytest.mark.parametrize("mode", [None, "disabled"])
def test_nothing_is_sent_into_the_network_without_a_token(mode, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(security, "probe", lambda address: pytest.fail("something was sent"))
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
    monkeypatch.setattr(security, "probe", lambda address: "ImportError: no such thing")
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


@pytest.mark.parametrize("name", [".", "a-folder-whose-name-leaves-no-room-for-the-names-of-sockets"])
def test_a_ray_of_its_own_listens_to_nobody_and_leaves_nothing(tmp_path, name):
    """The default: Ray is started for the run on the loopback, with a token; SIGTERM ends both with what there is.

    Also where TMPDIR is so long that Ray's sockets could not have a name in it.
    """
    home, made = tmp_path / "home", Path(tempfile.mkdtemp(prefix="sg-"))
    scratch = made / name
    home.mkdir()
    scratch.mkdir(exist_ok=True)
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
        reported = json.loads(done.stdout.splitlines()[-1])
        assert reported.pop("address").startswith("127.0.0.1:")
        assert reported.pop("steps") > 100
        assert reported == {"interrupted": True, "same": True, "handler": True, "connected": False}
        assert list(home.iterdir()) == []  # no token was left there
        assert list(scratch.iterdir()) == []
        if shared.exists():
            assert not any("plasma" in name or "ray" in name for name in set(os.listdir(shared)) - before)
        assert processes_with(str(scratch)) == []
    finally:
        shutil.rmtree(made, ignore_errors=True)


def test_where_no_short_name_is_to_be_had_the_error_says_what_to_set(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    made = Path(connection._session_folder())
    assert made.parent == Path("/tmp")
    made.rmdir()
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(PermissionError("no")))
    with pytest.raises(sg.StalegradError, match=r"at most 28 bytes.*xxx has \d+, and /tmp.*Set TMPDIR to a folder"):
        connection._session_folder()


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
