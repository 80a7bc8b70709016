"""Inboxes between threads: nothing is lost or reordered, whether their readers sleep or listen."""

import threading
import time

import pytest

from stalegrad.engines import inbox as module
from stalegrad.engines.inbox import Inbox


def test_first_in_first_out():
    inbox = Inbox()
    for number in range(5):
        inbox.put(number)
    assert [inbox.get() for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("waking", [None, Inbox()], ids=["alone", "waking"])
def test_nothing_comes(waking):
    inbox = Inbox()
    assert inbox.get(timeout=0.01, waking=waking) is None
    assert inbox.get(timeout=0.0, waking=waking) is None


def test_an_inbox_may_hold_none():
    """The end of a worker is told by None, which is no timeout there: who waits for ever gets what was put in."""
    inbox = Inbox()
    inbox.put(None)
    inbox.put(1)
    assert (inbox.get(), inbox.get()) == (None, 1)


@pytest.mark.parametrize("turns", [0, 1, 200, 10**9], ids=["asleep", "hardly listening", "as it is", "only listening"])
def test_two_threads_that_answer_each_other(monkeypatch, turns):
    """With 10⁹ turns only a stroke ends a wait: each is rung for."""
    monkeypatch.setattr(module, "TURNS", turns)
    there, back = Inbox(), Inbox()
    there._brief = back._brief = True

    def answer():
        number, waking = there.get(), back
        while number is not None:
            back.put(number + 1)
            number = there.get(waking=waking)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    for number in range(2000):
        there.put(number)
        assert back.get(timeout=60, waking=there) == number + 1
    there.put(None)
    there.ring()
    thread.join(60)
    assert not thread.is_alive()


def test_many_writers():
    """Whatever each puts in comes out in its order, and all of it."""
    inbox, writers, each = Inbox(), 6, 500

    def write(writer):
        for number in range(each):
            inbox.put((writer, number))
            inbox.ring()

    threads = [threading.Thread(target=write, args=(writer,), daemon=True) for writer in range(writers)]
    for thread in threads:
        thread.start()
    found = [inbox.get(timeout=60) for _ in range(writers * each)]
    for writer in range(writers):
        assert [number for who, number in found if who == writer] == list(range(each))


def test_a_reader_that_waited_long_sleeps_at_once(monkeypatch):
    """Listening for ever would hang here: after a long wait nobody listens, and nobody needs to ring."""
    inbox = Inbox()
    inbox._brief = True
    monkeypatch.setattr(module, "TURNS", 200)
    timer = threading.Timer(0.05, inbox.put, ["late"])
    timer.start()
    assert inbox.get(timeout=60) == "late"
    monkeypatch.setattr(module, "TURNS", 10**12)
    timer = threading.Timer(0.05, inbox.put, ["later"])
    timer.start()
    assert inbox.get(timeout=60) == "later"


def test_what_comes_between_a_look_and_a_wait_is_heard():
    """A stroke that was made before the reader listens, of something put in after it looked, is not waited for."""
    inbox = Inbox()
    heard = inbox._strokes[0]
    inbox.put(1)
    inbox.ring()
    begun = time.process_time()
    module._ring_and_listen(module._NOBODY, inbox._strokes, heard, 10**12)
    assert time.process_time() - begun < 10  # and not for ever
