"""A worker's rank: it computes what servers ask for until all of them have ended."""

import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from stalegrad.engines import message as m
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.express_worker import NOTHING, PLAIN, UNSENT, ExpressWorker
from stalegrad.engines.waiting import AdaptiveWait, PollingSleep
from stalegrad.engines.worker_loop import Work, run_worker
from stalegrad.protocol.worker import Worker

_POLL = 0.2  # seconds between polls of anything but servers


@dataclass
class Membership:
    """A server that this rank works for, and as which of its workers."""

    connection: Connection
    worker: Worker
    incarnation: int = 0
    over: bool = field(default=False, init=False)
    started: bool = field(default=False, init=False)  # as this incarnation
    latest: int = field(default=-1, init=False)  # minibatch of this incarnation
    answered: bool = field(default=False, init=False)  # whether it was answered
    failure: str | None = field(default=None, init=False)  # the traceback that was the last answer


class RankWorker:
    """A rank's ends of links, see :class:`stalegrad.engines.worker_loop.WorkerLink`: it may work for several servers.

    Args:
        memberships: the servers.
        poll_others: called from time to time while there is nothing to do.
    """

    def __init__(self, memberships: Sequence[Membership], poll_others: Callable[[], None] | None = None) -> None:
        self._memberships, self._poll_others = memberships, poll_others
        self._arrived: deque[Membership] = deque()
        self._rehearsed = False
        self._wait = AdaptiveWait(self._poll, PollingSleep(self._poll))
        self._current = memberships[0]  # whose work was received last
        self._express = ExpressWorker.if_possible(memberships[0].connection) if len(memberships) == 1 else None
        self._at_hand = False  # whether the next question has come and been looked at, by compiled code

    def run(self, slow: float, *, may_be_ended: bool = False) -> None:
        """Work until every server has said that it is over.

        Args:
            slow: extra seconds per gradient.
            may_be_ended: whether signals end it. Not one of several ranks, whose job they are meant for: the servers
                end that in order, and their workers with it.
        """
        for membership in self._memberships:
            membership.connection.post_receive()
        with nullcontext() if may_be_ended else _signals_ignored():
            run_worker(self, slow)
        for membership in self._memberships:
            membership.connection.close()

    def receive(self) -> Work | None:
        """Wait for work of any server; starts and stops are dealt with here."""
        if self._at_hand:
            self._at_hand = False
            return self._take(self._current)
        while not all(membership.over for membership in self._memberships):
            if self._arrived or self._wait.wait(_POLL):
                if (work := self._work_of(self._arrived.popleft())) is not None:
                    return work
            elif self._poll_others is not None:
                self._poll_others()
        return None

    def deliver(self, nanoseconds: int) -> None:
        """Send the gradient, unless the server has said in the meantime that it does not want it any more."""
        self._current.answered = True
        current, connection = self._current, self._current.connection
        if self._express is not None and self._wait.brief and self._express.due() and not self._arrived:
            self._turn_around(self._express, nanoseconds)
            return
        asked, answer = connection.incoming.header, connection.outgoing.header
        answer[m.KIND], answer[m.INCARNATION], answer[m.NANOSECONDS] = m.DONE, current.incarnation, nanoseconds
        answer[m.COUNT], answer[m.VERSION], answer[m.TIME] = asked[m.COUNT], asked[m.VERSION], asked[m.TIME]
        connection.post_receive()
        if connection.poll():
            self._arrived.append(current)
            if connection.incoming.header[m.KIND] in (m.START, m.STOP):
                return  # the server has given up waiting for this gradient, or has ended
        connection.send()

    def _turn_around(self, express: ExpressWorker, nanoseconds: int) -> None:
        """Deliver, and receive what comes at once, in one compiled call."""
        current, connection = self._current, self._current.connection
        found = express.turn_around(current.incarnation, current.latest, nanoseconds)
        if found == PLAIN:
            self._at_hand = True
        elif found == NOTHING:
            connection.mark_posted()
        else:
            self._arrived.append(current)
            if found == UNSENT and connection.incoming.header[m.KIND] not in (m.START, m.STOP):
                connection.send()

    def fail(self, details: str) -> None:
        """Send the traceback, and wait to be started again."""
        current = self._current
        current.failure, current.answered = details, True
        current.connection.send_short(m.FAILED, current.incarnation, details)
        current.connection.post_receive()

    def _poll(self) -> bool:
        for membership in self._memberships:
            if not membership.over and membership.connection.poll():
                self._arrived.append(membership)
        return bool(self._arrived)

    def _work_of(self, membership: Membership) -> Work | None:
        """What is to be computed; None for a message that is dealt with here."""
        connection, header = membership.connection, membership.connection.incoming.header
        kind, incarnation, count = header[m.KIND], header[m.INCARNATION], header[m.COUNT]
        if not connection.incoming.intact:
            connection.send_short(m.AGAIN, membership.incarnation)
        elif kind == m.STOP:
            membership.over = True
            connection.send_short(m.STOPPED)
            return None
        elif kind == m.START and (incarnation > membership.incarnation or not membership.started):
            membership.incarnation, membership.started = incarnation, True
            membership.latest, membership.failure = -1, None
            self._start(membership)
        elif kind == m.START and incarnation == membership.incarnation:
            self._announce(membership)
        elif kind == m.WORK and incarnation == membership.incarnation and count > membership.latest:
            connection.await_outgoing()
            return self._take(membership)
        elif kind == m.WORK and incarnation == membership.incarnation and count == membership.latest:
            self._answer_again(membership)
        connection.post_receive()  # else it was for one that is no more, or long answered
        return None

    def _take(self, membership: Membership) -> Work:
        """The question that has come: what is to be computed."""
        connection, count = membership.connection, membership.connection.incoming.header[m.COUNT]
        self._current = membership
        membership.latest, membership.answered, membership.failure = count, False, None
        return Work(membership.worker, count, connection.incoming.unpack(), connection.outgoing.vector)

    def _start(self, membership: Membership) -> None:
        """Compute one gradient, so that whatever compiles on first use has done so, and say that it is ready."""
        try:
            if not self._rehearsed:
                membership.worker.rehearse()
                self._rehearsed = True
        except BaseException:
            membership.failure = traceback.format_exc()
        self._announce(membership)

    def _announce(self, membership: Membership) -> None:
        """Say, perhaps once more, that it is ready for its first work, or why not."""
        if membership.failure is not None and membership.latest < 0:
            membership.connection.send_short(m.FAILED, membership.incarnation, membership.failure)
        else:
            membership.connection.send_short(m.READY, membership.incarnation)

    def _answer_again(self, membership: Membership) -> None:
        """Send the last answer once more: the server has not got it."""
        if membership.failure is not None:
            membership.connection.send_short(m.FAILED, membership.incarnation, membership.failure)
        elif membership.answered:
            question = membership.connection.incoming.header
            membership.connection.send_again(lambda answer: m.echo_time(answer, question))


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Leave Ctrl-C and SIGTERM, which reach all ranks, to the servers: they end the run and save it first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
