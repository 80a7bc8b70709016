"""Arrays that grow on disk: what is written, in whatever pieces and however often, any reader of Zarr finds there."""

import itertools

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import stalegrad as sg
from stalegrad.runs.store import arrays
from stalegrad.runs.store.arrays import GrowingArray, StoredArray, create

PLACES = itertools.count()


class Failing:
    """A disk that is full whenever the plan says so."""

    def __init__(self, array, plan):
        self._write, self._plan = array._chunks.write, iter(plan)

    def __call__(self, chunk, rows):
        before, after = next(self._plan, (False, False))
        if before:
            raise OSError
        self._write(chunk, rows)
        if after:
            raise OSError


def until_it_works(step):
    while True:
        try:
            return step()
        except OSError:
            pass


@pytest.fixture
def cut_rows(monkeypatch):
    monkeypatch.setattr(arrays, "LARGEST_CHUNK", 16)


@pytest.mark.usefixtures("cut_rows")
@given(
    shape=st.sampled_from([(), (1,), (3,), (7,), (2, 3)]),
    chunk=st.integers(1, 5),
    dtype=st.sampled_from(["float32", "float64", "int64"]),
    pieces=st.lists(st.integers(0, 12), max_size=6),
    reopened=st.lists(st.booleans()),
    failures=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8),
    by_column=st.booleans(),
)
@pytest.mark.long
def test_rows_in_any_pieces_are_what_zarr_reads(
    tmp_path_factory, shape, chunk, dtype, pieces, reopened, failures, by_column
):
    folder = tmp_path_factory.getbasetemp() / f"array-{next(PLACES)}"
    create(folder, shape, dtype, {"of": "a test"}, rows=chunk, by_column=by_column and len(shape) == 1)
    values = np.random.default_rng(0).integers(-9, 9, (sum(pieces), *shape)).astype(dtype)
    array, first = GrowingArray(folder, 0), 0
    for piece, again in itertools.zip_longest(pieces, reopened[: len(pieces)]):
        array._chunks.write = Failing(array, failures)
        until_it_works(lambda: array.write(first, values[first : first + piece]))  # noqa: B023
        first += piece
        until_it_works(array.flush)
        array = GrowingArray(folder, first) if again else array
    stored = StoredArray(folder, first)
    np.testing.assert_array_equal(zarr.open_array(folder, mode="r")[...], values)
    np.testing.assert_array_equal(stored[...], values)
    np.testing.assert_array_equal(stored[::-2], values[::-2])
    mixed = np.random.default_rng(1).permutation(first)
    np.testing.assert_array_equal(stored[mixed], values[mixed])
    assert zarr.open_array(folder, mode="r").attrs == {"of": "a test"}


@pytest.mark.parametrize("committed", [0, 3, 4, 5])
def test_what_was_not_committed_is_cut_off(tmp_path, committed):
    """By the next writer, whatever the one before had written when it was killed."""
    create(tmp_path / "x", (2,), "float64", rows=4)
    values = np.arange(24.0).reshape(12, 2)
    killed = GrowingArray(tmp_path / "x", 0)
    killed.write(0, values)
    killed.flush()
    again = GrowingArray(tmp_path / "x", committed)
    assert sorted(int(path.name) for path in (tmp_path / "x" / "c").iterdir()) == list(range(-(-committed // 4)))
    again.write(committed, -values[committed:9])
    again.flush()
    expected = np.concatenate([values[:committed], -values[committed:9]])
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x", mode="r")[:], expected)


@pytest.mark.parametrize(("there", "committed"), [(0, 1), (4, 5), (5, 6)])
def test_rows_that_are_not_there_are_missed(tmp_path, there, committed):
    create(tmp_path / "x", (2,), "float64", rows=4)
    array = GrowingArray(tmp_path / "x", 0)
    array.write(0, np.ones((there, 2)))
    array.flush()
    for opened in (StoredArray, GrowingArray):
        with pytest.raises(sg.StoreError, match=f"has {there} rows; {committed} were committed"):
            opened(tmp_path / "x", committed)


def test_a_row_does_not_keep_its_chunk(tmp_path):
    create(tmp_path / "x", (2,), "float64", rows=100)
    array = GrowingArray(tmp_path / "x", 0)
    array.write(0, np.ones((100, 2)))
    array.flush()
    assert StoredArray(tmp_path / "x", 100)[3].base is None


class TestDamage:
    """Of a chunk: said, and never taken for draws."""

    @pytest.fixture
    def chunk(self, tmp_path):
        create(tmp_path / "x", (2,), "float64", rows=4)
        array = GrowingArray(tmp_path / "x", 0)
        array.write(0, np.ones((10, 2)))
        array.flush()
        return tmp_path / "x" / "c" / "1" / "0"

    def read(self, chunk):
        return StoredArray(chunk.parents[2], 10)[4:8]

    @pytest.mark.parametrize("at", [0, 5, 13, 20, -1])
    def test_a_flipped_bit(self, chunk, at):
        content = bytearray(chunk.read_bytes())
        content[at] ^= 4
        chunk.write_bytes(content)
        with pytest.raises(sg.StoreError, match=r"chunk 1 of .* is damaged: its checksum.* rows 4 to 7; all others"):
            self.read(chunk)

    @pytest.mark.parametrize("size", [0, 3, 19])
    def test_a_cut_file(self, chunk, size):
        chunk.write_bytes(chunk.read_bytes()[:size])
        with pytest.raises(sg.StoreError, match="chunk 1 of"):
            self.read(chunk)

    def test_a_lost_file(self, chunk):
        chunk.unlink()
        with pytest.raises(sg.StoreError, match="it is not there"):
            self.read(chunk)

    @pytest.mark.parametrize(("at", "value"), [(4, 2**31 - 1), (4, 8), (12, 2**31 - 1)])
    def test_sizes_that_are_a_lie(self, chunk, at, value):
        """With a checksum that fits: whoever gave us the folder can write one, too."""
        from stalegrad.runs.store.chunks import _checksum

        content = bytearray(chunk.read_bytes()[:-4])
        content[at : at + 4] = value.to_bytes(4, "little")
        chunk.write_bytes(content + _checksum(bytes(content)))
        with pytest.raises(sg.StoreError, match="it says that it holds"):
            self.read(chunk)

    def test_content_that_nobody_has_compressed(self, chunk):
        from stalegrad.runs.store.chunks import _checksum

        content = bytearray(chunk.read_bytes()[:-4])
        content[16:] = bytes(len(content) - 16)
        content[2] = 0  # compressed, it says
        chunk.write_bytes(content + _checksum(bytes(content)))
        with pytest.raises(sg.StoreError, match="chunk 1 of"):
            self.read(chunk)
