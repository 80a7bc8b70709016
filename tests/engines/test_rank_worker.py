"""A worker's rank: which signals end it."""

import signal

import pytest

from stalegrad.engines.mpi import rank_worker
from stalegrad.engines.mpi.rank_worker import Membership, RankWorker


class NoConnection:
    def post_receive(self):
        pass

    def close(self):
        pass


@pytest.mark.parametrize("may_be_ended", [False, True])
def test_signals_end_a_worker_that_joined_and_not_a_rank_of_a_job(may_be_ended, monkeypatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    during = {}
    monkeypatch.setattr(
        rank_worker, "run_worker", lambda *_: during.update({number: signal.getsignal(number) for number in before})
    )
    RankWorker([Membership(NoConnection(), None)]).run(0.0, may_be_ended=may_be_ended)
    assert during == (before if may_be_ended else dict.fromkeys(before, signal.SIG_IGN))
    assert {number: signal.getsignal(number) for number in before} == before
