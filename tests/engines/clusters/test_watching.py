"""Looking on while MPI and Ray compute: the live page, observers, and the folder of a run from another process."""

import json
import os
import signal
import socket
import threading
import time
import urllib.request

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Ray
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.observers.stored import StoredSource
from stalegrad.runs.watch.access import Tokens

from .mpi_jobs import Ranks
from .ray_stage import assert_sound

MODULE = """
import time
from pathlib import Path
from stalegrad.potentials import Potential
from stalegrad.testing import small_model

class Slow(Potential):
    def __init__(self, folder):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self.model, self.hurry = model, Path(folder) / "hurry"

    def gradient(self, theta, indices):
        if not self.hurry.exists():
            time.sleep(0.02)
        return self.model.gradient(theta, indices)

def model(folder):
    return Slow(folder)
"""
JOB = """
steps = 3000
servers = 2
checkpoint_every = 0.5

[model]
function = "slow_model:model"

[model.arguments]
folder = "{folder}"

[kernel]
name = "SGHMC"
step_size = 0.02
friction = 5.0
"""


def state(port, token):
    """What the page is told, or nothing as long as it is not there."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/state", headers={"Authorization": f"Bearer {token}"}
    )  # fmt: skip
    try:
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)
    except OSError:
        return {}


@pytest.mark.usefixtures("compiled")
def test_on_mpi(tmp_path, monkeypatch):
    """The leading rank serves the page, with the figures of all chains; the folder shows the rows of all of them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "slow_model.py").write_text(MODULE)
    (tmp_path / "job.toml").write_text(JOB.format(folder=tmp_path))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["run", "job.toml", "--engine", "mpi", "--watch", "--port", port, "--observe", "json:run.jsonl"]
    ranks = Ranks(6, command, tmp_path)
    folder = tmp_path / "runs" / "job"
    seen = {}

    def both_chains():
        if not (folder / "run.json").exists():
            return False
        token = Tokens.make(control=True, of=folder).view
        seen["page"] = now = state(port, token)
        return bool(now.get("head")) and min(chain["updates"] for chain in now["head"]["chains"]) > 20

    def both_on_disk():
        seen["folder"] = StoredSource(folder)
        return min(chain.updates for chain in seen["folder"].chains()) > 20

    ranks.until(both_chains, "figures of both chains")
    ranks.until(both_on_disk, "rows of both chains on disk")
    page, snapshot = seen["page"], Sampler(seen["folder"]).look()
    (tmp_path / "hurry").touch()
    status, _, err = ranks.end()
    assert status == 0, err
    assert page["head"]["state"] == snapshot.state == "running"
    assert page["pictures"]["seen"] > 0
    assert page["recipe"]["record"]["engine"]["name"] == "mpi"
    assert page["rights"] == {"stop": False}
    assert snapshot.pictures.table()["seen"] == sum(chain.updates + chain.dropped for chain in snapshot.chains)
    assert {bar[0] for bar in snapshot.pictures.table()["bars"]} == {0, 1}

    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert lines[0]["what"] == "start"
    assert lines[-1] == {"what": "end", "state": "finished", "seconds": lines[-1]["seconds"]}
    last = [line for line in lines if line["what"] == "snapshot"][-1]
    assert [chain["updates"] for chain in last["chains"]] == [3000, 3000]
    assert {line["kind"] for line in lines if line["what"] == "event"} == {"start", "checkpoint", "end"}
    run = sg.load(folder)
    assert [chain.steps for chain in run.trace.chains] == [3000, 3000]


class Collector(sg.observers.Observer):
    """Keeps all that it is told."""

    every = 0.2

    def __init__(self):
        self.snapshots, self.events, self.last, self.threads = [], [], None, set()

    def snapshot(self, snapshot):
        self.threads.add(threading.current_thread().name)
        self.snapshots.append(snapshot)

    def event(self, happening):
        self.events.append(happening)

    def end(self, snapshot):
        self.last = snapshot


class Stuck(sg.observers.Observer):
    """Blocks for ever."""

    def snapshot(self, snapshot):
        time.sleep(1e6)


def test_on_ray(stage, tmp_path, capsys):
    """Two chains, whose servers are actors elsewhere; a worker is killed, and one observer never comes back."""
    collector, folder = Collector(), tmp_path / "run"
    seen = {}

    def script(stage):
        stage.wait_for(lambda: collector.snapshots and min(c.updates for c in collector.snapshots[-1].chains) > 20)
        pid = stage.wait_for(lambda: sorted(stage.computing()))[-1]
        os.kill(pid, signal.SIGKILL)
        stage.wait_for(lambda: any(event.kind == "fault" for event in collector.events))
        stage.wait_for(lambda: min(c.updates for c in StoredSource(folder).chains()) > 20)
        seen["folder"] = Sampler(StoredSource(folder)).look()

    options = {"observers": [collector, Stuck()], "watch": sg.Watch(port=0), "store": folder, "checkpoint_every": 0.5}
    run = stage.play(script, Ray(gradients_per_call=4, cpus_per_worker=0.5), servers=2, steps=1200, **options)
    assert_sound(run, steps=1200)
    assert seen["folder"].state == "running"
    assert {bar[0] for bar in seen["folder"].pictures.table()["bars"]} == {0, 1}
    assert collector.last.state == "finished"
    assert [chain.updates for chain in collector.last.chains] == [1200, 1200]
    assert next(event.kind for event in collector.events) == "start"
    assert [event.kind for event in collector.events][-1] == "end"
    (fault,) = [event for event in collector.events if event.kind == "fault"]
    assert "died" in fault.text
    assert "WorkerCrashedError" in fault.details
    assert any(event.kind == "checkpoint" for event in collector.events)
    assert np.all(np.diff([s.updates for s in collector.snapshots]) >= 0)
    assert collector.last.functions
    assert collector.last.evaluated > 0
    assert collector.threads == {"stalegrad-observer-Collector"}
    assert "watch this run at http://127.0.0.1:" in capsys.readouterr().err
