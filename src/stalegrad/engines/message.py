"""The header of every message between a server and a worker, in shared memory and on a network alike.

Eight whole numbers of eight bytes, one cache line. What each of them means is said once, here; what lies behind the
header (a point, a gradient, a text) is up to the transport.
"""

import time

from stalegrad._internal.types import Array
from stalegrad.engines.checksum import checksum_of_parts
from stalegrad.engines.clock import CLOCK
from stalegrad.engines.link import Delivery
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient

BYTES = 64
"""Of a header: a cache line, so that what different processes write does not share one, and vectors are aligned."""

KIND, INCARNATION, COUNT, VERSION, NANOSECONDS, TIME, LENGTH, CHECKSUM = range(8)
"""The numbers of a header. LENGTH counts the bytes behind it; CHECKSUM is of all numbers before it and those bytes.

NANOSECONDS is how long an answer took to compute. TIME, where messages may get lost, is when a question was sent, by
the clock of its server; the answer has the same number, so that the server knows how long it took even if it asked more
than once. In shared memory, where nothing is asked twice, it is when an answer was finished.
"""

IDLE = 0
"""The kind of no message: a place in shared memory that holds none."""
START, WORK, STOP = range(1, 4)
"""From the server: (re)start as this incarnation; compute; the run is over."""
READY, DONE, FAILED, STOPPED, AGAIN = range(4, 9)
"""From the worker: ready for work; here is the gradient; it raised this traceback; it has stopped; the last message
that came was damaged and is wanted again."""

Header = memoryview
"""The numbers; a memoryview is faster than NumPy for single ones."""


def header_of(memory: memoryview) -> Header:
    """The header at the beginning of a piece of memory."""
    return memory[:BYTES].cast("q")


def checksum_of(message: Array, length: int) -> int:
    """Of a message, header and all, (n,) of uint8: of the numbers before CHECKSUM and ``length`` bytes behind it."""
    return checksum_of_parts(message, 8 * CHECKSUM, BYTES, length)


def put_assignment(header: Header, assignment: Assignment, incarnation: int) -> None:
    """Write an assignment, but for its kind: in shared memory that hands it over, once the point is there, too."""
    header[INCARNATION] = incarnation
    header[COUNT] = assignment.count
    header[VERSION] = assignment.version


def put_time(header: Header) -> None:
    """Write into a question that it is sent now."""
    header[TIME] = time.clock_gettime_ns(CLOCK)


def echo_time(answer: Header, question: Header) -> None:
    """Write into an answer that was computed before when it would have been asked for, to come now.

    A question that comes again is answered at once. For its server to learn how long answers take, it must look as if
    it had been computed for this question, or for a later one, if that has overtaken this one.
    """
    answer[TIME] = max(answer[TIME], question[TIME] - answer[NANOSECONDS])


def get_delivery(header: Header, worker: int, values: Array, taken: float = 0.0) -> Delivery:
    """A gradient that has come: the header's numbers, and the values behind it."""
    gradient = Gradient(worker, header[COUNT], header[VERSION], values)
    return Delivery(worker, header[INCARNATION], header[NANOSECONDS] * 1e-9, gradient, taken=taken)


def seconds_taken(header: Header) -> float:
    """How long ago the question was sent that an answer is to, on a link that writes that into it."""
    return (time.clock_gettime_ns(CLOCK) - header[TIME]) * 1e-9
