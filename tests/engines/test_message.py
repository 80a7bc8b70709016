"""Headers of messages: what tells a server how long an answer took, however often it asked."""

import time

import numpy as np
import pytest

from stalegrad.engines import message as m
from stalegrad.engines.clock import CLOCK


def header(**numbers):
    made = m.header_of(np.zeros(m.BYTES, np.uint8).data)
    for name, number in numbers.items():
        made[getattr(m, name)] = number
    return made


def test_an_answer_says_when_its_question_was_sent():
    question = header(KIND=m.WORK)
    m.put_time(question)
    now = time.clock_gettime_ns(CLOCK)
    assert 0 <= now - question[m.TIME] < 1e9
    answer = header(KIND=m.DONE, TIME=question[m.TIME] - 5_000_000_000, NANOSECONDS=7)
    delivery = m.get_delivery(answer, 1, np.zeros((1, 2)), m.seconds_taken(answer))
    assert delivery.taken == pytest.approx(5.0, abs=1.0)
    assert (delivery.worker, delivery.seconds) == (1, pytest.approx(7e-9))


def test_an_answer_that_is_sent_again_looks_as_if_it_had_been_computed_for_the_later_question():
    """The first question at 100 took 30 to compute; the second was sent at 500, and is answered at once."""
    answer = header(TIME=100, NANOSECONDS=30)
    m.echo_time(answer, header(TIME=500))
    assert answer[m.TIME] == 470


def test_a_question_that_was_overtaken_does_not_make_an_answer_look_slow():
    answer = header(TIME=470, NANOSECONDS=30)
    m.echo_time(answer, header(TIME=100))
    assert answer[m.TIME] == 470
