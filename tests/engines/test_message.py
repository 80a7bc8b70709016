"""What is written into the header of a message is what is read out of it."""

import numpy as np
import pytest

from stalegrad.engines import message
from stalegrad.protocol.admission import Assignment


def test_an_assignment_comes_back_with_its_delivery():
    """Number, version and incarnation are three different things, and nanoseconds become seconds."""
    header, values = message.header_of(memoryview(bytearray(message.BYTES))), np.ones((1, 3))
    message.put_assignment(header, Assignment(worker=2, count=5, version=9), incarnation=3)
    header[message.NANOSECONDS] = 1_500_000_000
    delivery = message.get_delivery(header, 2, values)
    assert (delivery.worker, delivery.incarnation) == (2, 3)
    assert delivery.seconds == pytest.approx(1.5)
    assert delivery.gradient[:3] == (2, 5, 9)
    assert delivery.gradient.values is values
