"""Displays see the rows of a trace while it grows, also those that were taken a moment ago."""

import threading

import pytest

from stalegrad.protocol.trace_builder import TraceBuilder, _blocks


def grown(builder, first, last):
    for number in range(first, last):
        builder.append(number % 3, number, 0, True, 0.1, float(number), 0, 0.5)


def counts(builder, since, most=1000):
    total, rows = builder.recent(since, most)
    return total, rows.count.tolist()


def test_rows_since_some_number():
    builder = TraceBuilder()
    grown(builder, 0, 10)
    assert counts(builder, 0) == (10, list(range(10)))
    assert counts(builder, 7) == (10, [7, 8, 9])
    assert counts(builder, 10) == (10, [])


def test_those_that_were_taken_last_are_still_seen():
    builder = TraceBuilder()
    assert counts(builder, 0) == (0, [])  # from now on somebody looks
    grown(builder, 0, 10)
    assert len(builder.take()) == 10
    grown(builder, 10, 14)
    assert counts(builder, 8) == (14, [8, 9, 10, 11, 12, 13])
    builder.take()
    grown(builder, 14, 15)
    assert counts(builder, 8) == (15, [10, 11, 12, 13, 14])


def test_nothing_is_kept_for_nobody():
    builder = TraceBuilder()
    grown(builder, 0, 10)
    builder.take()
    assert counts(builder, 0) == (10, [])


@pytest.mark.parametrize(("end", "most"), [(100_000, 4096), (5000, 4096), (3, 4096), (100_000, 100), (100_000, 256)])
def test_of_many_rows_some_blocks_with_the_last_one(end, most):
    blocks = _blocks(0, end, most)
    chosen = [number for low, high in blocks for number in range(low, high)]
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(end, most)
    assert chosen[-1] == end - 1


def test_while_another_thread_adds_and_takes():
    builder, stop = TraceBuilder(), threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            grown(builder, number, number + 50)
            number += 50
            if number % 500 == 0:
                builder.take()

    thread = threading.Thread(target=work)
    thread.start()
    seen = 0
    for _ in range(300):
        total, rows = builder.recent(seen, 1 << 30)
        numbers = rows.count.tolist()
        assert numbers == list(range(total - len(numbers), total))
        seen = total
    stop.set()
    thread.join()
