"""Rows of a trace as they happen: what is not known stays unknown, and what was taken is gone."""

from dataclasses import replace

import numpy as np

import stalegrad as sg
from stalegrad.protocol.trace_builder import TraceBuilder

ROWS = sg.Trace.constant_staleness(0, 2).chains[0]


def test_what_is_not_known_stays_unknown():
    assert ROWS.time is None
    builder = TraceBuilder()
    builder.extend(replace(ROWS, step_size=np.ones(2)))
    assert builder.build().time is builder.build().scanned is None
    builder.append(0, 2, 1, True, 0.5, 7.0, 1, np.nan)
    built = builder.build()
    np.testing.assert_array_equal(built.time, [np.nan, np.nan, 7.0])
    np.testing.assert_array_equal(built.count, [*ROWS.count, 2])
    assert built.scanned.tolist() == [-1, -1, 1]


def test_rows_are_taken_once():
    builder = TraceBuilder()
    builder.append(0, 0, 0, True, 0.5, 1.0, 0, np.nan)
    assert builder.take().count.tolist() == [0]
    assert len(builder) == len(builder.take()) == 0
    builder.append(1, 0, 1, True, 0.5, 2.0, 0, np.nan)  # as old as rows that are gone: no whole trace begins so
    assert builder.take().worker.tolist() == [1]
