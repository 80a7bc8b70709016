"""Rows of a trace as small numbers: what goes in comes out, and it takes a few bytes a gradient."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stalegrad as sg
from stalegrad.engines.simulation import Exponential, LogNormal
from stalegrad.protocol.chain_trace import unchecked
from stalegrad.runs.store.stored_trace import CHUNK_ROWS, GrowingTrace, StoredTrace, create_trace
from stalegrad.runs.store.trace_columns import TICKS, decode, encode

CLUSTERS = {
    "turns": {"workers": 4},
    "exponential": {"workers": 8, "compute": Exponential(mean=1e-3)},
    "dropped": {"workers": 5, "compute": LogNormal(mean=1e-4, variation=0.5), "max_staleness": 3},
    "waiting": {"workers": 5, "compute": LogNormal(mean=1e-4, variation=0.5), "max_staleness": 6, "policy": "wait"},
}


def executed(steps, **cluster):
    """A simulated trace with decreasing step sizes."""
    (chain,) = sg.simulate(steps=steps, **cluster).chains
    step_size = np.full(len(chain), np.nan)
    step_size[chain.accepted] = 0.01 * (1 + np.arange(chain.steps)) ** -0.33
    scanned = (np.arange(len(chain)) % 7 < 3).astype(np.int8)
    return unchecked(**chain.columns() | {"step_size": step_size, "scanned": scanned})


def assert_same_rows(one, other):
    for name, column in one.columns().items():
        if name == "time":
            np.testing.assert_allclose(other.time, column, atol=0.5001 / TICKS, rtol=0)
        elif name == "gradient_seconds":
            np.testing.assert_allclose(other.gradient_seconds, column, rtol=0.0221)
        else:
            np.testing.assert_array_equal(getattr(other, name), column, name)


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_what_goes_in_comes_out(cluster):
    rows = executed(3000, **cluster)
    assert_same_rows(rows, decode(encode(rows)))


@settings(deadline=None)
@given(st.lists(st.tuples(
    st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1), st.booleans(),
    st.floats(allow_nan=False), st.one_of(st.just(np.nan), st.floats(-1e11, 1e11)), st.integers(-1, 1),
    st.one_of(st.sampled_from([np.nan, 0.0]), st.floats(1e-9, 1e18)),
)))  # fmt: skip
def test_whatever_the_rows_are(rows):
    kinds = (np.int32, np.int64, np.int32, bool, float, float, np.int8, np.float32)
    worker, count, staleness, accepted, step_size, time, scanned, seconds = (
        np.array([row[k] for row in rows], kind) for k, kind in enumerate(kinds)
    )
    given_rows = unchecked(
        worker=worker, count=count, staleness=staleness, accepted=accepted,
        step_size=np.where(accepted, step_size, np.nan), time=time, scanned=scanned, gradient_seconds=seconds,
    )  # fmt: skip
    back = decode(encode(given_rows))
    assert_same_rows(given_rows, back)
    np.testing.assert_array_equal(encode(back)[:, -1], encode(given_rows)[:, -1])  # what was rounded stays as it is


def test_columns_that_are_not_there_come_back_as_unknown():
    (chain,) = sg.Trace.constant_staleness(2, 50).chains
    back = decode(encode(chain))
    assert np.isnan(back.time).all()
    assert np.isnan(back.step_size).all()
    assert (back.scanned == -1).all()
    assert np.isnan(back.gradient_seconds).all()


@pytest.mark.parametrize(
    ("column", "value"), [(0, -1), (0, 1 << 16), (1, 2), (2, -5), (3, -5), (3, 1 << 40), (6, 2), (7, -1), (7, 1 << 20)]
)
def test_numbers_that_cannot_be_are_refused(column, value):
    table = encode(executed(10, workers=1))
    table[0, column] = value
    with pytest.raises(ValueError, match="out of range"):
        decode(table)


def test_times_beyond_all_measure_are_refused():
    with pytest.raises(sg.StoreError, match="smaller virtual seconds"):
        encode(executed(10, workers=1, compute=1e15))


def written_at_the_second_try(trace, first, rows):
    """The next chunk is written, and then the disk is full; from then on it is not."""
    chunks, real, failures = trace._array._chunks, trace._array._chunks.write, []

    def write(chunk, values):
        real(chunk, values)
        chunks.write = real
        raise OSError("No space left on device")

    chunks.write = write
    for step in (lambda: trace.write(first, rows), trace.flush):
        try:
            step()
        except OSError as failure:
            failures.append(failure)
            step()
    assert len(failures) == 1


class TestOnDisk:
    @pytest.mark.parametrize("pieces", [[10], [1, 2, 3], [CHUNK_ROWS], [CHUNK_ROWS - 1, 1, 1], [5, 2 * CHUNK_ROWS + 7]])
    def test_pieces_of_any_length(self, tmp_path, pieces):
        rows = executed(sum(pieces), workers=3)
        create_trace(tmp_path / "trace")
        first, trace = 0, GrowingTrace(tmp_path / "trace", 0)
        for k, piece in enumerate(pieces):
            part = rows.part(slice(first, first + piece))
            written_at_the_second_try(trace, first, part)
            first += piece
            if k % 2:
                trace = GrowingTrace(tmp_path / "trace", first)  # as by another process
        stored = StoredTrace(tmp_path / "trace", len(rows), rows.steps)
        assert_same_rows(rows, stored)
        assert [len(block) for block in stored.blocks()] == [len(block) for block in rows.blocks()]
        assert stored.seconds == pytest.approx(rows.seconds, abs=1e-6)
        np.testing.assert_array_equal(stored.of_updates(np.arange(1, rows.steps, 3)).count, rows.updates().count[1::3])

    @pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
    def test_it_takes_a_few_bytes_a_gradient(self, tmp_path, cluster):
        """Before, with 8 bytes a column, these took 9 to 19. Decreasing step sizes are up to 2 of what is left."""
        rows = executed(CHUNK_ROWS, **cluster)
        create_trace(tmp_path / "trace")
        GrowingTrace(tmp_path / "trace", 0).write(0, rows)  # a whole chunk
        size = sum(path.stat().st_size for path in (tmp_path / "trace").rglob("*") if path.is_file())
        assert size / len(rows) < 5.0
