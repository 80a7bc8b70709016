"""Runs on disk: what is stored, what can be read while it goes on, and how runs go on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
import zarr

import stalegrad as sg
from stalegrad.runs.store import inspect
from stalegrad.runs.store.trace_columns import decode
from stalegrad.testing import KERNELS, FaultyModel, small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting")


def sample(store, **changes):
    settings = {"steps": 120, "servers": 2, "workers": 2, "engine": "inline", "progress": False, "seed": 3}
    return sg.sample(small_model(), KERNEL, store=store, **{**settings, **changes})


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
def test_what_is_stored_is_the_run(tmp_path, engine):
    run = sample(tmp_path / "x", engine=engine, burn_in=11, thin=4)
    again = sg.replay(run.trace, small_model(), KERNEL)
    loaded = sg.load(tmp_path / "x")
    for stored in (run, loaded):
        np.testing.assert_array_equal(stored.draws, again.draws)
        np.testing.assert_array_equal(stored.stats.gradient_norm, again.stats.gradient_norm)
        np.testing.assert_array_equal(stored.stats.kinetic_temperature, again.stats.kinetic_temperature)
        np.testing.assert_array_equal(stored.step_sizes, again.step_sizes)
        assert float(stored.estimate(np.sum).value) == float(again.estimate(np.sum).value)
        assert stored.store == tmp_path / "x"
    for ours, theirs in zip(run.trace.chains, loaded.trace.chains, strict=True):
        for name, column in ours.columns().items():
            np.testing.assert_array_equal(column, getattr(theirs, name), err_msg=name)


def test_the_inline_engine_stores_what_it_gives_without_a_store(tmp_path):
    stored, plain = sample(tmp_path / "x"), sample(None)
    np.testing.assert_array_equal(stored.draws, plain.draws)


def test_the_formats_are_open(tmp_path):
    run = sample(tmp_path / "x")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x/chain-1/draws", mode="r")[:], run.draws[1])
    trace = zarr.open_array(tmp_path / "x/chain-0/trace", mode="r")
    workers = trace[:, trace.attrs["columns"].index("worker")]
    np.testing.assert_array_equal(workers, run.trace.chains[0].worker)
    np.testing.assert_array_equal(decode(trace[:]).staleness, run.staleness[0])
    about = json.loads((tmp_path / "x/run.json").read_text())
    assert about["record"]["settings"]["steps"] == 120
    assert about["record"]["kernels"][0]["friction"] == 5.0
    with np.load(tmp_path / "x/chain-0/state-1.npz", allow_pickle=False) as state:
        np.testing.assert_array_equal(state["position"][0], run.draws[0, -1])


def test_stored_draws_are_sliced_like_an_array(tmp_path):
    draws = sample(tmp_path / "x").draws
    whole = np.asarray(draws)
    assert draws.shape == whole.shape == (2, 120, 5)
    assert (draws.ndim, draws.dtype, len(draws)) == (3, np.float32, 2)
    for key in [0, -1, slice(1), (0, 3), (1, -1), (0, slice(5, 90, 7)), (slice(None), slice(None, None, -3)), ...,
                (..., 2), (..., slice(-1, None), slice(None)), (1, [4, 2, 119]), (slice(None), slice(3), slice(1, 3)),
                (0, slice(50, 50))]:  # fmt: skip
        np.testing.assert_array_equal(draws[key], whole[key], err_msg=str(key))
    with pytest.raises(IndexError):
        draws[0, 120]


def test_a_run_goes_on_anywhere_and_replays_from_its_start(tmp_path):
    """With every kernel there is, a chain each."""
    kernels = [kernel.with_step_size(sg.schedules.Polynomial(0.01, 10.0, 0.3)) for kernel in KERNELS]
    model, store, servers = small_model(), tmp_path / "x", len(kernels)
    run = sg.sample(model, kernels, steps=50, servers=servers, workers=2, engine="inline", store=store, progress=False)
    for k, engine in enumerate(("threads", "inline", "processes")):
        more = sg.resume(store, model, kernels, engine=engine, workers=1 + 2 * k, steps=100 + 50 * k, progress=False)
        again = sg.replay(more.trace, model, kernels)
        for s, kernel in enumerate(kernels):
            np.testing.assert_array_equal(more.draws[s], again.draws[s], err_msg=str(kernel))
            np.testing.assert_array_equal(more.draws[s, : run.draws.shape[1]], run.draws[s], err_msg=str(kernel))
            assert more.trace.chains[s].applied_twice() == 0, kernel
            assert (np.diff(more.trace.chains[s].time) >= 0).all(), kernel
        run = more
    info = inspect(store)
    assert info.updates == [200] * servers
    assert info.state == "finished"
    assert [s["engine"]["name"] for s in info.sessions] == ["inline", "threads", "inline", "processes"]


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    run = sample(tmp_path / "x")
    again = sg.resume(tmp_path / "x", small_model(), KERNEL, progress=False)
    np.testing.assert_array_equal(run.draws, again.draws)


@pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_a_run_can_be_read_while_it_goes_on(tmp_path, engine):
    model, store = FaultyModel(tmp_path / "calls", {}, seconds=0.003), tmp_path / "x"
    seen = []

    def watch():
        while not (store / "run.json").exists():
            time.sleep(0.01)
        while (info := inspect(store)).state == "running":
            run = sg.load(store)
            seen.append((info.updates[0], len(run.chain_draws[0]), run.chain_draws[0][:].copy()))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    run = sg.sample(
        model, KERNEL, steps=400, workers=2, engine=engine, store=store, checkpoint_every=0.1, progress=False
    )
    watcher.join()
    assert len({updates for updates, _, _ in seen}) > 2
    for _, count, draws in seen:
        np.testing.assert_array_equal(draws, run.draws[0, :count])


_INTERRUPTED = """
import sys
from pathlib import Path
import stalegrad as sg
from stalegrad.runs.store.trace_columns import decode
from stalegrad.testing import FaultyModel
kernel = sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting")
for engine in sys.argv[2:]:
    folder = Path(sys.argv[1], engine)
    run = sg.sample(FaultyModel(folder / "calls", {}, seconds=0.002), kernel, steps=10**6, servers=2, workers=2,
                    engine=engine, store=folder / "x", progress=False)
    assert run.interrupted
    print(run.draws.shape[1], flush=True)
"""


def has_saved(store, updates):
    """Whether every chain has a checkpoint beyond so many updates: workers of one may come long before the other's."""
    return (store / "run.json").exists() and min(inspect(store).updates) > updates


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.long
def test_a_signal_leaves_a_checkpoint(tmp_path, kind):
    """One run after the other in one process: each signal ends one of them."""
    engines = ("inline", "threads", "processes")
    for engine in engines:
        (tmp_path / engine).mkdir()
    program = [sys.executable, "-c", _INTERRUPTED, tmp_path, *engines]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child, ExitStack() as whatever_happens:
        whatever_happens.callback(child.kill)
        for engine in engines:
            store = tmp_path / engine / "x"
            while not has_saved(store, 20):
                time.sleep(0.05)
                assert child.poll() is None, engine
            child.send_signal(kind)
            said = child.stdout.readline()
            info = inspect(store)
            assert info.state == "interrupted"
            assert min(info.draws) == int(said) > 20, engine
            model = small_as_faulty(tmp_path / engine)
            run = sg.resume(store, model, KERNEL, steps=max(info.updates) + 20, progress=False)
            assert inspect(store).sessions[-1]["engine"]["name"] == engine, "a run goes on where it was"
            np.testing.assert_array_equal(run.draws, sg.replay(run.trace, small_model(), KERNEL).draws)
        assert child.wait(timeout=60) == 0


def small_as_faulty(folder):
    return FaultyModel(folder / "calls", {})


def test_faults_of_workers_are_kept_over_sessions(tmp_path):
    store = tmp_path / "x"
    first = FaultyModel(tmp_path / "a", {20: "raise"})
    sg.sample(first, KERNEL, steps=60, workers=1, engine="threads", store=store, progress=False)
    second = FaultyModel(tmp_path / "b", {20: "nan"})
    run = sg.resume(store, second, KERNEL, steps=120, progress=False)
    assert [event.kind for event in run.events] == ["raised", "refused"]
    assert "injected fault" in sg.load(store).events[0].details


def test_a_run_that_fails_keeps_its_draws_and_goes_on(tmp_path):
    store = tmp_path / "x"
    faulty = FaultyModel(tmp_path / "a", dict.fromkeys(range(30, 10_000), "raise"))
    with pytest.raises(sg.RunFailed) as failure:
        sg.sample(faulty, KERNEL, steps=60, workers=2, engine="threads", store=store, progress=False)
    info = inspect(store)
    assert info.state == "failed"
    assert "injected fault" in info.failure
    assert len(failure.value.run.draws[0]) == info.draws[0] > 5
    run = sg.resume(store, small_as_faulty(tmp_path), KERNEL, progress=False)
    assert run.draws.shape == (1, 60, 5)
    assert os.path.exists(store / "chain-0/events.json")


@pytest.mark.long
def test_memory_does_not_grow_with_the_draws(tmp_path):
    """Sixteen times the draws of a large model in the same memory."""
    program = """
import pathlib, resource, sys
import numpy as np, stalegrad as sg
n = 100_000
model = sg.potentials.from_gradient(lambda theta, batch: theta, n, n_data=10)
for steps in (20, 320):
    store = pathlib.Path(sys.argv[1], str(steps))
    sg.sample(model, sg.SGLD(step_size=0.1), steps=steps, engine="inline", store=store, progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    peaks = [int(line) / 1024 for line in done.stdout.split()]
    draw = 100_000 * 4 / 2**20
    assert peaks[1] - peaks[0] < 20 * draw, f"{peaks} MB; a draw is {draw:.2f} MB, and 300 more were made"
