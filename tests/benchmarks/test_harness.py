"""The arithmetic of timings and bars, without any timing."""

import math

import pytest

pytestmark = pytest.mark.long


@pytest.fixture
def harness(benchmark_module):
    return benchmark_module("harness")


@pytest.fixture
def results(benchmark_module):
    return benchmark_module("results")


def test_candidates_take_turns_and_each_round_starts_with_another_one(harness):
    called, ticks = [], iter(range(1000))
    cases = [harness.Case(name, lambda name=name: called.append(name), 10) for name in "abc"]
    timings = harness.measure(cases, rounds=3, warm_up=1, clock=lambda: float(next(ticks)))
    assert "".join(called) == "abc" + "abc" + "bca" + "cab"
    assert [timing.seconds for timing in timings] == [(1.0, 1.0, 1.0)] * 3


def test_rates_come_from_the_median_and_the_best_round(harness):
    timing = harness.Timing("a", 100, (1.0, 4.0, 2.0))
    assert timing.rate == pytest.approx(50)
    assert timing.best_rate == pytest.approx(100)
    assert (timing.median, timing.best) == pytest.approx((2e4, 1e4))


@pytest.mark.parametrize(
    ("ours", "peer", "at_least", "also", "ratio", "holds"),
    [
        (10.0, 2.0, True, True, 5.0, True),
        (9.0, 2.0, True, True, 4.5, False),
        (10.0, 2.0, False, True, 5.0, True),
        (11.0, 2.0, False, True, 5.5, False),
        (4.0, None, False, True, 4.0, True),
        (6.0, None, False, True, 6.0, False),
        (10.0, 2.0, True, False, 5.0, False),
        (math.nan, 2.0, True, True, math.nan, False),
        (math.nan, 2.0, False, True, math.nan, False),
    ],
)
def test_bars_hold_when_the_ratio_is_on_the_right_side(results, ours, peer, at_least, also, ratio, holds):
    line = results.Bar("x", ours, peer, 5.0, at_least=at_least, also=also).line()
    assert {"name", "ours", "peer", "ratio", "bar", "holds"} <= line.keys()
    assert line["ratio"] == pytest.approx(ratio, nan_ok=True)
    assert line["holds"] is holds


def test_the_time_to_a_precision_is_when_the_error_stays_below(benchmark_module):
    first_below = benchmark_module("crossing").first_below
    assert first_below([1.0, 10.0, 100.0], [4.0, 1.0, 0.25], 0.5) == pytest.approx(10**1.5)
    assert first_below([1.0, 10.0, 100.0, 1000.0], [4.0, 0.1, 2.0, 0.5], 1.0) == pytest.approx(10**2.5)
    assert first_below([1.0, 10.0], [4.0, 2.0], 1.0) is None
    assert first_below([1.0, 10.0], [0.4, 0.2], 1.0) == 1.0
    assert first_below([1.0, 10.0], [math.nan, 0.2], 1.0) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.0, "0"), (1234567.0, "1,234,567"), (12.345, "12.3"), (2.5e-5, "2.50e-05"), (math.inf, "inf")],
)
def test_figures_are_shown_as_people_write_them(results, value, shown):
    assert results.figure(value) == shown
