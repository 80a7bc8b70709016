"""The chains of an experiment: made longer a few at a time, until all are long enough or the time is over."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

from stalegrad._internal.progress_bar import Report
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.chain_run import Files, lengthen
from stalegrad.experiments.losses.side_by_side import side_by_side
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
        work = partial(_lengthen, self._folder, iterations, self._deadline)
        begun = takewhile(lambda _: not self.over, names)
        for name, _ in side_by_side(work, begun, min(self._processes, len(names) or 1)):
            yield name


def _lengthen(folder: Path, iterations: int, deadline: float, name: ChainName) -> None:
    lengthen(Files(folder, name), iterations, deadline)
