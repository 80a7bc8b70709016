"""Ctrl-C and SIGTERM in a real process: partial results, no orphans, nothing left in shared memory."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("compiled")]

SCRIPT = textwrap.dedent("""
    import json, sys, time
    import numpy as np
    import stalegrad as sg
    from stalegrad.testing import FaultyModel, small_model
    from pathlib import Path

    kernel = sg.SGLD(step_size=0.002)
    for engine in sys.argv[2:]:
        model = FaultyModel(Path(sys.argv[1], engine), {}, seconds=0.002)
        run = sg.sample(model, kernel, steps=10**6, thin=100, workers=3, servers=2, engine=engine, progress=False)
        again = sg.replay(run.trace, small_model(), kernel)
        same = all(np.array_equal(a, b) for a, b in zip(run.chain_draws, again.chain_draws))
        steps = [chain.steps for chain in run.trace.chains]
        print(json.dumps({"interrupted": run.interrupted, "steps": steps, "same": same}), flush=True)
        sys.stdin.readline()  # until somebody has seen what is left of the run
""")


def processes_of(session):
    """The processes that a session has left, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(sid) == session and state != "Z":
                found.append(int(entry.name))
    return found


def shared_memory():
    """What Python or we would call shared memory and semaphores; other programs of the machine come and go."""
    folder = Path("/dev/shm")
    names = os.listdir(folder) if folder.exists() else []
    return {name for name in names if name.startswith(("psm_", "sem.", "stalegrad", "torch_"))}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes through /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_partial_results_and_no_trace_of_it(number, tmp_path):
    """One engine after the other in one process, which each signal leaves alive and alone."""
    before, engines = shared_memory(), ("inline", "threads", "processes")
    started = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *engines],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with started as process, ExitStack() as whatever_happens:
        whatever_happens.callback(process.kill)
        for engine in engines:
            calls = tmp_path / engine
            deadline = time.monotonic() + 240  # a busy machine takes long to start six workers
            while (not calls.exists() or calls.stat().st_size < 1200) and time.monotonic() < deadline:
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            if number is signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does: the whole group gets it
            else:
                process.send_signal(number)
            reported = json.loads(process.stdout.readline() or process.stderr.read())
            assert reported["interrupted"] is True
            assert reported["same"] is True
            assert all(100 <= steps < 10**6 for steps in reported["steps"])
            time.sleep(0.2)
            assert processes_of(process.pid) == [process.pid], engine
            process.stdin.write("seen\n")
            process.stdin.flush()
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
    assert processes_of(process.pid) == []
    assert shared_memory() <= before


def test_a_killed_user_process_leaves_no_workers(tmp_path):
    """kill -9 of the process that called sample: host and workers notice and end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path), "processes"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    calls = tmp_path / "processes"
    deadline = time.monotonic() + 60
    while (not calls.exists() or calls.stat().st_size < 100) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(processes_of(process.pid)) >= 8  # itself, the host and six workers
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while processes_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(process.pid) == []
