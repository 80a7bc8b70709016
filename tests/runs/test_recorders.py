"""Recorders that are given the draws of chains elsewhere, in blocks: nothing is lost, doubled or out of place."""

import itertools

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.collector import DrawBlock
from stalegrad.protocol.draws import Thinning
from stalegrad.runs.recorders.disk import DiskRecorder
from stalegrad.runs.recorders.memory import Recorder
from stalegrad.runs.store import arrays
from stalegrad.runs.store.arrays import StoredArray
from stalegrad.runs.store.folder import chain_folder, inspect
from stalegrad.testing import small_model

KERNEL = sg.SGLD(step_size=0.002)
SIZE = small_model().size


def block(first, last):
    """Draws of these numbers, each of which is its number throughout, and so are its statistics but for the sign."""
    numbers = np.arange(first, last, dtype=np.float32)
    return DrawBlock(np.repeat(numbers[:, None], SIZE, axis=1), -numbers, numbers / 2)


def assert_numbered(draws, numbers):
    np.testing.assert_array_equal(draws, np.repeat(np.asarray(numbers, np.float32)[:, None], SIZE, axis=1))


def test_blocks_follow_each_other_in_memory():
    recorder = Recorder(None, 2, 12, Thinning(), small_model())
    recorder.collect(1, block(100, 112))
    for first, last in ((0, 5), (5, 6), (6, 12)):
        recorder.collect(0, block(first, last))
    assert_numbered(recorder.draws[0], range(12))
    assert_numbered(recorder.draws[1], range(100, 112))
    np.testing.assert_array_equal(recorder.stats.gradient_norm[0], -np.arange(12))
    np.testing.assert_array_equal(recorder.stats.kinetic_temperature[0], np.arange(12) / 2)


def test_of_chains_of_different_lengths_the_draws_are_those_that_all_have():
    """What has not been made is not shown; the rest of the longer chain is in its own draws."""
    recorder = Recorder(None, 2, 12, Thinning(), small_model())
    recorder.collect(0, block(0, 7))
    recorder.collect(1, block(100, 103))
    assert recorder.draws.shape == (2, 3, SIZE)
    assert recorder.stats.gradient_norm.shape == (2, 3)
    assert_numbered(recorder.draws[0], range(3))
    assert_numbered(recorder.chain_draws[0], range(7))
    assert_numbered(recorder.chain_draws[1], range(100, 103))


@pytest.mark.parametrize("cuts", [(0, 17), (0, 3, 4, 11, 17)])
def test_blocks_follow_each_other_on_disk_however_long_they_are(tmp_path, monkeypatch, cuts):
    """Also where one of them is longer than the buffers, which have room for four draws."""
    monkeypatch.setattr(arrays, "CHUNK_ROWS", 4)
    folder = tmp_path / "x"
    sg.sample(small_model(), KERNEL, steps=3, engine="inline", progress=False, store=folder)
    recorder = DiskRecorder(folder, inspect(folder).chains, Thinning(), SIZE, np.float32, 60.0, "stop")
    for first, last in itertools.pairwise(cuts):
        recorder.collect(0, block(first, last))
    recorder.checkpoint(0).save(Chain(KERNEL, small_model().initial()[None], 0, 0), [])
    assert recorder.settle() is None
    assert_numbered(StoredArray(chain_folder(folder, 0) / "draws", 20)[3:], range(17))
    stats = StoredArray(chain_folder(folder, 0) / "stats", 20)[3:]
    np.testing.assert_array_equal(stats, np.stack([-np.arange(17), np.arange(17) / 2], axis=1))


def test_a_window_on_disk_promises_no_more_updates_than_its_buffers_have_room_for(tmp_path, monkeypatch):
    """Every third update is a draw, and there is room for four draws, or for one less after one has come."""
    monkeypatch.setattr(arrays, "CHUNK_ROWS", 4)
    folder = tmp_path / "x"
    sg.sample(small_model(), KERNEL, steps=3, thin=3, engine="inline", progress=False, store=folder)
    recorder = DiskRecorder(folder, inspect(folder).chains, Thinning(thin=3), SIZE, np.float32, 60.0, "stop")
    record = recorder.of(0)
    assert [record.window(3, updates)[1] for updates in (5, 12, 13, 1000)] == [5, 12, 12, 12]
    recorder.collect(0, block(0, 1))
    assert [record.window(6, updates)[1] for updates in (5, 12, 1000)] == [5, 9, 9]
    recorder.close()


def test_a_window_in_memory_begins_behind_the_draws_that_are_there():
    record = Recorder(None, 1, 12, Thinning(burn_in=2, thin=3), small_model()).of(0)
    assert [record.window(version, 5)[0].entry for version in (0, 4, 5, 7, 8)] == [0, 0, 1, 1, 2]
