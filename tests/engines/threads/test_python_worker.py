"""Workers in Python that update the chain themselves: faults, hangs, epochs and everything else as with a server."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Threads
from stalegrad.engines.lifecycle import Lifecycle
from stalegrad.engines.threads import compiled_server
from stalegrad.potentials.wrappers import svrg
from stalegrad.testing import FaultyModel, check_engine, small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGLD(step_size=0.002)


@pytest.fixture(autouse=True)
def in_python(monkeypatch, in_compiled_loops):
    """Short runs of models in Python share their chain, too."""
    monkeypatch.setattr(compiled_server, "WORTH_COMPILING_FOR_PYTHON", 1)
    return in_compiled_loops


@pytest.fixture
def patience_ends(monkeypatch):
    """Once it is set, who computes next counts as late, and only he: how fast this machine is has no part in it."""
    ends = threading.Event()

    def allowed(lifecycle, worker):
        if not ends.is_set():
            return math.inf
        ends.clear()
        return -1.0

    monkeypatch.setattr(Lifecycle, "_allowed", allowed)
    return ends


def model(tmp_path, faults=None, seconds=0.0):
    return FaultyModel(tmp_path / "calls", faults or {}, seconds)


def sampled(potential, kernel=KERNEL, *, steps=200, engine=None, **settings):
    settings = {"workers": 3, "seed": 3, "progress": False} | settings
    return sg.sample(potential, kernel, steps=steps, engine=engine or Threads(), **settings)


def assert_replays(run, potential=None):
    for chain in run.trace.chains:
        assert chain.applied_twice() == 0
    again = sg.replay(run.trace, potential or small_model(), KERNEL)
    np.testing.assert_array_equal(again.draws, run.draws)


@pytest.mark.parametrize(("policy", "bound"), [("drop", None), ("drop", 1), ("wait", 3)])
def test_runs_replay_to_the_bit(in_python, tmp_path, policy, bound):
    run = sampled(model(tmp_path), workers=5, servers=2, burn_in=20, thin=3, policy=policy, max_staleness=bound)
    assert len(in_python) == 2
    assert run.draws.shape == (2, 60, 5)
    assert_replays(run)
    rows = sum(len(chain) for chain in run.trace.chains)
    assert run.timing.count == rows
    assert run.timing.gradients > 0
    assert bound is None or max(chain.updates().staleness.max() for chain in run.trace.chains) <= bound


def test_a_worker_that_raises_is_replaced(in_python, tmp_path, caplog):
    run = sampled(model(tmp_path, {10: "raise", 50: "raise"}))
    assert in_python
    assert [event.kind for event in run.events] == ["raised", "raised"]
    assert "injected fault" in run.events[0].details
    assert len(caplog.records) == 2
    assert_replays(run)


def test_gradients_that_are_not_finite_are_refused(in_python, tmp_path):
    run = sampled(model(tmp_path, {10: "nan", 11: "nan"}))
    assert [event.kind for event in run.events] == ["refused", "refused"]
    assert "5 of 5 entries of the gradient are NaN or infinite" in run.events[0].details
    assert run.timing.count == len(run.trace.chains[0]) + 2
    assert_replays(run)


@pytest.mark.long
def test_a_hung_worker_is_left_behind_and_another_takes_its_place(in_python, tmp_path):
    run = sampled(model(tmp_path, {20: "hang"}, 1e-3), engine=Threads(patience=0.5), steps=1500, workers=2)
    assert in_python
    assert {event.kind for event in run.events} == {"hung"}
    assert set(run.trace.chains[0].worker[-100:].tolist()) == {0, 1}
    assert_replays(run)


def test_what_a_hung_worker_brings_after_all_is_not_used(in_python, patience_ends):
    """It comes back while its replacement computes: nothing of it counts, and its thread ends."""
    comes_back, came_back = threading.Event(), threading.Event()
    hung: list[threading.Thread] = []

    class Sleeps(sg.potentials.Potential):
        def __init__(self):
            inner = small_model()
            super().__init__(inner.size, inner.minibatches, inner.dtype)
            self._inner, self._calls = inner, 0

        def gradient(self, theta, indices):
            self._calls += 1
            if self._calls == 5:
                hung.append(threading.current_thread())
                patience_ends.set()
                assert comes_back.wait(60)
                came_back.set()
            elif self._calls == 40:  # by the replacement: nobody else is there
                comes_back.set()
                assert came_back.wait(60)
            return self._inner.gradient(theta, indices)

    run = sampled(Sleeps(), engine=Threads(patience=1.0), workers=1, steps=400)
    assert [event.kind for event in run.events] == ["hung"]
    assert run.trace.chains[0].steps == 400
    hung[0].join(20)
    assert not hung[0].is_alive()
    assert_replays(run)


def test_a_hung_worker_cannot_change_the_point_of_its_replacement(in_python, patience_ends):
    """It comes back while its replacement computes, and writes into what it was handed, as no gradient ought to."""
    comes_back, came_back = threading.Event(), threading.Event()
    hung: list[threading.Thread] = []

    class Scribbles(sg.potentials.Potential):
        def __init__(self):
            inner = small_model()
            super().__init__(inner.size, inner.minibatches, inner.dtype)
            self._inner, self._calls = inner, 0

        def gradient(self, theta, indices):
            self._calls += 1
            if self._calls == 5:
                hung.append(threading.current_thread())
                patience_ends.set()
                assert comes_back.wait(60)
                theta[...] = 1e6
                came_back.set()
            elif hung and not comes_back.is_set():
                comes_back.set()  # by the replacement: nobody else is there
                assert came_back.wait(60)
            return self._inner.gradient(theta, indices)

    run = sampled(Scribbles(), engine=Threads(patience=1.0), workers=1, steps=400)
    assert [event.kind for event in run.events] == ["hung"]
    assert_replays(run)


def test_workers_that_always_fail_end_the_run(in_python, tmp_path):
    always = model(tmp_path, dict.fromkeys(range(1, 100), "raise"))
    with pytest.raises(sg.RunFailed, match=r"all workers of chain 0 were given up after failing 3 times in a row"):
        sampled(always, engine=Threads(restarts=2))
    assert in_python


@pytest.mark.long
def test_an_interrupt_keeps_what_was_made(in_python, tmp_path):
    def interrupt():
        while not in_python or in_python[0].chain.version < 100:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    run = sampled(model(tmp_path, seconds=1e-4), steps=10**6, thin=10)
    assert run.interrupted
    assert run.trace.chains[0].steps >= 100
    assert_replays(run)


@pytest.mark.long
def test_a_store_and_a_run_that_goes_on(in_python, monkeypatch, tmp_path):
    monkeypatch.setattr(compiled_server, "_POLL", 0.001)
    sampled(model(tmp_path), steps=300, store=tmp_path / "run", checkpoint_every=0.001)
    run = sg.resume(tmp_path / "run", model(tmp_path), steps=500, engine=Threads(), progress=False)
    assert len(in_python) == 2
    assert run.draws.shape == (1, 500, 5)
    assert_replays(run)


def test_epochs_begin_where_those_of_a_server_would(in_python):
    """What a worker remembers of the first answer of an epoch goes into the others: a model with copies of itself."""
    reduced = svrg(small_model(), refresh=7)
    run = sampled(reduced, workers=4)
    assert in_python
    assert_replays(run, svrg(small_model(), refresh=7))


@pytest.mark.long
def test_keeps_every_promise(in_python, monkeypatch):
    """With 64 threads on whatever cores there are; the model is compiled, but these workers call it from Python."""
    monkeypatch.setattr(compiled_server, "compiles", lambda *of: False)
    check_engine(Threads(), workers=(1, 4, 64))
    assert len(in_python) >= 15
