"""The folder of a run: its rights, what a process that was killed leaves beside it, and that it is on disk for good."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.store import arrays, inspect
from stalegrad.runs.store.checkpoint import commit, committed, read_state
from stalegrad.testing import small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGLD(step_size=0.02)


def sample(store, **changes):
    return sg.sample(
        small_model(), KERNEL, store=store, **{"steps": 30, "engine": "inline", "progress": False} | changes
    )


@pytest.mark.parametrize(
    ("umask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644), (0o002, 0o775, 0o664)]
)
def test_the_umask_decides_who_may_read(tmp_path, umask, folder, file):
    before = os.umask(umask)
    try:
        sample(tmp_path / "x")
    finally:
        os.umask(before)
    for path in (tmp_path / "x", *(tmp_path / "x").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (folder if path.is_dir() else file), path


def test_what_a_kill_has_left_of_a_folder_goes_with_the_next_run(tmp_path):
    program = """
import sys, stalegrad as sg
from stalegrad._internal import failpoints
from stalegrad.testing import small_model
failpoints.arm("run.begin:1:kill")
sg.sample(small_model(), sg.SGLD(step_size=0.02), steps=30, engine="inline", progress=False, store=sys.argv[1])
"""
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "x"], timeout=120, check=False)
    assert killed.returncode < 0
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".x-")
    foreign = tmp_path / ".notes-1.partial"  # not ours: no process has ever locked it
    foreign.mkdir()
    sample(tmp_path / "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".notes-1.partial", "x"]


def test_a_folder_that_is_being_made_is_left_alone(tmp_path, monkeypatch):
    """Another process, which holds its lock, is not done yet."""
    program = """
import sys, pathlib
from stalegrad.runs.store.lock import Lock
lock = Lock(pathlib.Path(sys.argv[1])); print("locked", flush=True); sys.stdin.read()
"""
    other = tmp_path / ".y-1-0.partial"
    other.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", program, other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "locked\n"
        sample(tmp_path / "x")
        assert other.is_dir()
        process.kill()
    sample(tmp_path / "z")
    assert not other.exists()


def test_names_are_on_disk_before_they_count(tmp_path, monkeypatch):
    """A loss of power keeps what was synchronised: the folder's content before its name, chunks before checkpoints."""
    noted, fsync, replace, rename = [], os.fsync, os.replace, os.rename

    def synchronise(descriptor):
        noted.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replaced(old, new):
        replace(old, new)
        noted.append(("name", str(new)))

    def renamed(old, new):
        rename(old, new)
        noted.append(("rename", str(new)))

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "rename", renamed)
    sample(tmp_path / "new" / "x")
    made = noted.index(("rename", str(tmp_path / "new/x")))
    assert noted[made + 1] == ("fsync", str(tmp_path / "new"))  # the run's own name
    assert ("fsync", str(tmp_path)) in noted[:made]  # the folder that it is in
    home = str(tmp_path / "new/x/chain-0")
    last = max(k for k, call in enumerate(noted) if call == ("name", f"{home}/checkpoint.json"))
    for array in ("draws", "stats", "trace"):
        chunk = max(k for k, call in enumerate(noted) if call == ("name", f"{home}/{array}/c/0/0"))
        after = noted[chunk + 1 : last]
        assert ("fsync", f"{home}/{array}/c/0") in after  # the chunk's name
        before = noted[made:last]
        assert ("fsync", f"{home}/{array}/c") in before  # those of the folders that it has made
        assert ("fsync", f"{home}/{array}") in before
    assert ("fsync", home) in noted[last:]


def test_a_state_holds_its_arrays_and_nothing_else(tmp_path):
    """NumPy before 2.2 takes every keyword of savez for an array."""
    state = {"position": np.arange(3.0), "momentum": np.ones((1, 3), np.float32)}
    commit(tmp_path, 0, 5, 7, 2, state)
    of = committed(tmp_path)
    with np.load(tmp_path / of.state) as file:
        assert file.files == list(state)
    back = read_state(tmp_path, of)
    assert back.keys() == state.keys()
    assert all(np.array_equal(back[name], state[name]) and back[name].dtype == state[name].dtype for name in state)


def test_objects_are_not_pickled(tmp_path):
    with pytest.raises(TypeError, match="position are Python objects"):
        commit(tmp_path, 0, 0, 0, 0, {"position": np.array([object()])})


def test_draws_that_are_too_long_for_a_chunk_are_cut(tmp_path, monkeypatch):
    """Blosc refuses chunks of 2 GiB and more; here the limit is 64 bytes."""
    monkeypatch.setattr(arrays, "LARGEST_CHUNK", 64)
    monkeypatch.setattr(arrays, "CHUNK_BYTES", 64)
    model = sg.potentials.GaussianMean(np.random.default_rng(0).normal(size=(20, 37)), dtype=np.float64)
    run = sg.sample(model, KERNEL, steps=7, engine="inline", store=tmp_path / "x", progress=False)
    chunks = {path.relative_to(tmp_path / "x/chain-0/draws/c").parts for path in
              (tmp_path / "x/chain-0/draws/c").rglob("*") if path.is_file()}  # fmt: skip
    assert len(chunks) == 7 * 8
    np.testing.assert_array_equal(run.draws, sg.replay(run.trace, model, KERNEL).draws)
    assert inspect(tmp_path / "x").draws == [7]
    (tmp_path / "x/chain-0/draws/c/3/5").unlink()
    with pytest.raises(sg.StoreError, match=r"chunk 3 of .* is damaged: it is not there"):
        np.asarray(run.draws)
