"""The chains of an experiment: made longer a few at a time, until all are long enough or the time is over."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from stalegrad._internal.progress_bar import Report
from stalegrad.engines.processes.freed_memory import keep_freed_memory
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.chain_run import Files, lengthen
from stalegrad.experiments.losses.tasks import TASKS


class ChainFolder:
    """Chains, by their names.

    Args:
        folder: of the experiment; records are in its folder ``chains``, what chains need to go on in ``states``.
        processes: chains at a time; 1 makes them in this process.
        deadline: by :func:`time.time`, after which chains are left as they are.
    """

    def __init__(self, folder: Path, processes: int = 1, deadline: float = float("inf")) -> None:
        self._folder, self._processes, self._deadline = folder, processes, deadline

    @property
    def over(self) -> bool:
        """Whether there is no time left."""
        return time.time() >= self._deadline

    def find(self, names: Iterable[ChainName]) -> dict[ChainName, ChainRecord]:
        """Those that are there, however long."""
        paths = {name: Files(self._folder, name).record for name in names}
        return {name: ChainRecord.load(path) for name, path in paths.items() if path.exists()}

    def lengthen(self, names: Iterable[ChainName], iterations: int, report: Report) -> None:
        """Make all of them L̄ = ``iterations`` long, one repetition after the other and the dearest chains first."""
        wanted = sorted(set(names), key=lambda name: (name.seed, -name.workers, name))
        there = self.find(wanted)
        missing = [name for name in wanted if name not in there or not there[name].has(TASKS[name.task], iterations)]
        total = sum(name.workers for name in wanted)
        done = total - sum(name.workers for name in missing)
        for name in self._lengthened(missing, iterations):
            done += name.workers
            report(f"{name.task}: {name.word} at {iterations:,}", done / total)

    def _lengthened(self, names: list[ChainName], iterations: int) -> Iterator[ChainName]:
        if self._processes == 1 or len(names) < 2:
            for name in names:
                if self.over:
                    return
                lengthen(Files(self._folder, name), iterations, self._deadline)
                yield name
            return
        # Spawned: torch may have computed here, and a fork of that hangs.
        pool = ProcessPoolExecutor(self._processes, get_context("spawn"), initializer=keep_freed_memory)
        try:
            waiting: dict[Future[ChainRecord], ChainName] = {}
            left = iter(names)

            def begin_one() -> bool:
                following = None if self.over else next(left, None)
                if following is not None:
                    work = pool.submit(lengthen, Files(self._folder, following), iterations, self._deadline)
                    waiting[work] = following
                return following is not None

            while len(waiting) < self._processes and begin_one():
                pass
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    future.result()
                    yield waiting.pop(future)
                    begin_one()
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()  # a public way comes with Python 3.14
            raise
        finally:
            pool.shutdown(cancel_futures=True)
