"""Headers of messages: what is written is what is read, and tells a server how long an answer took."""

import time

import numpy as np
import pytest

from stalegrad.engines import message as m
from stalegrad.engines.clock import CLOCK
from stalegrad.protocol.admission import Assignment


def header(**numbers):
    made = m.header_of(np.zeros(m.BYTES, np.uint8).data)
    for name, number in numbers.items():
        made[getattr(m, name)] = number
    return made


def test_an_assignment_comes_back_with_its_delivery():
    """Number, version and incarnation are three different things, and nanoseconds become seconds."""
    both, values = header(NANOSECONDS=1_500_000_000), np.ones((1, 3))
    m.put_assignment(both, Assignment(worker=2, count=5, version=9), incarnation=3)
    delivery = m.get_delivery(both, 2, values)
    assert (delivery.worker, delivery.incarnation) == (2, 3)
    assert delivery.seconds == pytest.approx(1.5)
    assert delivery.gradient[:3] == (2, 5, 9)
    assert delivery.gradient.values is values


def test_an_answer_says_when_its_question_was_sent():
    question, before = header(KIND=m.WORK), time.clock_gettime_ns(CLOCK)
    m.put_time(question)
    assert before <= question[m.TIME] <= time.clock_gettime_ns(CLOCK)
    answer = header(KIND=m.DONE, TIME=before - 5_000_000_000)
    taken = m.seconds_taken(answer)
    assert 5.0 <= taken <= 5.0 + (time.clock_gettime_ns(CLOCK) - before) * 1e-9
    assert m.get_delivery(answer, 1, np.zeros((1, 2)), taken).taken == taken


def test_an_answer_that_is_sent_again_looks_as_if_it_had_been_computed_for_the_later_question():
    """The first question at 100 took 30 to compute; the second was sent at 500, and is answered at once."""
    answer = header(TIME=100, NANOSECONDS=30)
    m.echo_time(answer, header(TIME=500))
    assert answer[m.TIME] == 470


def test_a_question_that_was_overtaken_does_not_make_an_answer_look_slow():
    answer = header(TIME=470, NANOSECONDS=30)
    m.echo_time(answer, header(TIME=100))
    assert answer[m.TIME] == 470
