"""Rows on disk that are cut, come in pieces or meet a full disk: plain cases of what test_arrays.py tries at length."""

import numpy as np
import pytest
import zarr

from stalegrad.runs.store import arrays
from stalegrad.runs.store.arrays import GrowingArray, StoredArray, create
from stalegrad.runs.store.draws import StoredDraws


@pytest.mark.parametrize("width", [7, 8])
def test_rows_that_are_cut_come_back_whole(tmp_path, monkeypatch, width):
    """Rows of seven or eight numbers in files of two each: of seven, the last file has one."""
    monkeypatch.setattr(arrays, "LARGEST_CHUNK", 16)
    create(tmp_path / "x", (width,), "float64", rows=3)
    values = np.arange(5.0 * width).reshape(5, width)
    array = GrowingArray(tmp_path / "x", 0)
    array.write(0, values)
    array.flush()
    assert len(list((tmp_path / "x" / "c" / "0").iterdir())) == 4
    np.testing.assert_array_equal(StoredArray(tmp_path / "x", 5)[:], values)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x", mode="r")[:], values)


def test_rows_that_are_written_again_after_a_full_disk_are_where_they_belong(tmp_path):
    """Two of five chunks were written when the disk was full; the same call goes on with the third."""
    create(tmp_path / "x", (2,), "float64", rows=4)
    values = np.arange(40.0).reshape(20, 2)
    array = GrowingArray(tmp_path / "x", 0)
    array.write(0, values[:2])
    write, full = array._chunks.write, [2]

    def fails_once(chunk, rows):
        if chunk in full:
            full.remove(chunk)
            raise OSError("the disk is full")
        write(chunk, rows)

    array._chunks.write = fails_once
    with pytest.raises(OSError, match="full"):
        array.write(2, values[2:])
    array.write(2, values[2:])
    array.flush()
    np.testing.assert_array_equal(StoredArray(tmp_path / "x", 20)[:], values)


def test_chains_are_chosen_as_numpy_chooses_them():
    """Of three chains of which one is longer; the draws that all have are counted."""
    whole = np.arange(3 * 5 * 2.0).reshape(3, 5, 2)
    stored = StoredDraws((whole[0], np.concatenate([whole[1], whole[1]]), whole[2]))
    assert stored.shape == whole.shape
    for key in (slice(1, None), slice(None, None, -1), [2, 0], -1, (slice(2, None), -1), (slice(1, 3), slice(1, 3), 0)):
        np.testing.assert_array_equal(stored[key], whole[key], err_msg=str(key))
