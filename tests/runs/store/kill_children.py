"""Kills a process that writes a store at every step of writing, and looks at what is left each time.

Run as a program, with a folder, so that no thread has been started in the process that forks. Every child runs
the same small job with one failpoint armed; then another child loads the store, compares what is committed with a
replay, resumes the run on another engine with another number of workers, and compares the whole with a replay, bit for
bit. Prints a JSON object a kill.
"""

import gc
import json
import os
import signal
import sys
import traceback
from pathlib import Path

import numpy as np

import stalegrad as sg
import stalegrad.runs.storage  # before the fork: it takes longer than a case
import stalegrad.runs.store.chain_writer
from stalegrad._internal import failpoints
from stalegrad.runs.store import checkpoint, inspect
from stalegrad.testing import small_model

FILES = ("draws", "stats", "trace", "metadata", "state", "checkpoint", "status")
STEPS = ("begin", "half", "written", "synced", "renamed", "done")
PLACES = [f"{file}.{step}" for file in FILES for step in STEPS]
MAKING = [f"{file}.{step}" for file in ("run", "events") for step in STEPS]
KERNEL = sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting")
UPDATES = 200
JOB = {"steps": UPDATES, "servers": 2, "workers": 3, "thin": 3, "progress": False}


def cases():
    """(place, which passage of it): in the first checkpoints, in later ones, and while the folder is being made."""
    yield from ((place, 1) for place in PLACES + MAKING)
    yield from ((place, nth) for place in PLACES for nth in (4, 7) if not place.startswith("status"))
    yield ("cleaning", 1)
    yield ("cleaning", 3)


def write(folder: Path, place: str, nth: int) -> None:
    """Run the job and die on the way. What was committed is noted outside the store."""
    notes = os.open(folder / "committed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    real = checkpoint.commit

    def commit(home, number, updates, rows, draws, state):
        real(home, number, updates, rows, draws, state)
        os.write(notes, json.dumps([home.name, updates, draws]).encode() + b"\n")

    stalegrad.runs.store.chain_writer.commit = commit
    failpoints.arm(f"{place}:{nth}:kill")
    sg.sample(small_model(), KERNEL, engine="inline", store=folder / "run", checkpoint_every=0, **JOB)


def look(folder: Path, place: str) -> dict:
    """What is left, and whether it can go on."""
    model, store = small_model(), folder / "run"
    if not store.exists():
        sg.sample(model, KERNEL, engine="inline", store=store, **JOB)  # nothing is in the way of another try
        return {"left": "nothing", "updates": 0}
    info = inspect(store)
    run = sg.load(store)
    noted = [json.loads(line) for line in (folder / "committed").read_text().splitlines()]
    for s, chain in enumerate(info.chains):
        for name, updates, draws in noted:
            if name == f"chain-{s}":
                assert chain.updates >= updates, (
                    f"chain {s}: {updates} updates were committed, {chain.updates} are left"
                )
                assert chain.draws >= draws
    if min(info.updates) > 3:
        again = sg.replay(run.trace, model, KERNEL)
        assert all(np.array_equal(a, np.asarray(b)) for a, b in zip(again.chain_draws, run.chain_draws, strict=True))
    state = info.state
    whole = sg.resume(store, model, KERNEL, engine="threads", workers=2, progress=False)
    again = sg.replay(whole.trace, model, KERNEL)
    assert whole.draws.shape == (2, UPDATES // 3, model.size)
    assert np.array_equal(again.draws, np.asarray(whole.draws)), "the resumed run does not replay"
    assert all(chain.applied_twice() == 0 for chain in whole.trace.chains)
    assert inspect(store).state == "finished"
    assert not list(store.rglob("*.partial"))
    return {"left": state, "updates": max(info.updates)}


def in_child(task) -> tuple[int, str]:
    """How the child that runs the task has ended, and what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, json.dumps(task()).encode())
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    return os.waitpid(child, 0)[1], said


def main() -> None:
    base = Path(sys.argv[1])
    os.fsync = lambda descriptor: None  # a killed process loses nothing of what it has handed to the system
    compile_in_advance = sg.sample(small_model(), KERNEL, engine="inline", **JOB)
    sg.replay(compile_in_advance.trace, small_model(), KERNEL)
    small_model().minibatches.draw(0, 0, 0, 0)  # as workers do
    gc.freeze()  # so that children share its memory until they end
    for number, (place, nth) in enumerate(cases()):
        folder = base / str(number)
        folder.mkdir()
        ended, said = in_child(lambda folder=folder, place=place, nth=nth: write(folder, place, nth))
        killed = os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL
        looked, found = in_child(lambda folder=folder, place=place: look(folder, place))
        result = {"place": place, "nth": nth, "killed": killed, "sound": looked == 0}
        result.update(json.loads(found) if looked == 0 else {"error": found}, said=said)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
