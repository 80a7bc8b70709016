"""A server's link to workers that call it: each call is handed on once, and answered alike however often it comes."""

import threading
import time

import numpy as np

from stalegrad.engines import Assignment, Delivery, Gradient, LastSeen, Ready
from stalegrad.engines.ray.call_link import SUPERSEDED, Answer, Call, CallLink
from stalegrad.engines.ray.lanes import LaneAssignment


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def link_of(workers=1, **options):
    started = []
    made = CallLink(lambda *who: started.append(who), lambda worker: None, **{"held": 0.01, **options})
    for worker in range(workers):
        made.start(worker, 0)
    return made


def gradient(lane, count, version=0):
    return 0.001, Gradient(lane, count, version, np.ones((1, 3)))


def test_a_call_is_handed_on_once_and_answered_alike():
    link = link_of()
    assert link.exchange(Call(0, 0, 0)) == Answer()
    assert link.receive(0.01) == Ready(0, 0)
    link.send(LaneAssignment(0, Assignment(0, 0, 0)), np.zeros((1, 3)))
    assert link.receive(0.01) is None
    first, again = (link.exchange(Call(0, 0, 0)) for _ in range(2))
    assert first.assignments == again.assignments == ((Assignment(0, 0, 0), 0),)
    assert link.receive(0.01) is None
    for _ in range(3):
        link.exchange(Call(0, 0, 1, results=(gradient(0, 0),)))
    assert link.exchange(Call(0, 0, 0)) == Answer()  # an echo of the call before
    delivery = link.receive(0.01)
    assert isinstance(delivery, Delivery)
    assert delivery.gradient[:3] == (0, 0, 0)
    assert link.receive(0.01) is None


def test_of_a_call_that_comes_twice_the_later_is_answered_and_an_echo_disturbs_neither():
    """The earlier one is answered at once, by which the worker knows that another waits."""
    link, answers = link_of(held=60.0), [None, None]

    def call(which):
        answers[which] = link.exchange(Call(0, 0, 1))

    threads = [threading.Thread(target=call, args=(which,), daemon=True) for which in (0, 1)]
    threads[0].start()
    while link._sessions[0].calls == 0:
        time.sleep(0.001)
    assert link.exchange(Call(0, 0, 0)) is SUPERSEDED  # a call before, come late
    assert threads[0].is_alive()
    threads[1].start()
    threads[0].join(60.0)
    assert answers[0] is SUPERSEDED
    assert link.receive(0.01) == Ready(0, 0)
    link.send(LaneAssignment(0, Assignment(0, 3, 0)), np.zeros((1, 3)))
    assert link.receive(0.01) is None
    threads[1].join(60.0)
    assert answers[1].assignments == ((Assignment(0, 3, 0), 0),)


def test_what_a_replaced_worker_brings_is_not_looked_at():
    link = link_of()
    link.discard(0, "died")
    link.start(0, 1)
    assert link.exchange(Call(0, 0, 5, results=(gradient(0, 0),))) is None
    assert link.heartbeat(0, 0) is False
    assert link.receive(0.01) is None
    assert link.heartbeat(0, 1) is True


def test_gradients_are_copied_and_points_are_shared():
    """Arrays that arrive may be read-only; what several workers get of one version is one object."""
    link = link_of(2)
    values = np.ones((1, 3))
    values.flags.writeable = False
    link.exchange(Call(0, 0, 0, results=((0.1, Gradient(0, 0, 0, values)),)))
    own = link.receive(0.01).gradient.values
    assert own.flags.writeable
    assert not np.shares_memory(own, values)
    point = np.zeros((1, 3))
    shared = link_of(2, pack=lambda point: point)
    for worker in range(2):
        shared.exchange(Call(worker, 0, 0))
        shared.receive(0.01)
    for worker in range(2):
        shared.send(LaneAssignment(worker, Assignment(worker, 0, 7)), point)
    point += 1  # the server goes on
    shared.receive(0.01)
    (zero,), (one,) = (shared.exchange(Call(worker, 0, 0)).points for worker in range(2))
    assert zero is one
    assert zero.readers == {0, 1}
    assert (zero.values == 0).all()


def test_calls_and_heartbeats_say_when_a_worker_was_last_seen():
    clock = Clock()
    link = link_of(2, clock=clock)
    assert list(link.last_seen()) == []
    link.exchange(Call(0, 0, 0))
    clock.now = 8.0
    assert list(link.last_seen()) == [LastSeen(0, 0, 8.0)]
    link.heartbeat(1, 0)
    link.heartbeat(0, 0)
    clock.now = 9.0
    assert list(link.last_seen()) == [LastSeen(0, 0, 1.0), LastSeen(1, 0, 1.0)]
    link.discard(0, "died")
    link.start(0, 1)
    assert list(link.last_seen()) == [LastSeen(1, 0, 1.0)]  # the replacement may be waiting for a node
