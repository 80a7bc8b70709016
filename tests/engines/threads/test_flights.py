"""The compiled protocol of workers that share a chain makes the transitions of the one in ``protocol/admission.py``."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalegrad.engines.threads.flights import Bound, join, land, leave, release
from stalegrad.engines.threads.shared import AWAY, COUNT, HELD, READ, STATE, VERSION, Shared
from stalegrad.protocol.admission import Admission
from stalegrad.protocol.past import Past

WORKERS = 4


class Compiled:
    """The compiled one behind the calls of :class:`Admission`, with a chain whose point says its version."""

    def __init__(self, max_staleness, policy, past=None):
        self.bound = Bound(-1 if max_staleness is None else max_staleness, policy == "wait")
        self.sent = np.zeros((1, 3), np.float32)
        version = past.steps if past else 0
        self.shared = Shared.of(WORKERS, self.sent, past, version=version, held=policy == "wait")
        self.shared.open()
        self.sent[:] = version

    def join(self, worker):
        join(self.shared, self.bound, worker, self.sent)

    def land(self, worker):
        staleness, accepted = land(self.shared, self.bound, worker)
        self.shared.words[VERSION] += accepted
        self.sent[:] = self.shared.words[VERSION]
        release(self.shared, self.bound, self.sent, worker, False)
        return staleness, accepted

    def leave(self, worker):
        leave(self.shared, self.bound, worker, self.sent)

    def flying(self):
        away = np.flatnonzero(self.shared.of_worker(STATE) == AWAY)
        for worker in away:
            np.testing.assert_array_equal(self.shared.points[worker, :3], self.shared.of_worker(READ)[worker])
        return {(w, self.shared.of_worker(COUNT)[w], self.shared.of_worker(READ)[w]) for w in away.tolist()}

    def held(self):
        return set(np.flatnonzero(self.shared.of_worker(STATE) == HELD).tolist())


def assert_alike(admission, compiled):
    assert compiled.flying() == set(admission.flying)
    assert compiled.held() == set(admission.held)
    assert compiled.shared.words[VERSION] == admission.version


@given(
    bound=st.one_of(
        st.tuples(st.just("drop"), st.one_of(st.none(), st.integers(0, 3))),
        st.tuples(st.just("wait"), st.integers(0, 5)),
    ),
    events=st.lists(st.tuples(st.integers(0, WORKERS - 1), st.integers(0, 5)), max_size=60),
)
def test_any_run_of_events(bound, events):
    """Whoever flies lands, or one time in six leaves; whoever is not there joins; the rest wait."""
    policy, largest = bound
    admission, compiled = Admission(largest, policy), Compiled(largest, policy)
    try:
        for worker, die in events:
            if worker in admission.held:
                continue
            if worker in {flight.worker for flight in admission.flying}:
                if die == 0:
                    admission.leave(worker)
                    compiled.leave(worker)
                else:
                    assert compiled.land(worker) == tuple(admission.land(worker))
            else:
                admission.join(worker)
                compiled.join(worker)
            admission.release()
            assert_alike(admission, compiled)
    finally:
        compiled.shared.close()


def test_minibatches_go_on_where_the_past_has_stopped():
    past = Past(rows=9, steps=7, counts={0: 4, 2: 3, 9: 8})
    admission, compiled = Admission(None, "drop", past), Compiled(None, "drop", past)
    for worker in range(WORKERS):
        admission.join(worker)
        admission.release()
        compiled.join(worker)
    assert_alike(admission, compiled)
    assert {(w, c) for w, c, _ in compiled.flying()} == {(0, 5), (1, 0), (2, 4), (3, 0)}


@pytest.mark.parametrize("held", [False, True])
def test_pipes_are_there_only_where_workers_are_held(held):
    shared = Shared.of(3, np.zeros((1, 2)), None, version=0, held=held)
    shared.open()
    try:
        assert len(shared.pipes) == (3 if held else 0)
        assert (shared.pipes >= 0).all()
    finally:
        shared.close()
