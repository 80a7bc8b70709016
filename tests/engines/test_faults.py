"""Workers that raise, are killed, hang or send rubbish: the run goes on, and says what happened."""

import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Processes, Threads
from stalegrad.engines.processes import Pool
from stalegrad.testing import FaultyModel, small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)


def run_with(engine, faults, tmp_path, *, steps=120, workers=2, **options):
    model = FaultyModel(tmp_path / "calls", faults)
    return sg.sample(model, KERNEL, steps=steps, workers=workers, seed=3, engine=engine, progress=False, **options)


def assert_sound(run, steps=120):
    """Complete, nothing applied twice, and the healthy model replays it to the bit."""
    (chain,) = run.trace.chains
    assert chain.steps == steps
    assert chain.applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)


def test_kill_9_is_survived_and_reported(tmp_path):
    run = run_with(Processes(), {10: "kill", 30: "kill"}, tmp_path)
    assert [event.kind for event in run.events] == ["died", "died"]
    assert all("SIGKILL" in event.details for event in run.events)
    assert_sound(run)


@pytest.mark.parametrize("engine", [Threads(patience=0.5), Processes(patience=5.0)], ids=["threads", "processes"])
def test_a_hung_worker_is_replaced(engine, tmp_path):
    run = run_with(engine, {15: "hang"}, tmp_path, workers=1)  # alone, so that the run cannot end without it
    assert [event.kind for event in run.events] == ["hung"]
    assert "no answer" in run.events[0].details
    assert_sound(run)


def test_a_worker_that_dies_at_once_is_given_up_after_bounded_restarts(tmp_path):
    with pytest.raises(sg.RunFailed, match=r"failing 3 times in a row.*SIGKILL") as failure:
        run_with(Processes(restarts=2), dict.fromkeys(range(1, 1000), "kill"), tmp_path)
    assert len(failure.value.run.events) == 6  # two workers, each tried three times
    assert failure.value.run.draws.shape[1] == 0


def test_the_others_carry_on_when_one_is_given_up(tmp_path):
    """Worker 1 fails whenever it computes; worker 0 makes all the updates."""
    slow = Threads(restarts=1)
    model = OnlyWorkerZero()
    run = sg.sample(model, KERNEL, steps=60, workers=2, seed=3, engine=slow, progress=False)
    assert len(run.events) == 2
    assert set(run.trace.chains[0].worker.tolist()) == {0}


class OnlyWorkerZero(sg.potentials.Potential):
    def __init__(self):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model = model

    def gradient(self, theta, indices):
        if threading.current_thread().name.endswith("-1"):
            raise RuntimeError("not me")
        return self._model.gradient(theta, indices)


def test_a_slow_worker_does_not_slow_the_others():
    """One worker ten times slower than the run would last without it delivers little; the others deliver the rest."""
    run = sg.sample(small_model(), KERNEL, steps=400, workers=3, seed=3, engine=Threads(slow={2: 0.05}), progress=False)
    shares = np.bincount(run.trace.chains[0].worker, minlength=3) / 400
    assert shares[2] < 0.2
    assert shares[:2].sum() > 0.8


def test_a_model_that_cannot_be_sent_is_refused_before_anything_starts():
    model = FaultyModel.__new__(FaultyModel)
    model.__dict__.update(small_model().__dict__, lock=threading.Lock())
    with pytest.raises(sg.ArgumentError, match=r"cannot be sent to other processes.*engine='threads'"):
        sg.sample(model, KERNEL, steps=10, engine="processes", progress=False)


def test_a_dead_host_ends_the_run_with_the_draws_so_far(tmp_path, monkeypatch):
    pools = []
    monkeypatch.setattr(Pool, "__enter__", lambda pool: pools.append(pool) or pool)

    def kill_host():
        while not pools or not (tmp_path / "calls").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        pools[0]._host.kill()

    threading.Thread(target=kill_host, daemon=True).start()
    with pytest.raises(sg.RunFailed, match="the process that starts the workers has ended") as failure:
        run_with(Processes(), {}, tmp_path, steps=1_000_000, thin=1)
    run = failure.value.run
    assert 0 < run.trace.chains[0].steps < 1_000_000
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)


def test_a_hundred_kills_of_random_workers(tmp_path, monkeypatch):
    """kill -9 from outside, a hundred times during one run: it completes, nothing is applied twice, and each
    replacement works within five seconds of the death before it."""
    reports = []
    monkeypatch.setattr(Pool, "_hear", _listening(Pool._hear, reports))
    rng = random.Random(5)
    done = threading.Event()
    kills = []

    def kill_often():
        while not done.is_set() and len(kills) < 100:
            heard = [(message["kind"], (message["worker"], message["incarnation"]), message["details"])
                     for _, message in list(reports)]  # fmt: skip
            pids = {who: int(details) for kind, who, details in heard if kind == "forked"}
            ready = {who for kind, who, _ in heard if kind == "ready"}
            gone = {who for kind, who, _ in heard if kind == "died"} | {who for who, _ in kills}
            if alive := sorted((ready & pids.keys()) - gone):
                who = rng.choice(alive)
                os.kill(pids[who], signal.SIGKILL)
                kills.append((who, time.monotonic()))
            time.sleep(0.03)
        model.stop.touch()

    model = UntilToldToStop(tmp_path)
    killer = threading.Thread(target=kill_often, daemon=True)
    killer.start()
    run = sg.sample(model, KERNEL, steps=4000, workers=4, seed=3, engine=Processes(restarts=20), progress=False)
    done.set()
    killer.join()
    assert len(kills) == 100
    assert sum(event.kind == "died" for event in run.events) == 100
    chain = run.trace.chains[0]
    assert chain.steps == 4000
    assert chain.applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)
    ready = {(m["worker"], m["incarnation"]): at for at, m in reports if m["kind"] == "ready"}
    waits = [ready[w, i + 1] - at for (w, i), at in kills if (w, i + 1) in ready]
    assert len(waits) >= 96  # the last of each worker may come after the end
    assert max(waits) < 5


def _listening(hear, reports):
    def wrapped(self):
        message = hear(self)
        if message:
            reports.append((time.monotonic(), message))
        return message

    return wrapped


class UntilToldToStop(sg.potentials.Potential):
    """Takes 20 ms a gradient while workers are being killed, so that the run lasts, and no time afterwards."""

    fork_safe = True

    def __init__(self, folder):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self.stop = model, folder / "stop"

    def gradient(self, theta, indices):
        if not self.stop.exists():
            time.sleep(0.02)
        return self._model.gradient(theta, indices)


class TellsItsThreads(sg.potentials.Potential):
    """Writes down what the numerical libraries of its process were told about threads."""

    def __init__(self, file):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._file = model, file

    def gradient(self, theta, indices):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "XLA_FLAGS")
        self._file.write_text(" ".join(f"{name}={os.environ[name]}" for name in names))
        return self._model.gradient(theta, indices)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_knob_bounds_the_threads_of_every_library(threads, tmp_path):
    file = tmp_path / "threads"
    before = dict(os.environ)
    sg.sample(TellsItsThreads(file), KERNEL, steps=4, engine=Processes(threads=threads), progress=False)
    told = file.read_text()
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        assert f"{name}_NUM_THREADS={threads}" in told
    assert f"intra_op_parallelism_threads={threads}" in told
    assert dict(os.environ) == before  # the user's own process is left alone
