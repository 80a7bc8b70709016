"""Workers that raise, are killed, hang or send rubbish: the run goes on, and says what happened."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Processes, Threads
from stalegrad.engines.processes.pool import Pool
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
    run = run_with(Processes(), {10: "kill", 30: "kill"}, tmp_path, workers=1)  # it cannot end without it
    assert [event.kind for event in run.events] == ["died", "died"]
    assert all("SIGKILL" in event.details for event in run.events)
    assert_sound(run)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(Threads(patience=0.5), id="threads"),
        pytest.param(Processes(patience=5.0), id="processes", marks=pytest.mark.long),
    ],
)
def test_a_hung_worker_is_replaced(engine, tmp_path):
    run = run_with(engine, {15: "hang"}, tmp_path, workers=1)  # alone, so that the run cannot end without it
    assert [event.kind for event in run.events] == ["hung"]
    assert "no answer" in run.events[0].details
    assert_sound(run)


@pytest.mark.long
def test_a_worker_that_dies_at_once_is_given_up_after_bounded_restarts(tmp_path):
    with pytest.raises(sg.RunFailed, match=r"failing 3 times in a row.*SIGKILL") as failure:
        run_with(Processes(restarts=2), dict.fromkeys(range(1, 1000), "kill"), tmp_path)
    assert len(failure.value.run.events) == 6  # two workers, each tried three times
    assert failure.value.run.draws.shape[1] == 0


def test_the_others_carry_on_when_one_is_given_up(tmp_path):
    """Worker 1 fails whenever it computes; worker 0 makes all the updates."""
    model = OnlyWorkerZero(faults=2)
    run = sg.sample(model, KERNEL, steps=60, workers=2, seed=3, engine=Threads(restarts=1), progress=False)
    assert len(run.events) == 2
    assert set(run.trace.chains[0].worker.tolist()) == {0}


class OnlyWorkerZero(sg.potentials.Potential):
    """Worker 1 raises. Worker 0 computes, the first time when worker 1 has done so often enough, and never fast: the
    reports are there long before the run ends."""

    def __init__(self, faults):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._faults = model, threading.Semaphore(0)
        self._awaited = faults

    def gradient(self, theta, indices):
        if threading.current_thread().name.endswith("-1"):
            self._faults.release()
            raise RuntimeError("not me")
        while self._awaited and self._faults.acquire(timeout=60):
            self._awaited -= 1
        time.sleep(0.02)
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_hundred_kills_of_random_workers(tmp_path, monkeypatch):
    """kill -9 from outside, a hundred times during one run: it completes, nothing is applied twice, and each
    replacement works within five seconds of the death before it."""
    reports = []
    monkeypatch.setattr(Pool, "_next_report", _noting(Pool._next_report, reports))
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

    model = UntilStopped(tmp_path)
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


def _noting(read, reports):
    def wrapped(self):
        message = read(self)
        if message:
            reports.append((time.monotonic(), message))
        return message

    return wrapped


class UntilStopped(sg.potentials.Potential):
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


class RecordsItsThreads(sg.potentials.Potential):
    """Writes down what the numerical libraries of its process were told about threads."""

    def __init__(self, file):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._file = model, file

    def gradient(self, theta, indices):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")
        self._file.write_text(" ".join(f"{name}={os.environ[name]}" for name in names))
        return self._model.gradient(theta, indices)


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 2])
def test_one_knob_bounds_the_threads_of_every_library(threads, tmp_path):
    file = tmp_path / "threads"
    before = dict(os.environ)
    sg.sample(RecordsItsThreads(file), KERNEL, steps=4, engine=Processes(threads=threads), progress=False)
    reported = file.read_text()
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        assert f"{name}_NUM_THREADS={threads}" in reported
    assert f"NPROC={threads}" in reported  # by which XLA goes
    assert dict(os.environ) == before  # the user's own process is left alone


STOPPED_RUN = """
import sys, threading
import stalegrad as sg
from pathlib import Path
from stalegrad.engines import Processes, Threads
from stalegrad.testing import FaultyModel

if __name__ == "__main__":
    engine = {"processes": Processes, "threads": Threads}[sys.argv[1]](patience=4.0)
    model = FaultyModel(Path(sys.argv[2]), {}, seconds=0.05)
    kernel = sg.SGHMC(step_size=0.02, friction=5.0)
    run = sg.sample(model, kernel, steps=400, workers=4, seed=3, engine=engine, progress=False)
    print(run.trace.chains[0].steps, [event.kind for event in run.events])
"""


@pytest.mark.long
@pytest.mark.parametrize("engine", ["processes", "threads"])
def test_a_run_that_is_stopped_and_continued_has_no_hung_workers(engine, tmp_path):
    """SIGSTOP to the whole group for longer than the patience, as when a laptop sleeps."""
    script, calls = tmp_path / "run.py", tmp_path / "calls"
    script.write_text(STOPPED_RUN)
    process = subprocess.Popen(
        [sys.executable, str(script), engine, str(calls)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        for stop in range(2):
            while process.poll() is None and (not calls.exists() or calls.stat().st_size < 40 + 150 * stop):
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(5.0)
            os.killpg(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert out == "400 []\n"
