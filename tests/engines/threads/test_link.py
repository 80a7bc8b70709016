"""The link of the threads engine by itself."""

from types import SimpleNamespace

import numpy as np
import pytest

from stalegrad.engines.link import Ready
from stalegrad.engines.threads.link import ThreadLink
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.settings import Settings
from stalegrad.testing import small_model


def test_a_worker_is_told_of_its_point_when_the_point_is_there():
    """The worker may begin the moment it is told, and the server goes on to change its own point."""
    link = ThreadLink(SimpleNamespace(potential=small_model(), settings=Settings(steps=1)), 0, {})
    given, seen = np.ones((1, 5), np.float32), []
    end = SimpleNamespace(point=np.zeros((1, 5), np.float32))
    end.inbox = SimpleNamespace(put=lambda assignment: seen.append((assignment, end.point.copy())))
    link._workers[0] = end
    link.send(Assignment(0, 4, 7), given)
    given[:] = 2
    ((assignment, point),) = seen
    assert assignment == Assignment(0, 4, 7)
    np.testing.assert_array_equal(point, np.ones((1, 5)))
    np.testing.assert_array_equal(end.point, np.ones((1, 5)))


@pytest.mark.parametrize("end", [lambda link: link.discard(0, "hung"), ThreadLink.close], ids=["discarded", "closed"])
def test_the_thread_of_a_worker_that_nobody_needs_ends(end):
    """One minute is waited for in vain where it does not."""
    link = ThreadLink(SimpleNamespace(potential=small_model(), settings=Settings(steps=1)), 0, {})
    link.start(0, 3)
    assert link.receive(60.0) == Ready(0, 3)
    (thread,) = link._threads
    assert thread.is_alive()
    end(link)
    thread.join(60.0)
    assert not thread.is_alive()
