"""Workers that update the chain themselves: nothing is lost or made twice, and every run replays to the bit.

The replay is the executor's, update by update in Python, so that the two have nothing in common but the formulas.
"""

import os
import signal
import threading
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Threads, segment
from stalegrad.engines.threads import compiled_server
from stalegrad.potentials import GaussianMean
from stalegrad.testing import FaultyModel, small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGLD(step_size=0.002)


def sampled(model=None, kernel=KERNEL, *, steps=3000, engine=None, **settings):
    settings = {"workers": 4, "seed": 3, "progress": False} | settings
    return sg.sample(model or small_model(), kernel, steps=steps, engine=engine or Threads(), **settings)


def assert_sound(run, model=None, kernel=KERNEL, steps=3000):
    """Every update is there once, in its order, and the trace replays to the bit."""
    for chain in run.trace.chains:
        assert chain.steps == steps
        assert chain.applied_twice() == 0
        assert (np.diff(chain.time) >= 0).all()
        for worker in np.unique(chain.worker):  # each worker's minibatches come in their order, from versions in theirs
            mine = chain.worker == worker
            assert (np.diff(chain.count[mine]) > 0).all()
            assert (np.diff((chain.version - chain.staleness)[mine]) >= 0).all()
    again = sg.replay(run.trace, model or small_model(), kernel)
    np.testing.assert_array_equal(again.draws, run.draws)
    np.testing.assert_array_equal(again.stats.gradient_norm, run.stats.gradient_norm)


@pytest.mark.parametrize("workers", [1, 2, 64])
def test_no_update_is_lost_or_made_twice(in_compiled_loops, workers):
    run = sampled(workers=workers, steps=20_000, thin=10)
    assert len(in_compiled_loops) == 1
    assert_sound(run, steps=20_000)
    assert run.timing.count == 20_000
    assert run.timing.gradients > 0
    assert run.timing.updates > 0
    assert run.events == ()


def test_several_servers_burn_in_and_thinning(in_compiled_loops):
    run = sampled(servers=3, workers=3, burn_in=100, thin=7)
    assert len(in_compiled_loops) == 3
    assert run.draws.shape == (3, (3000 - 100) // 7, 5)
    assert_sound(run)


@pytest.mark.parametrize(("policy", "bound"), [("drop", 0), ("drop", 2), ("wait", 0), ("wait", 3)])
def test_the_staleness_bound(in_compiled_loops, policy, bound):
    """With ``wait`` most workers sleep most of the time: a wake-up that got lost would end the run's progress."""
    run = sampled(workers=8, max_staleness=bound, policy=policy)
    assert in_compiled_loops
    (chain,) = run.trace.chains
    assert chain.updates().staleness.max() <= bound
    assert policy == "drop" or chain.accepted.all()
    assert_sound(run)


def test_segments_end_anywhere(in_compiled_loops, monkeypatch):
    """Segments of 16 updates, at whose ends workers have gradients in hand."""
    monkeypatch.setattr(segment, "_UPDATES", 16)
    run = sampled(max_staleness=2, thin=3)
    assert in_compiled_loops[0]._segment.number >= 3000 // 16 - 1
    assert_sound(run)


def test_step_sizes_of_a_schedule(in_compiled_loops, monkeypatch):
    monkeypatch.setattr(segment, "_UPDATES_OF_SCHEDULES", 50)
    kernel = sg.SGLD(step_size=sg.schedules.Polynomial(2e-3, 1.0, 0.3))
    run = sampled(kernel=kernel, steps=500, max_staleness=3)
    chain = run.trace.chains[0]
    expected = [float(kernel.schedule(update)) for update in range(500)]
    np.testing.assert_array_equal(chain.updates().step_size, expected)
    assert np.isnan(chain.step_size[~chain.accepted]).all()
    assert_sound(run, kernel=kernel, steps=500)


@pytest.mark.long
def test_a_store_and_a_run_that_goes_on(in_compiled_loops, monkeypatch, tmp_path):
    """Checkpoints are taken while workers go on, and the next session continues their minibatches."""
    monkeypatch.setattr(compiled_server, "_POLL", 0.001)
    engine = Threads(slow=dict.fromkeys(range(4), 1e-3))  # so that the run lasts for many looks
    sampled(steps=2000, store=tmp_path / "run", checkpoint_every=0.001, engine=engine)
    run = sg.resume(tmp_path / "run", small_model(), steps=5000, engine=Threads(), progress=False)
    first, _ = in_compiled_loops
    assert first._segment.number > 0  # a checkpoint begins another
    assert run.draws.shape == (1, 5000, 5)
    assert_sound(run, steps=5000)


def test_an_interrupt_keeps_what_was_made(in_compiled_loops):
    before = set(threading.enumerate())  # other tests leave hung threads behind

    def interrupt():
        while not in_compiled_loops or in_compiled_loops[0].chain.version < 1000:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    run = sampled(steps=10**7, thin=100, engine=Threads(slow=dict.fromkeys(range(4), 1e-4)))  # for a short replay
    steps = run.trace.chains[0].steps
    assert run.interrupted
    assert 1000 <= steps < 10**7
    assert_sound(run, steps=steps)
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("stalegrad-worker")]


def test_an_interrupt_does_not_wait_for_the_compiler(in_compiled_loops, monkeypatch):
    ended = threading.Event()

    class Slow:
        typeof_pyval = staticmethod(compiled_server.work.typeof_pyval)

        def compile(self, types):
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(60)

    monkeypatch.setattr(compiled_server, "work", Slow())
    try:
        run = sampled()
        assert not ended.is_set()
    finally:
        ended.set()
    assert run.interrupted
    assert run.trace.chains[0].steps == 0


class Overflowing(GaussianMean):
    """Three of forty data are so far away that the gradient of a minibatch with one of them is infinite."""

    def __init__(self, batch_size=4):
        data = np.random.default_rng(1).standard_normal((40, 5))
        data[7:10] = 2e38
        super().__init__(data, batch_size=batch_size)


def test_gradients_that_are_not_finite_are_refused_and_reported(in_compiled_loops, caplog):
    run = sampled(Overflowing(), engine=Threads(restarts=100), steps=500)
    assert in_compiled_loops
    refused = [event for event in run.events if event.kind == "refused"]
    assert len(refused) == len(run.events) > 0
    assert "5 of 5 entries of the gradient are NaN or infinite" in refused[0].details
    assert f"worker {refused[0].worker}, minibatch " in refused[0].details
    assert 0 < len(caplog.records) <= len(refused)  # the first of each row
    assert run.timing.count == len(run.trace.chains[0]) + len(refused)
    assert_sound(run, Overflowing(), steps=500)


def test_workers_that_always_fail_end_the_run(in_compiled_loops):
    with pytest.raises(sg.RunFailed, match=r"all workers of chain 0 were given up after failing 3 times in a row"):
        sampled(Overflowing(batch_size=40), engine=Threads(restarts=2), workers=3)
    assert in_compiled_loops


def test_a_slow_worker_does_not_slow_the_others(in_compiled_loops):
    run = sampled(engine=Threads(slow={2: 0.05}), workers=3, steps=20_000, thin=100)
    assert in_compiled_loops
    assert np.mean(run.trace.chains[0].worker == 2) < 0.2
    assert_sound(run, steps=20_000)


def test_a_disk_that_fails_ends_the_run(in_compiled_loops, monkeypatch):
    """What goes wrong while Python holds the lock leaves nobody waiting for it."""
    from stalegrad.runs.recorders.memory import ChainRecorder

    def filled(record, version):
        raise sg.StoreError("no room")

    monkeypatch.setattr(ChainRecorder, "filled", filled)
    with pytest.raises(sg.StalegradError, match="no room"):
        sampled()
    assert in_compiled_loops


@pytest.mark.parametrize(
    ("model", "engine", "settings"),
    [
        (None, Threads(update_threads=2), {}),
        (None, Threads(patience=5.0, slow={0: 0.001}), {}),
        ("python", Threads(), {}),
        (None, Threads(), {"architecture": sg.protocol.architectures.Elastic(rho=5.0, alpha=0.5)}),
    ],
    ids=["update threads", "slow workers that may count as hung", "a model in Python", "another architecture"],
)
def test_others_send_their_gradients_to_a_server(in_compiled_loops, tmp_path, model, engine, settings):
    model = FaultyModel(tmp_path / "calls", {}, seconds=0.0) if model == "python" else small_model()
    run = sampled(model, engine=engine, steps=50, **settings)
    assert not in_compiled_loops
    assert run.trace.chains[0].steps == 50


def test_short_runs_do_not_wait_for_a_compiler(monkeypatch):
    monkeypatch.setattr(compiled_server, "is_compiled", lambda loop, arguments: False)
    monkeypatch.setattr(compiled_server.CompiledServer, "run", lambda server: pytest.fail("it was compiled"))
    monkeypatch.setattr(compiled_server, "WORTH_LOADING", 10)
    assert_sound(sampled(steps=50), steps=50)


def test_shorter_runs_use_a_loop_that_is_there(in_compiled_loops, monkeypatch):
    sampled(steps=50)
    monkeypatch.setattr(compiled_server, "WORTH_COMPILING", 10**6)
    monkeypatch.setattr(compiled_server, "WORTH_LOADING", 40)
    sampled(steps=50)
    assert len(in_compiled_loops) == 2
    sampled(steps=30)
    assert len(in_compiled_loops) == 2
