"""Calls over a network that may lose, damage and repeat them: envelopes, and calls that are made until answered."""

import types

import numpy as np
import pytest

from stalegrad.engines import Assignment, Gradient
from stalegrad.engines.link import Repairs
from stalegrad.engines.ray.call_link import SUPERSEDED, Answer, Call, CallLink
from stalegrad.engines.ray.envelope import (
    Damaged,
    Envelope,
    Reply,
    exchange,
    open_call,
    open_reply,
    seal_call,
    seal_reply,
)
from stalegrad.engines.ray.reliable_calls import ReliableCalls, ServerGone


class TestEnvelopes:
    CALL = Call(1, 2, 3, 4, ((0.5, Gradient(1, 7, 6, np.arange(5.0)[None])),), None)
    ANSWER = Answer(((Assignment(1, 8, 9), 0),), (np.arange(5.0)[None],), (0,))

    def test_what_was_sealed_is_opened(self):
        call, repairs, attempt = open_call(seal_call(self.CALL, Repairs(1, 2, 3), attempt=5))
        assert (repairs, attempt) == ((1, 2, 3), 5)
        assert call[:4] == self.CALL[:4]
        ((seconds, gradient),) = call.results
        assert (seconds, *gradient[:3]) == (0.5, 1, 7, 6)
        np.testing.assert_array_equal(gradient.values, self.CALL.results[0][1].values)
        assert open_reply(seal_reply(Reply(3, None)), lambda point: point) == Reply(3, None)

    @pytest.mark.parametrize("where", range(0, 120, 7))
    def test_a_flipped_bit_is_noticed_wherever_it_is(self, where):
        head, bodies = seal_call(self.CALL, Repairs())
        damaged = bytearray(head)
        damaged[where % len(head)] ^= 1 << where % 8
        with pytest.raises(Damaged):
            open_call(Envelope(bytes(damaged), bodies))
        body = bodies[0].copy()
        body.reshape(-1).view(np.uint8)[where % body.nbytes] ^= 1 << where % 8
        with pytest.raises(Damaged):
            open_call(Envelope(head, (body,)))
        with pytest.raises(Damaged):
            open_call(Envelope(head[:where], bodies))
        with pytest.raises(Damaged):  # its point is not the one that the checksum is of
            open_reply(seal_reply(Reply(3, self.ANSWER)), lambda point: point)

    def test_a_damaged_call_is_counted_and_asked_for_again(self):
        link = CallLink(lambda *who: None, lambda worker: None, held=0.01)
        link.start(0, 0)
        reply = open_reply(exchange(link, Envelope(b"rubbish")), lambda point: point)
        assert reply == Reply(None, Answer())
        assert link.repairs() == Repairs(damaged=1)
        assert link.receive(0.01) is None

    def test_a_call_that_another_has_taken_the_place_of_is_answered_by_the_number_of_none(self):
        """So that the worker goes on waiting for the answer to the other."""
        link = types.SimpleNamespace(exchange=lambda call, repairs: SUPERSEDED)
        assert open_reply(exchange(link, seal_call(self.CALL, Repairs())), lambda point: point).sequence == -1


class TestReliableCalls:
    def make(self, answers, timeout=10.0, took=0.05):
        """Calls over a transport that does as told (an answer, None for none in time, an error), and what was sent."""
        sent, now = [], [0.0]

        class Transport:
            def send(self, envelope, *, again):
                call, repairs, attempt = open_call(envelope)
                assert again == (attempt > 0)
                sent.append([call, repairs, None])

            def receive(self, seconds):
                sent[-1][2] = sent[-1][2] or seconds
                answer = answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                now[0] += seconds if answer is None else took
                return answer

        return ReliableCalls(Transport(), timeout, clock=lambda: now[0]), sent

    def test_a_call_is_made_again_until_it_is_answered(self):
        answer = seal_reply(Reply(3, Answer(((Assignment(1, 8, 9), 0),))))
        stale, again = seal_reply(Reply(2, Answer())), seal_reply(Reply(None, Answer()))
        calls, sent = self.make([None, None, Envelope(b"rubbish"), stale, again, answer])
        assert calls(Call(1, 0, 3)).assignments == ((Assignment(1, 8, 9), 0),)
        assert [call.sequence for call, _, _ in sent] == [3] * 5  # what answers another call is not taken for a loss
        assert [wait for _, _, wait in sent[:3]] == [1.0, 1.25, 1.25]
        assert sent[-1][1] == Repairs(damaged=1, sent_again=4)

    def test_answers_to_calls_before_do_not_make_it_call_again(self):
        """As they come twice on some networks, each would be answered twice, and calls would never stop growing."""
        stale = [seal_reply(Reply(k, Answer())) for k in (0, 1, 2, 2, -1)]
        calls, sent = self.make([*stale, seal_reply(Reply(3, Answer()))])
        assert calls(Call(1, 0, 3)) == Answer()
        assert len(sent) == 1

    def test_what_is_answered_late_tells_how_long_answers_take(self):
        """The answer says which of the calls it is to: the next one is waited for long enough."""
        calls, sent = self.make(
            [None, None, seal_reply(Reply(0, Answer(), attempt=0)), seal_reply(Reply(1, Answer()))], 100.0
        )
        calls(Call(1, 0, 0))
        calls(Call(1, 0, 1))
        assert len(sent) == 4
        assert sent[-1][2] == pytest.approx(1.5 * 3.05)

    def test_it_ends_when_the_server_says_so_or_is_gone(self):
        assert self.make([seal_reply(Reply(3, None))])[0](Call(1, 0, 3)) is None
        assert self.make([ServerGone()])[0](Call(1, 0, 3)) is None
        calls, sent = self.make([None] * 100)
        assert calls(Call(1, 0, 3)) is None
        assert 8 <= len(sent) <= 10

    def test_how_long_it_waits_goes_by_how_long_calls_take(self):
        answers = [seal_reply(Reply(k, Answer())) for k in range(40)]
        calls, sent = self.make([*answers, None, seal_reply(Reply(40, Answer()))])
        for k in range(41):
            calls(Call(1, 0, k))
        assert sent[0][2] == 1.0
        assert sent[-2][2] == pytest.approx(1.5 * 0.05, rel=1e-2)
        assert sent[-1][2] == pytest.approx(2 * sent[-2][2])
