"""Rows of a trace: cut, joined and counted."""

import numpy as np

from stalegrad.protocol.chain_trace import ChainTrace, joined


def made(worker, count, accepted, **more):
    """Of fresh gradients."""
    columns = {"worker": np.array(worker), "count": np.array(count), "accepted": np.array(accepted, bool)}
    return ChainTrace(staleness=np.zeros(len(worker), int), **columns, **more)


STEPS = np.array([1, np.nan, 2, np.nan, 3])
ROWS = made([0, 1, 0, 1, 0], [0, 0, 1, 1, 2], [1, 0, 1, 0, 1], time=np.arange(5.0), step_size=STEPS)


def test_the_version_that_a_row_finds_counts_the_updates_before_it():
    assert ROWS.version.tolist() == [0, 1, 1, 2, 2]
    assert ROWS.steps == 3


def test_the_head_ends_with_the_last_of_its_updates():
    assert [len(ROWS.head(updates)) for updates in range(4)] == [0, 1, 3, 5]
    assert ROWS.head(2).steps == 2


def test_parts_are_joined_in_order_and_lack_what_one_of_them_lacks():
    both = joined([ROWS.part(slice(0, 2)), ROWS.part(slice(2, 5))])
    for name, column in ROWS.columns().items():
        np.testing.assert_array_equal(both.columns()[name], column)
    untimed = joined([ROWS, made([1], [2], [1], step_size=np.ones(1))])
    assert untimed.time is None
    assert untimed.steps == 4
    assert len(joined([])) == 0


def test_a_gradient_that_was_applied_twice_is_counted():
    assert ROWS.applied_twice() == 0
    assert joined([ROWS, ROWS]).applied_twice() == 3
    assert made([0, 1, 0], [0, 0, 0], [1, 1, 1]).applied_twice() == 1
