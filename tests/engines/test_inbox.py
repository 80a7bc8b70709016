"""Inboxes between threads: nothing is lost or reordered, whether their readers sleep or spin."""

import threading
import time
from queue import Empty

import pytest

from stalegrad.engines import inbox as module
from stalegrad.engines.inbox import Inbox


def test_first_in_first_out():
    inbox = Inbox()
    for number in range(5):
        inbox.put(number)
    assert [inbox.get() for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("signalling", [None, Inbox()], ids=["alone", "signalling"])
def test_nothing_comes(signalling):
    inbox = Inbox()
    assert inbox.get(timeout=0.01, signalling=signalling) is None
    assert inbox.get(timeout=0.0, signalling=signalling) is None


def test_an_inbox_may_hold_none():
    """The end of a worker is told by None, which is no timeout there: who waits for ever gets what was put in."""
    inbox = Inbox()
    inbox.put(None)
    inbox.put(1)
    assert (inbox.get(), inbox.get()) == (None, 1)


def test_who_waits_signals_the_other_reader_once():
    """Whether something is there for itself or not; and nobody where it is told of nobody."""
    inbox, other = Inbox(), Inbox()
    inbox.put(1)
    assert inbox.get(signalling=other) == 1
    assert other._signals.tolist() == [1]
    assert inbox.get(timeout=0.0, signalling=other) is None
    assert other._signals.tolist() == [2]
    inbox.put(2)
    assert inbox.get() == 2
    other.signal()
    assert (other._signals.tolist(), inbox._signals.tolist()) == ([3], [0])


@pytest.mark.parametrize("spins", [0, 1, 200, 10**9], ids=["asleep", "hardly spinning", "as it is", "only spinning"])
def test_two_threads_that_answer_each_other(monkeypatch, spins):
    """With 10⁹ spins only a signal ends a wait: there is one for each."""
    monkeypatch.setattr(module, "SPINS", spins)
    there, back = Inbox(), Inbox()
    there._brief = back._brief = True

    def answer():
        number, signalling = there.get(), back
        while number is not None:
            back.put(number + 1)
            number = there.get(signalling=signalling)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    for number in range(2000):
        there.put(number)
        assert back.get(timeout=60, signalling=there) == number + 1
    there.put(None)
    there.signal()
    thread.join(60)
    assert not thread.is_alive()


def test_many_writers():
    """Whatever each puts in comes out in its order, and all of it."""
    inbox, writers, each = Inbox(), 6, 500

    def write(writer):
        for number in range(each):
            inbox.put((writer, number))
            inbox.signal()

    threads = [threading.Thread(target=write, args=(writer,), daemon=True) for writer in range(writers)]
    for thread in threads:
        thread.start()
    found = [inbox.get(timeout=60) for _ in range(writers * each)]
    for writer in range(writers):
        assert [number for who, number in found if who == writer] == list(range(each))


class Late:
    """A queue in which nothing is ever found at once, and something whenever it is waited for."""

    def empty(self):
        return True

    def get_nowait(self):
        raise Empty

    def get(self, timeout):
        return "late"


def test_a_reader_that_waited_long_sleeps_at_once(monkeypatch):
    """Spinning for ever would hang here: after a long wait nobody spins, and no signal is needed."""
    inbox = Inbox()
    inbox._brief, inbox._queue = True, Late()
    monkeypatch.setattr(module, "BRIEF", 0)  # every wait is a long one, however busy the machine is
    monkeypatch.setattr(module, "SPINS", 200)
    assert inbox.get(timeout=60) == "late"
    monkeypatch.setattr(module, "SPINS", 10**12)
    assert inbox.get(timeout=60) == "late"


def test_a_reader_for_whom_nothing_came_sleeps_at_once(monkeypatch):
    """It would spin at every look, and keep a core busy for as long as nothing comes."""
    spins = []
    monkeypatch.setattr(module, "_signal_and_spin", lambda theirs, mine, seen, count: spins.append(count))
    inbox = Inbox()
    inbox._brief = True
    for _ in range(3):
        assert inbox.get(timeout=0.0) is None
    assert spins == [module.SPINS]


def test_what_comes_between_a_look_and_a_wait_is_seen():
    """A signal that was given before the reader spins, of something put in after it looked, is not waited for."""
    inbox = Inbox()
    seen = inbox._signals[0]
    inbox.put(1)
    inbox.signal()
    begun = time.process_time()
    module._signal_and_spin(module._NO_SIGNALS, inbox._signals, seen, 10**12)
    assert time.process_time() - begun < 10  # and not for ever
