"""Minibatches that no worker of a run draws, for those who look at a model from outside."""

import numpy as np
import pytest

from stalegrad.potentials import Minibatches


@pytest.mark.parametrize("scheme", ["subset", "replacement", "reshuffle"])
def test_one_after_the_other_they_are_independent(scheme):
    """Halves of six data: two of one epoch would never share a datum, and of 200 independent pairs 19 in 20 do."""
    batches = Minibatches(6, 3, scheme)
    drawn = [set(batches.draw_outside_run(1, count).tolist()) for count in range(400)]
    sharing = sum(bool(first & second) for first, second in zip(drawn[::2], drawn[1::2], strict=True))
    assert sharing > 150


def test_they_are_not_those_of_workers():
    batches = Minibatches(1000, 5, "reshuffle")
    outside = {batches.draw_outside_run(1, count).tobytes() for count in range(10)}
    of_workers = {batches.draw(1, 0, worker, count).tobytes() for worker in range(4) for count in range(10)}
    assert len(outside) == 10
    assert not outside & of_workers
    assert np.array_equal(batches.draw_outside_run(1, 3), batches.draw_outside_run(1, 3))
