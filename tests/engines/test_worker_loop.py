"""The worker loop over a scripted link: it computes, delivers, reports failures and ends."""

import time

import numpy as np

from stalegrad.engines import Work, Worker, run_worker
from stalegrad.testing import FaultyModel, small_model


class ScriptedLink:
    """Hands out minibatches by number, and notes what comes back."""

    def __init__(self, model, counts):
        self._worker, self._counts, self.log = Worker(model, 5, 0, 0), list(counts), []
        self._point, self.gradient = model.initial()[None], np.empty((1, model.size), model.dtype)

    def receive(self):
        self._begun = time.perf_counter_ns()
        return Work(self._worker, self._counts.pop(0), self._point, self.gradient) if self._counts else None

    def deliver(self, nanoseconds):
        assert 0 < nanoseconds <= time.perf_counter_ns() - self._begun, "the time of the gradient alone"
        self.log.append(self.gradient.copy())

    def fail(self, details):
        self.log.append(details)


def test_what_is_asked_for_is_delivered_until_there_is_no_more():
    model = small_model()
    link = ScriptedLink(model, [0, 1, 2])
    run_worker(link)
    assert len(link.log) == 3
    for count, gradient in enumerate(link.log):
        expected = np.empty_like(gradient)
        Worker(model, 5, 0, 0).compute(model.initial()[None], count, expected)
        np.testing.assert_array_equal(gradient, expected)


def test_a_failure_is_reported_and_the_link_says_whether_to_go_on(tmp_path):
    link = ScriptedLink(FaultyModel(tmp_path / "calls", {2: "raise"}), [0, 1, 2])
    run_worker(link)
    first, failure, last = link.log
    assert "injected fault" in failure
    assert isinstance(first, np.ndarray)
    assert isinstance(last, np.ndarray)


def test_an_artificial_straggler_takes_longer():
    link = ScriptedLink(small_model(), [0, 1])
    begun = time.perf_counter()
    run_worker(link, slow=0.05)
    assert time.perf_counter() - begun >= 0.1
