"""A worker is killed, then the whole run; it goes on from its last checkpoint, and is repeated bit for bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.types import Array
from stalegrad.experiments.demo.task import Settings
from stalegrad.potentials import Linear
from stalegrad.runs.replay import replay
from stalegrad.runs.resume import resume
from stalegrad.runs.store import inspect
from stalegrad.runs.store.folder import read_events

WORKER_DIES, RUN_DIES = 0.1, 0.4
"""Shares of the updates after which each is killed, as soon as the store has them."""
_PATIENCE = 300.0  # seconds for a share of the run to be done
_WORKERS = 2


@dataclass(frozen=True, eq=False)
class Survival:
    """What came out: the updates of the run against the clock of its trace, and the numbers for summary.json."""

    seconds: Any
    moments: dict[str, float]
    numbers: dict[str, Any]


def measure(potential: Linear, settings: Settings, out: Path, report: Callable[[str], None]) -> Survival:
    """A run of ``stalegrad run`` in a process of its own, on processes; killed, resumed on threads, replayed."""
    settings = replace(settings, steps=max(1000, settings.steps // 2))
    store = out / "run"
    shutil.rmtree(store, ignore_errors=True)
    job = out / "job.toml"
    job.write_text(_job(settings), encoding="utf-8")
    report("a run with workers in processes of their own")
    command = [sys.executable, "-m", "stalegrad", "run", str(job), "--store", str(store), "--no-progress"]
    with (out / "run.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    moments, killed_worker = dict[str, float](), None
    try:
        if _wait(process, store, WORKER_DIES, settings):
            report("kill -9 of a worker")
            killed_worker = kill_worker(process.pid)
            moments["a worker was killed"] = _updates(store)
        if _wait(process, store, RUN_DIES, settings, faults=killed_worker is not None):
            report("kill -9 of the whole run")
    finally:
        alive = process.poll() is None
        process.kill()
        process.wait()
    kept = inspect(store)
    moments["the run was killed"] = kept.updates[0]
    report("going on from the last checkpoint, on another engine")
    run = resume(store, potential, engine="threads", progress=False)
    report("repeating all of it from its trace")
    again = replay(run.trace, potential)
    numbers = {
        "steps": settings.steps,
        "worker_killed": killed_worker is not None,
        "run_killed": alive,
        "events": [event.kind for event in run.events],
        "kept": kept.updates[0],
        "sessions": len(inspect(store).sessions),
        "gradients": len(run.trace.chains[0]),
        "replayed": bool(np.array_equal(np.asarray(run.draws), again.draws)),
    }
    seconds = since_at_work(np.asarray(run.trace.chains[0].updates().time))
    return Survival(seconds, {name: float(at) for name, at in moments.items()}, numbers)


def since_at_work(times: Array) -> Array:
    """Seconds since the longest pause among the first tenth of the updates: until then code is loaded or compiled.

    >>> since_at_work(np.array([1.0, 5.0, *np.arange(5.5, 20.0, 0.5)]))[:4].tolist()
    [0.0, 0.0, 0.5, 1.0]
    """
    first = max(len(times) // 10, 2)
    return np.asarray(np.maximum(times - times[int(np.argmax(np.diff(times[:first]))) + 1], 0.0))


def _job(settings: Settings) -> str:
    quoted = json.dumps
    return (
        f"model = {quoted('stalegrad.experiments.demo.task:model')}\n"
        f"steps = {settings.steps}\nburn_in = {settings.burn_in}\nthin = {settings.thin}\nseed = {settings.seed}\n"
        f'workers = {_WORKERS}\nengine = "processes"\ncheckpoint_every = 0.25\n\n[kernel]\nname = "SGHMC"\n'
        f'integrator = "splitting"\nstep_size = {settings.step_size}\nfriction = {settings.friction}\n'
    )


def _updates(store: Path) -> int:
    try:
        return inspect(store).updates[0]
    except StalegradError:  # it is not there yet
        return -1


def _wait(
    process: "subprocess.Popen[bytes]", store: Path, share: float, settings: Settings, *, faults: bool = False
) -> bool:
    """Until the store has so much of the run, and a fault if there was one; whether the run still goes on then."""
    ends = time.monotonic() + _PATIENCE
    while _updates(store) < share * settings.steps or (faults and not read_events(store, 0)):
        if process.poll() is not None or time.monotonic() > ends:
            break
        time.sleep(0.02)
    return process.poll() is None


def kill_worker(pid: int) -> int | None:
    """Kill the first worker process of a run with ``kill -9``; None where the system does not say which they are."""
    for host in _children(pid):
        for worker in _children(host):
            os.kill(worker, signal.SIGKILL)
            return worker
    return None


def _children(pid: int) -> list[int]:
    found = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in listed.read_text().split()]
    return found
