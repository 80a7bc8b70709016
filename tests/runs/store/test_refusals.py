"""Stores that cannot be made, written or read: a clear error each, and what was there before is untouched."""

import errno
import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal import failpoints
from stalegrad.potentials import GaussianMean
from stalegrad.runs.store import inspect, writer
from stalegrad.runs.store.lock import Lock
from stalegrad.runs.store.writer import Writer
from stalegrad.testing import small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting")


def sample(store, **changes):
    settings = {"steps": 120, "servers": 2, "workers": 2, "engine": "inline", "progress": False, "seed": 3}
    return sg.sample(small_model(), KERNEL, store=store, **{**settings, **changes})


def resume(store, model=None, kernel=KERNEL, **changes):
    return sg.resume(store, model or small_model(), kernel, progress=False, **changes)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def store(tmp_path):
    sample(tmp_path / "x")
    return tmp_path / "x"


@pytest.fixture
def armed():
    yield failpoints.arm
    failpoints.arm("")


class TestPlaces:
    def test_a_run_is_not_written_over(self, store):
        before = contents(store)
        with pytest.raises(sg.StoreError, match=r"holds a run already.*resume"):
            sample(store)
        assert contents(store) == before

    def test_nor_is_anything_else(self, tmp_path):
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis/chapter1.tex").write_text("…")
        for place in ("thesis", "thesis/chapter1.tex"):
            with pytest.raises(sg.StoreError, match="is there already and is not a run"):
                sample(tmp_path / place)
        assert [p.name for p in tmp_path.rglob("*")] == ["thesis", "chapter1.tex"]

    def test_an_empty_folder_will_do(self, tmp_path):
        (tmp_path / "x").mkdir()
        assert sample(tmp_path / "x").draws.shape == (2, 120, 5)

    @pytest.mark.parametrize("place", ["/proc/stalegrad/x", "/dev/null/x"])
    def test_a_folder_that_cannot_be_made(self, place):
        with pytest.raises((sg.StoreError, OSError), match=place.split("/")[1]):
            sample(place)

    def test_a_folder_that_is_not_there(self, tmp_path):
        for what in (sg.load, resume, inspect):
            with pytest.raises(sg.StoreError, match="holds no run"):
                what(tmp_path / "y")

    def test_repetitions_are_not_stored(self, tmp_path):
        with pytest.raises(sg.ArgumentError, match="does not go with repeats"):
            sample(tmp_path / "x", repeats=3)

    @pytest.mark.parametrize(
        ("setting", "value"), [("checkpoint_every", -1), ("checkpoint_every", "often"), ("on_store_error", "ignore")]
    )
    def test_settings(self, tmp_path, setting, value):
        with pytest.raises(sg.ArgumentError, match=setting):
            sample(tmp_path / "x", **{setting: value})
        assert not (tmp_path / "x").exists()


class TestAnotherRun:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"kernel": sg.SGLD(step_size=0.02)}, r"kernels\[0\].name is 'SGLD', was 'SGHMC'"),
            ({"kernel": KERNEL.with_step_size(0.03)}, r"step_size is 0.03, was 0.02"),
            ({"model": GaussianMean(np.zeros((40, 6)), batch_size=4)}, "model.size is 6, was 5"),
            ({"model": GaussianMean(np.zeros((40, 5)), batch_size=5)}, "model.batch_size is 5, was 4"),
            ({"model": GaussianMean(np.zeros((40, 5)), batch_size=4)}, "model.gradient_norm"),
            ({"model": GaussianMean(np.zeros((40, 5)), batch_size=4, dtype=np.float64)}, "model.dtype"),
        ],
    )
    def test_another_model_or_sampler(self, store, change, told):
        before = contents(store)
        with pytest.raises(sg.StoreError, match=told):
            resume(store, **change)
        assert contents(store) == before

    def test_fewer_steps_than_were_made(self, store):
        with pytest.raises(sg.ArgumentError, match="less than the 120 updates"):
            resume(store, steps=100)

    @pytest.mark.parametrize("found", ["stalegrad-run-9", "stalegrad-run-0", None, 7])
    def test_another_version(self, store, found):
        about = json.loads((store / "run.json").read_text())
        (store / "run.json").write_text(json.dumps({**about, "format": found, "version": "9.9"}))
        before = contents(store)
        for what in (sg.load, resume, inspect):
            with pytest.raises(sg.StoreError, match=r"this version of stalegrad reads 'stalegrad-run-5'.*9\.9"):
                what(store)
        assert contents(store) == before


class TestTwoWriters:
    def test_of_one_process(self, store):
        lock = Lock(store)
        before = contents(store)
        with pytest.raises(sg.StoreError, match="another run of this process"):
            resume(store)
        assert contents(store) == before
        lock.release()
        resume(store)

    def test_of_two_processes(self, store):
        program = "import sys, pathlib; from stalegrad.runs.store.lock import Lock\n"
        program += "lock = Lock(pathlib.Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", program, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout.readline() == "locked\n"
            assert sg.load(store).draws.shape == (2, 120, 5)  # reading is free
            with pytest.raises(sg.StoreError, match=rf"another process \({other.pid} on "):
                resume(store)
            other.kill()
        resume(store)

    def test_a_lock_that_fails_says_why(self, store, monkeypatch):
        def fails(*arguments):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(fcntl, "lockf", fails)
        with pytest.raises(
            sg.StoreError, match=r"lock cannot be locked \(No locks available\).*file system with locks"
        ):
            resume(store)

    def test_and_so_does_one_that_cannot_be_opened(self, store):
        (store / "lock").unlink()
        (store / "lock").mkdir()
        with pytest.raises(sg.StoreError, match=r"lock cannot be opened for writing \(Is a directory\)"):
            resume(store)

    def test_a_link_in_its_place_is_not_written_through(self, store, tmp_path):
        """Somebody else may have made the folder: the lock is emptied and written when it is taken."""
        mine = tmp_path / "mine"
        mine.write_text("precious")
        (store / "lock").unlink()
        (store / "lock").symlink_to(mine)
        assert inspect(store).state == "finished"
        with pytest.raises(sg.StoreError, match=r"lock cannot be opened for writing \(it is a link\)\. Delete it"):
            resume(store)
        assert mine.read_text() == "precious"
        (store / "lock").unlink()  # the remedy
        resume(store)

    def test_nor_is_a_pipe_waited_for(self, store):
        status = json.loads((store / "status.json").read_text())
        (store / "status.json").write_text(json.dumps({**status, "state": "running"}))
        (store / "lock").unlink()
        os.mkfifo(store / "lock")
        assert inspect(store).state == "killed"
        with pytest.raises(sg.StoreError, match="lock cannot be opened for writing"):
            resume(store)


class TestFullDisk:
    @pytest.mark.parametrize(
        ("engine", "place"),
        [
            *(("inline", place) for place in ("draws.half:6", "trace.written:5", "state.begin:5", "checkpoint.half:7")),
            # How often real workers' chains are saved depends on their speed: places that the last save reaches.
            *(("threads", place) for place in ("draws.half:1", "trace.written:1", "checkpoint.half:3")),
            *(pytest.param("processes", place, marks=pytest.mark.long) for place in ("draws.half:1", "state.begin:3")),
        ],
    )
    def test_the_run_stops_and_the_last_checkpoint_loads(self, tmp_path, armed, engine, place):
        armed(f"{place}:full")
        with pytest.raises(sg.RunFailed, match=r"cannot be written.*No space left.*sg\.resume") as failure:
            sample(tmp_path / "x", engine=engine, checkpoint_every=0, steps=40_000, thin=100)
        armed("")
        info = inspect(tmp_path / "x")
        assert info.state == "failed"
        assert "No space left" in info.failure
        assert failure.value.run.draws.shape[1] == min(info.draws)
        run = resume(tmp_path / "x", steps=max(info.updates) + 200, engine="inline")
        np.testing.assert_array_equal(run.draws, sg.replay(run.trace, small_model(), KERNEL).draws)

    @pytest.mark.parametrize(("engine", "place"), [("inline", "state.half:5"), ("threads", "state.half:3")])
    @pytest.mark.long
    def test_or_goes_on_and_loses_nothing_once_there_is_room(self, tmp_path, armed, engine, place, caplog, monkeypatch):
        """The disk is full until the writer has failed three times."""
        armed(f"{place}:full")
        failures = []

        def pause(writer, seconds):
            failures.append(seconds)
            if len(failures) == 3:
                armed("")
            return False

        monkeypatch.setattr(Writer, "_pause", pause)
        run = sample(tmp_path / "x", engine=engine, checkpoint_every=0, steps=2000, on_store_error="continue")
        assert failures == [0.1, 0.2, 0.4]
        assert "The run goes on" in caplog.text
        assert "Nothing is lost" in caplog.text
        assert inspect(tmp_path / "x").state == "finished"
        assert run.draws.shape == (2, 2000, 5)
        np.testing.assert_array_equal(run.draws, sg.replay(run.trace, small_model(), KERNEL).draws)

    @pytest.mark.long
    def test_a_disk_that_stays_full_ends_it_and_the_store_says_what_it_lacks(self, tmp_path, armed, monkeypatch):
        monkeypatch.setattr(writer, "PATIENCE", 0.2)
        monkeypatch.setattr(writer, "FIRST_PAUSE", 0.01)
        armed("checkpoint.half:5:full")  # after two checkpoints that make the folder, and one of each chain
        with pytest.raises(sg.RunFailed, match="No space left"):
            sample(tmp_path / "x", checkpoint_every=0, steps=2000, on_store_error="continue")
        armed("")
        info = inspect(tmp_path / "x")
        assert info.state == "failed"
        made = 2000  # memory has room for all of it
        lacks = [f"chain {s} {made - n:,} draws and {made - n:,} gradients" for s, n in enumerate(info.updates)]
        assert "; ".join(lacks) in info.failure
        assert min(info.updates) < made
        assert resume(tmp_path / "x").draws.shape == (2, 2000, 5)
        assert inspect(tmp_path / "x").failure is None

    def test_a_disk_that_is_full_from_the_start(self, tmp_path, armed):
        armed("metadata.half:1:full")
        with pytest.raises(sg.StoreError, match=r"cannot be made.*No space left"):
            sample(tmp_path / "x")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.long
    def test_a_limit_of_the_operating_system(self, tmp_path):
        """Writes that really fail, in the kernel: no file may be longer than 100 kB."""
        program = f"""
import resource, sys
sys.dont_write_bytecode = True  # Python would leave half of a module's bytecode behind, without a word
import numpy as np, stalegrad as sg
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, {resource.RLIM_INFINITY}))
model = sg.potentials.from_gradient(lambda theta, batch: theta, 5000, n_data=10)
try:
    sg.sample(model, sg.SGLD(step_size=0.1), steps=500, engine="inline", store=sys.argv[1], progress=False)
except sg.RunFailed as failure:
    print(failure)
"""
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "x"], capture_output=True, text=True, check=True, timeout=60
        )
        assert "cannot be written" in done.stdout
        assert "File too large" in done.stdout
        model = sg.potentials.from_gradient(lambda theta, batch: theta, 5000, n_data=10)
        assert resume(tmp_path / "x", model, sg.SGLD(step_size=0.1)).draws.shape == (1, 500, 5000)


def looked_at(store):
    """All that a store holds of a run: nothing of draws and trace is read before it is wanted."""
    run = sg.load(store)
    return np.asarray(run.draws), run.step_sizes


class TestDamage:
    @pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
    @pytest.mark.parametrize("array", ["draws", "stats", "trace"])
    def test_of_a_chunk(self, store, array, damage):
        chunk = next(path for path in (store / "chain-1" / array / "c").rglob("*") if path.is_file())
        harm(chunk, damage)
        with pytest.raises(sg.StoreError, match=rf"chunk 0 of .*chain-1/{array} is damaged.*rows 0 to 119"):
            looked_at(store)
        assert inspect(store).updates == [120, 120]
        if array == "draws":
            run = sg.load(store)
            assert run.draws[0].shape == (120, 5)  # the other chain is whole
            again = sg.replay(run.trace, small_model(), KERNEL)
            np.testing.assert_array_equal(again.draws[0], run.draws[0])

    @pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
    @pytest.mark.parametrize("file", ["run.json", "status.json", "chain-0/checkpoint.json", "chain-0/draws/zarr.json"])
    def test_of_a_description(self, store, file, damage):
        harm(store / file, damage)
        with pytest.raises(sg.StoreError, match=Path(file).name.split(".")[0] if "zarr" not in file else "draws"):
            sg.load(store)

    @pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
    def test_of_the_state(self, store, damage):
        harm(next((store / "chain-0").glob("state-*.npz")), damage)
        before = contents(store)
        assert sg.load(store).draws.shape == (2, 120, 5)
        with pytest.raises(sg.StoreError, match=r"state-\d+.npz"):
            resume(store, steps=200)
        after = contents(store)
        changed = {str(path) for path in before if before[path] != after.get(path)}
        assert changed <= {"status.json", "lock"}

    def test_files_of_another_store(self, store, tmp_path):
        """Parts of two stores put together: the state's checksum tells."""
        sample(tmp_path / "y", seed=4)
        state = next((tmp_path / "y/chain-0").glob("state-*.npz"))
        shutil.copy(state, store / "chain-0")
        with pytest.raises(sg.StoreError, match="is damaged: its checksum"):
            resume(store, steps=200)


def harm(path, damage):
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
