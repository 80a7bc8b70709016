"""Traces over time in a bounded number of bins: nothing is lost when bins get wider, and shares are shares."""

import numpy as np
import pytest

from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.trace_bins import BINS, TraceBins
from stalegrad.runs.observers.pictures import binned

WORKERS = 2


def rows(time, seconds, accepted=None):
    """Rows of two workers by turns."""
    count = len(time)
    return ChainTrace(
        worker=np.arange(count) % WORKERS, count=np.arange(count) // WORKERS, staleness=np.zeros(count, int),
        accepted=np.ones(count, bool) if accepted is None else accepted, time=np.asarray(time, float),
        gradient_seconds=np.asarray(seconds, np.float32),
    )  # fmt: skip


def test_nothing_is_lost_when_bins_get_wider():
    bins, accepted = TraceBins(1, WORKERS), np.arange(1000) % 5 != 0
    for begin in range(0, 1000, 100):
        part = slice(begin, begin + 100)
        bins.add(0, rows(np.arange(1000)[part] * 0.01, np.full(100, 0.005), accepted[part]), 100)
    assert bins.used.sum() == np.count_nonzero(accepted)
    assert bins.dropped.sum() == np.count_nonzero(~accepted)
    assert bins.law.sum() == bins.heat.sum() == bins.total == bins.seen == 1000
    assert bins.seconds.sum() == pytest.approx(1000 * 0.005, abs=0.006)  # the first began before the clock did
    assert bins.end < BINS * bins.width <= 2 * bins.end


def test_workers_that_compute_half_of_the_time_are_busy_for_half_of_it():
    bins = TraceBins(1, WORKERS)
    bins.add(0, rows(1 + np.arange(2000) * 0.5, np.full(2000, 0.5)), 2000)  # a gradient a second each
    assert bins.busy(60.0) == pytest.approx(0.5, rel=0.1)
    assert np.mean(bins.busy_by_lane()) == pytest.approx(0.5, rel=0.02)


def test_a_long_gradient_is_spread_over_the_time_in_which_it_was_computed():
    bins = TraceBins(1, 1)
    bins.add(0, rows([100.0], [40.0]), 1)
    busy = bins.busy_by_lane()[0]
    begin, end = int(60 / bins.width), int(100 / bins.width)
    assert np.all(busy[begin + 1 : end] == 1.0)
    assert not busy[: begin - 1].any()


def test_rows_that_stand_for_others_never_make_workers_busier_than_all_of_the_time():
    bins = TraceBins(1, WORKERS)
    bins.add(0, rows(np.linspace(1.0, 10.0, 20), np.full(20, 0.9)), 40)  # half of the rows, by chance the long ones
    assert bins.busy_by_lane().max() == 1.0
    assert bins.busy(5.0) <= 1.0
    assert 0.9 < max(binned(bins)["share"]) <= 1.0


def test_gradients_that_a_busy_server_looked_at_late_make_no_worker_busier_than_all_of_the_time():
    """They seem to overlap: each is taken to have ended when it was dealt with."""
    bins = TraceBins(1, 1)
    bins.add(0, rows([1.0, 2.0, 2.01, 2.02, 3.0], [0.9] * 5), 5)
    assert bins.seconds.max() > bins.width
    assert max(binned(bins)["share"]) == 1.0
