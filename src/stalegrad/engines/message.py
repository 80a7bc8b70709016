"""The header of every message between a server and a worker, in shared memory and on a network alike.

Eight whole numbers of eight bytes, one cache line. What each of them means is said once, here; what lies behind the
header (a point, a gradient, a text) is up to the transport.
"""

from stalegrad._internal.types import Array
from stalegrad.engines.checksum import checksum_of_parts
from stalegrad.engines.link import Delivery
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient

BYTES = 64
"""Of a header: a cache line, so that what different processes write does not share one, and vectors are aligned."""

KIND, INCARNATION, COUNT, VERSION, NANOSECONDS, FINISHED, LENGTH, CHECKSUM = range(8)
"""The numbers of a header. LENGTH counts the bytes behind it; CHECKSUM is of all numbers before it and those bytes."""

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


def get_delivery(header: Header, worker: int, values: Array) -> Delivery:
    """A gradient that has come: the header's numbers, and the values behind it."""
    gradient = Gradient(worker, header[COUNT], header[VERSION], values)
    return Delivery(worker, header[INCARNATION], header[NANOSECONDS] * 1e-9, gradient)
