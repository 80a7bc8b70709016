"""Do several things at a time, each in a process of its own, and leave no process behind."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TypeVar

from stalegrad.engines.processes.freed_memory import keep_freed_memory

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], tasks: Iterable[T], processes: int) -> Iterator[tuple[T, R]]:
    """Each task with what the function makes of it, in the order in which they are done.

    Args:
        function: can be pickled, as tasks and outcomes can.
        tasks: asked for the next one when a process is free for it, so that it may end early.
        processes: at a time; 1 does everything here.

    An error, or an end of the caller, ends all of them, be it by a signal that cannot be caught: nothing goes on for
    hours behind its back.
    """
    if processes == 1:
        for task in tasks:
            yield task, function(task)
        return
    # Spawned: torch may have computed here, and a fork of that hangs.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin)
    left, waiting = iter(tasks), dict[Future[R], T]()
    try:
        while True:
            for task in islice(left, processes - len(waiting)):
                waiting[pool.submit(function, task)] = task
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # a public way comes with Python 3.14
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Of each process: Ctrl-C is the caller's, whose end is ours, too; networks ask for the same memory again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_caller, daemon=True).start()
    keep_freed_memory()


def _end_with_the_caller() -> None:
    caller = parent_process()
    assert caller is not None, "the caller has started this process"
    caller.join()
    os._exit(1)  # whatever it is doing
