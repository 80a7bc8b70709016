"""A worker's rank: it computes what servers ask for until all of them have done."""

import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from stalegrad.engines.mpi import packet as p
from stalegrad.engines.mpi.link import Line
from stalegrad.engines.waiting import Doze, Nap
from stalegrad.worker import Worker

_LOOK = 0.2  # seconds between looks at anything but servers


@dataclass
class Post:
    """A server that this rank works for, and as which of its workers."""

    line: Line
    worker: Worker
    incarnation: int = 0
    over: bool = field(default=False, init=False)


class Hand:
    """Does what servers ask for, one thing at a time.

    Args:
        posts: the servers.
        pause: extra seconds a gradient, to study stragglers.
        beside: called from time to time while there is nothing to do.
    """

    def __init__(self, posts: Sequence[Post], pause: float = 0.0, beside: Callable[[], None] | None = None) -> None:
        self._posts, self._pause, self._beside = posts, pause, beside
        self._arrived: deque[Post] = deque()
        self._rehearsed = False
        self._nap = Nap(self._look, Doze(self._look))

    def work(self) -> None:
        """Work until every server has said that it is over."""
        for post in self._posts:
            post.line.listen()
        with _deaf():
            while not all(post.over for post in self._posts):
                if self._arrived or self._nap.wait(_LOOK):
                    self._obey(self._arrived.popleft())
                elif self._beside is not None:
                    self._beside()
        for post in self._posts:
            post.line.close()

    def _look(self) -> bool:
        for post in self._posts:
            if not post.over and post.line.has_heard():
                self._arrived.append(post)
        return bool(self._arrived)

    def _obey(self, post: Post) -> None:
        line, header = post.line, post.line.incoming.header
        kind = header[p.KIND]
        if kind == p.STOP:
            post.over = True
            line.note(p.BYE)
            return
        try:
            if kind == p.START:
                post.incarnation = header[p.INCARNATION]
                self._rehearse(post.worker)
                line.note(p.READY, post.incarnation)
                line.listen()
            else:
                self._compute(post)
        except BaseException:
            line.note(p.FAILED, post.incarnation, traceback.format_exc())
            line.listen()

    def _compute(self, post: Post) -> None:
        line = post.line
        line.clear()
        asked, answer = line.incoming.header, line.outgoing.header
        begun = time.perf_counter_ns()
        post.worker.compute(line.incoming.vector, asked[p.COUNT], line.outgoing.vector)
        answer[p.NANOSECONDS] = time.perf_counter_ns() - begun
        if self._pause:
            time.sleep(self._pause)
        answer[p.KIND], answer[p.INCARNATION] = p.DONE, post.incarnation
        answer[p.COUNT], answer[p.VERSION] = asked[p.COUNT], asked[p.VERSION]
        line.listen()
        if line.has_heard():  # the server has given up waiting for this gradient, or has done
            self._arrived.append(post)
        else:
            line.send()

    def _rehearse(self, worker: Worker) -> None:
        """Compute one gradient, so that whatever compiles on first use has done so before anybody waits for it."""
        if not self._rehearsed:
            worker.rehearse()
            self._rehearsed = True


@contextmanager
def _deaf() -> Iterator[None]:
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
