"""How engines wait, with a clock and sleeps of our own: nothing here takes any time."""

from types import SimpleNamespace

import pytest

from stalegrad.engines import waiting
from stalegrad.engines.waiting import BRIEF, AdaptiveWait, PollingSleep


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only in sleeps, and a microsecond at every look at the clock."""
    state = SimpleNamespace(now=0.0, sleeps=[], yields=0)

    def read():
        state.now += 1e-6
        return state.now

    def sleep(seconds):
        state.sleeps.append(seconds)
        state.now += seconds

    def yield_core():
        state.yields += 1

    fake = SimpleNamespace(perf_counter=read, perf_counter_ns=lambda: round(read() * 1e9), sleep=sleep)
    monkeypatch.setattr(waiting, "time", fake)
    monkeypatch.setattr(waiting, "os", SimpleNamespace(sched_yield=yield_core))
    return state


def test_a_polling_sleep_is_late_by_a_sixteenth_and_never_by_more_than_two_milliseconds(clock):
    for due in (1e-4, 1e-3, 1e-2, 1.0):
        begun = clock.now
        assert PollingSleep(lambda begun=begun, due=due: clock.now >= begun + due)() is True
        late = clock.now - begun - due
        assert late <= min(max(due / 16, 20e-6), 2e-3) + 1e-5


def test_an_idle_process_polls_five_hundred_times_a_second(clock):
    assert PollingSleep(lambda: False)(10.0) is False
    assert 10.0 <= clock.now < 10.01
    assert 5000 <= len(clock.sleeps) < 5200
    assert clock.yields == 0


def test_what_is_there_already_is_not_slept_for(clock):
    assert PollingSleep(lambda: True)(0.0) is True
    assert PollingSleep(lambda: False)(0.0) is False
    assert clock.sleeps == []


def test_an_adaptive_wait_polls_only_after_a_brief_wait_and_for_as_long_as_that(clock):
    waits = iter([50e-6, 1.0, 1.0])  # seconds until each sleeper is woken

    def sleep():
        clock.now += next(waits)
        return True

    waiting_for = AdaptiveWait(lambda: False, sleep)
    waiting_for.wait()
    assert clock.yields == 0  # nothing is known yet
    waiting_for.wait()
    spun = clock.yields
    assert 0 < spun * 1e-6 <= BRIEF * 1e-9  # the last wait was brief: looked again and again, then slept
    waiting_for.wait()
    assert clock.yields == spun  # the last wait was long: slept straight away
