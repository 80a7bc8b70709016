"""The Ray engine on a real Ray cluster on this machine: its promises, replays, memory."""

import logging
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import ray
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad.cli import app
from stalegrad.engines import Ray
from stalegrad.engines.ray.call_link import Point
from stalegrad.engines.ray.packing import pack_point, unpack_point
from stalegrad.testing import KERNELS, check_engine, check_replay, small_model

from .ray_stage import KERNEL, server_processes


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


def test_memory_is_flat_over_a_hundred_thousand_updates(nodes, caplog, tmp_path):
    """One point or gradient of 4 kB that is kept at every update would be 300 MB from a fifth of the run on."""
    caplog.set_level(logging.INFO, "stalegrad")
    model = sg.potentials.from_gradient(
        partial(record_and_zero, tmp_path), 500, n_data=2, batch_size=1, dtype=np.float64
    )
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


def record_and_zero(folder, theta, indices, reported=[]):  # noqa: B006  reported in this process
    if not reported:
        reported.append((folder / f"{os.getpid()}").touch())
    return np.zeros_like(theta)


def many_parameters(size):
    return sg.potentials.from_gradient(times_ten, size, n_data=2, batch_size=1, dtype=np.float64)


def times_ten(theta, indices):
    return 10.0 * theta + indices[0]


def test_a_job_file_runs_on_a_cluster_at_an_address(nodes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(
        'model = "stalegrad.datasets.models:gaussian"\nsteps = 40\nworkers = 2\n'
        'kernel = {name = "SGLD", step_size = 1e-4}\n'
    )
    command = ["run", "job.toml", "--engine", "ray", "--address", nodes.address, "--no-progress"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    run = sg.load("runs/job")
    assert run.trace.chains[0].steps == 40
    assert sg.store.inspect("runs/job").sessions[-1]["engine"]["name"] == "ray"


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
