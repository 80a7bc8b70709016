"""The soak itself, in short: what it does, how it ends, and that broken promises are seen."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest

from . import plan as p
from .session import STEPS
from .turn import broken_promises

ROOT = Path(__file__).resolve().parents[2]
SEED, RUNS, ENGINES = 585, 2, ("inline", "threads", "processes")
SOUND = {"outcome": "complete", "state": "finished", "updates": [STEPS] * 2, "twice": 0, "lost": 0, "same": True}


def start(folder, *arguments):
    """A soak whose temporary files are all in a folder."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.soak", "--out", str(folder / "out"), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "TMPDIR": str(folder / "tmp")},
    )  # fmt: skip


def assert_nothing_is_left(folder, soak):
    assert list((folder / "tmp").iterdir()) == []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        assert f"SOAK_PID={soak.pid}".encode() not in variables, process.name


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_two_runs_of_each_engine_survive_their_faults(tmp_path):
    """Kills and full disks among them; the plan says which."""
    soak = start(tmp_path, "--seed", SEED, "--runs", RUNS, "--engines", *ENGINES)
    said, _ = soak.communicate(timeout=1200)
    assert soak.returncode == 0, said
    assert "promises broken" in said
    read = json.loads((tmp_path / "out" / "soak.json").read_text())
    for turn, engine in enumerate(ENGINES):
        planned = [fault.kind for run in islice(p.runs(engine, SEED, turn), RUNS) for fault in run.faults]
        of = read["engines"][engine]
        assert sum(of["injected"].values()) + sum(of["late"].values()) == len(planned)
        assert of["survived"] == of["injected"]
        assert {p.SERVER_KILLED, p.DISK_STOPS} <= of["injected"].keys()
        assert (of["runs"], of["replays"], of["equal"], of["twice"], of["lost"]) == (RUNS, RUNS, RUNS, 0, 0)
        assert of["broken"] == of["left"] == []
    assert not (tmp_path / "out" / "evidence").exists()
    assert_nothing_is_left(tmp_path, soak)


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_ctrl_c_ends_it_with_the_table_so_far(tmp_path):
    soak = start(tmp_path, "--engines", "processes", "--minutes", 10)
    while not list((tmp_path / "tmp").glob("sgs-*/0/processes-0/order-0.json")):
        assert soak.poll() is None
        time.sleep(0.05)
    soak.send_signal(signal.SIGINT)
    said, _ = soak.communicate(timeout=120)
    assert soak.returncode == 130, said
    assert "interrupted" in said
    assert "draws lost" in said
    assert json.loads((tmp_path / "out" / "soak.json").read_text())["interrupted"]
    assert_nothing_is_left(tmp_path, soak)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "failed"}, "says that the run is failed"),
        ({"updates": [STEPS, STEPS - 1]}, "and not 4000"),
        ({"twice": 1}, "1 gradients were applied twice"),
        ({"lost": 3}, "3 draws are lost"),
        ({"same": False}, "other bits"),
        ({"outcome": "failed", "error": "No space left"}, "the run failed"),
        ({"outcome": "raised", "error": "KeyError"}, "the run raised: KeyError"),
    ],
)
def test_every_broken_promise_is_seen(change, words):
    (said,) = broken_promises({**SOUND, **change}, lost=0, full=False)
    assert words in said


def test_a_sound_run_and_one_that_stopped_for_its_disk_break_none():
    assert broken_promises(SOUND, lost=0, full=False) == []
    assert broken_promises({"outcome": "failed", "error": "… No space left on device …"}, lost=0, full=True) == []
    assert broken_promises(SOUND, lost=2, full=False) == ["2 draws are lost"]
