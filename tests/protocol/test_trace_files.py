"""A trace on disk: what is written comes back, what is damaged is refused, and a failed write costs nothing."""

import io
import json
import os

import numpy as np
import pytest

import stalegrad as sg
from stalegrad import Trace, TraceError
from stalegrad.engines import Inline
from stalegrad.engines.simulation import Exponential

COLUMNS = ("worker", "count", "staleness", "accepted", "step_size", "time")


def recorded(**changes):
    """The trace of a run with dropped gradients, times, step sizes, a start of its own and two chains."""
    return sg.sample(
        sg.potentials.GaussianMean(np.arange(6.0), batch_size=2),
        sg.SGLD(step_size=sg.schedules.Polynomial(0.01)),
        **{
            "steps": 25, "workers": 5, "servers": 2, "max_staleness": 4, "seed": 2**63 - 1, "burn_in": 5, "thin": 3,
            "initial": [0.25], "engine": Inline(compute=Exponential(1.0)), "progress": False, **changes,
        },
    ).trace  # fmt: skip


def in_memory(save, *arrays, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


def assert_same(one, other):
    assert (len(one), one.seed, one.record) == (len(other), other.seed, other.record)
    pairs = [("initial", one.initial, other.initial)]
    for a, b in zip(one.chains, other.chains, strict=True):
        pairs += [(name, getattr(a, name), getattr(b, name)) for name in COLUMNS]
    for name, x, y in pairs:
        assert (x is None) == (y is None), name
        if x is not None:
            assert x.dtype == y.dtype, name
            np.testing.assert_array_equal(x, y, name)


@pytest.mark.parametrize(
    "make",
    [
        recorded,
        lambda: Trace.constant_staleness(2, 10, chains=3, seed=1),
        lambda: sg.simulate(workers=3, steps=20, update=0.1),
    ],
    ids=["run", "synthetic", "simulated"],
)
def test_what_is_saved_is_what_is_loaded(make, tmp_path):
    trace = make()
    path = trace.save(tmp_path / "a trace.npz")
    assert path == tmp_path / "a trace.npz"
    assert_same(Trace.load(path), trace)
    assert_same(Trace.load(str(path)), trace)


def test_the_recorded_trace_has_something_to_lose():
    for chain in recorded().chains:
        assert not chain.accepted.all()
        assert np.isnan(chain.step_size[~chain.accepted]).all()
        assert len(np.unique(chain.updates().step_size)) == 25


def test_the_name_is_taken_as_it_is(tmp_path):
    Trace.from_staleness([0]).save(tmp_path / "trace")
    assert os.listdir(tmp_path) == ["trace"]


def test_numpy_integers_are_plain_numbers_in_the_file(tmp_path):
    trace = Trace(Trace.from_staleness([0]).chains, seed=np.uint64(2**64 - 1))
    assert Trace.load(trace.save(tmp_path / "t.npz")).seed == 2**64 - 1
    trace = recorded(burn_in=np.int32(2), thin=np.int8(3), workers=np.int64(5))
    loaded = Trace.load(trace.save(tmp_path / "t.npz"))
    assert (loaded.burn_in, loaded.thin, loaded.workers) == (2, 3, 5)


def test_no_pickle_is_needed_to_read_it(tmp_path):
    with np.load(recorded().save(tmp_path / "t.npz"), allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "iubf" for name in file.files)


def test_others_may_read_it_as_the_umask_says(tmp_path):
    before = os.umask(0o027)
    try:
        mode = Trace.from_staleness([0]).save(tmp_path / "t.npz").stat().st_mode
    finally:
        os.umask(before)
    assert mode & 0o777 == 0o640


class TestFailedWrite:
    @pytest.fixture
    def folder(self, tmp_path):
        Trace.constant_staleness(1, 5).save(tmp_path / "t.npz")
        return tmp_path

    @staticmethod
    def half_a_file(file, **arrays):
        file.write(b"half a file")
        raise OSError(28, "No space left on device")

    @staticmethod
    def interrupted(*arguments):
        raise KeyboardInterrupt

    def assert_untouched(self, folder):
        assert os.listdir(folder) == ["t.npz"]
        assert_same(Trace.load(folder / "t.npz"), Trace.constant_staleness(1, 5))

    def test_a_full_disk_leaves_the_old_file_and_nothing_else(self, folder, monkeypatch):
        monkeypatch.setattr(np, "savez_compressed", self.half_a_file)
        with pytest.raises(OSError, match="No space left"):
            recorded().save(folder / "t.npz")
        self.assert_untouched(folder)

    def test_so_does_an_interrupt_before_the_last_moment(self, folder, monkeypatch):
        monkeypatch.setattr(os, "replace", self.interrupted)
        with pytest.raises(KeyboardInterrupt):
            recorded().save(folder / "t.npz")
        self.assert_untouched(folder)

    def test_a_new_file_replaces_the_old_one(self, folder):
        recorded().save(folder / "t.npz")
        assert os.listdir(folder) == ["t.npz"]
        assert_same(Trace.load(folder / "t.npz"), recorded())


class TestDamage:
    @pytest.mark.long
    def test_a_flipped_byte_anywhere_is_noticed_or_harmless(self, tmp_path):
        """Harmless are the few bytes of a zip file that say nothing about its contents, such as dates."""
        trace = recorded()
        whole, path, noticed = trace.save(tmp_path / "whole.npz").read_bytes(), tmp_path / "flipped.npz", 0
        positions = range(0, len(whole), 3)
        for position in positions:
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
            try:
                loaded = Trace.load(path)
            except TraceError:
                noticed += 1
            else:
                assert_same(loaded, trace)
        assert noticed > 0.7 * len(positions)

    @pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
    def test_a_truncated_file(self, part, tmp_path):
        whole = recorded().save(tmp_path / "whole.npz").read_bytes()
        path = tmp_path / "truncated.npz"
        path.write_bytes(whole[: int(part * len(whole))])
        with pytest.raises(TraceError, match=r"truncated\.npz is not a readable stalegrad trace"):
            Trace.load(path)

    @pytest.mark.parametrize(
        "contents",
        [
            b"a text\n" * 100,
            bytes(range(256)),
            in_memory(np.save, np.arange(3)),
            in_memory(np.savez, a=np.arange(3)),
            in_memory(np.savez, header=np.frombuffer(b"not json", np.uint8)),
            in_memory(np.savez, header=np.frombuffer(b"[1, 2]", np.uint8)),
            in_memory(np.savez, header=np.frombuffer(b'{"format": "stalegrad-trace-99", "arrays": []}', np.uint8)),
        ],
        ids=["text", "bytes", "npy", "npz", "no-json", "list", "other-format"],
    )
    def test_a_foreign_file(self, contents, tmp_path):
        (tmp_path / "foreign.npz").write_bytes(contents)
        with pytest.raises(TraceError, match=r"foreign\.npz is not a readable stalegrad trace"):
            Trace.load(tmp_path / "foreign.npz")

    def test_a_folder(self, tmp_path):
        with pytest.raises(TraceError, match=r"is not a readable stalegrad trace .*IsADirectoryError"):
            Trace.load(tmp_path)

    def test_a_pickle_inside_is_not_executed(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "executed"),)

        np.savez(tmp_path / "bomb.npz", header=np.array([Bomb()], object))
        with pytest.raises(TraceError, match="allow_pickle=False"):
            Trace.load(tmp_path / "bomb.npz")
        assert not (tmp_path / "executed").exists()

    def test_a_missing_file_is_a_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            Trace.load(tmp_path / "nowhere.npz")

    @pytest.mark.parametrize(
        ("setting", "reason"),
        [
            ({"thin": 0}, r"record\.settings\.thin=0: is out of range"),
            ({"burn_in": 2.5}, r"burn_in=2\.5: is not a whole number"),
            ({"stranger": 1}, "stranger=1: is not known"),
            ({"seed": 3}, "the trace has seed 9223372036854775807, and its run had 3"),
        ],
    )
    def test_unsound_settings(self, setting, reason, tmp_path):
        path = recorded().save(tmp_path / "unsound.npz")
        with np.load(path) as file:
            arrays = dict(file)
        header = json.loads(arrays.pop("header").tobytes())
        header["record"]["settings"] |= setting
        np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
        with pytest.raises(TraceError, match=rf"unsound\.npz is not a readable stalegrad trace .*{reason}"):
            Trace.load(path)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"0/count": np.arange(3)}, "differ in length"),
            ({"0/worker": None}, "other contents than its header says"),
            ({"0/stranger": np.arange(4)}, "other contents than its header says"),
            ({"1/staleness": np.full(4, 9)}, "a version that did not exist"),
            ({"1/accepted": np.ones(4)}, "column accepted is float64"),
            ({"chains": 3}, "column worker is NoneType"),
            ({"chains": "two"}, "TypeError"),
            ({"arrays": []}, "other contents than its header says"),
            ({"seed": -1}, "seed=-1: is out of range"),
            ({"record": {"kernels": []}}, r"record=.*has no settings"),
            ({"record": 7}, "record=7: is not a table"),
        ],
    )
    def test_sound_files_with_unsound_contents(self, changes, reason, tmp_path):
        path = Trace.constant_staleness(2, 4, chains=2).save(tmp_path / "unsound.npz")
        with np.load(path) as file:
            arrays = dict(file)
        header = json.loads(arrays.pop("header").tobytes())
        for name, value in changes.items():
            (arrays if "/" in name else header)[name] = value
        arrays = {name: array for name, array in arrays.items() if array is not None}
        np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
        with pytest.raises(TraceError, match=rf"unsound\.npz is not a readable stalegrad trace .*{reason}"):
            Trace.load(path)
