"""The MPI engine's settings, and which part of a run this rank has."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stalegrad.checks import by_worker, folder_name, real_number, whole_number
from stalegrad.engines.base import Job, Outcome, Team
from stalegrad.engines.mpi.crew import Crew
from stalegrad.engines.mpi.elastic import Door, ElasticLink, choose_transport, refuse_unless_elastic
from stalegrad.engines.mpi.joining import Joining
from stalegrad.engines.mpi.layout import Layout
from stalegrad.engines.mpi.link import Line, MpiLink
from stalegrad.engines.mpi.pulse import connection_seconds
from stalegrad.engines.mpi.serving import Report, outcome, serve
from stalegrad.engines.mpi.working import Hand, Post
from stalegrad.engines.service import Care
from stalegrad.errors import ArgumentError, MissingExtra
from stalegrad.worker import Worker

if TYPE_CHECKING:
    from types import ModuleType

JOIN = "STALEGRAD_JOIN"
"""The variable that names the folder of a run to join as a worker."""


@dataclass(frozen=True)
class MPI:
    """Servers and workers are ranks: ``mpiexec -n 9 python -m mpi4py script.py``, or ``srun``.

    Every rank executes the same script and loads its own data; nothing but points and gradients travels. The ranks
    0 … S−1 are servers, all others work for them by turns, so the number of ranks decides how many workers there are.

    ``sg.sample`` returns on rank 0. **The other ranks end there**, quietly, so a script goes on after sampling as it
    does on one machine. A script that samples more than once, or that wants the run on all ranks, says
    ``everywhere=True``.

    A gradient that raises is reported and the worker goes on, as on other engines. A rank that dies ends the whole job:
    MPI has it so. What is in the store is safe, and ``sg.resume`` goes on with it.

    Args:
        patience: seconds after which a worker that does not answer counts as hung; None waits for ever. A hung rank
            cannot be ended, only left out until it answers.
        restarts: how often in a row a worker may fail before it is given up.
        everywhere: return the run, with all its draws, on all ranks.
        elastic: a folder that all machines see. Then all ranks are servers, one for each chain, and up to ``workers``
            workers a server join and leave while the run goes on: each is the same script started by an ``mpiexec`` of
            its own, with the environment variable STALEGRAD_JOIN set to that folder. They may be killed at any time.
        heartbeat: seconds without a sign of life after which such a worker counts as dead.
        shards: threads among which each server splits its updates, for models of many parameters: the same bits,
            sooner, as long as there are cores for them.
        slow: extra seconds per gradient of some workers, by number, to study stragglers.
        comm: an mpi4py communicator in place of all ranks. Its ranks call ``sg.sample``, and others do not.
    """

    patience: float | None = None
    restarts: int = 3
    everywhere: bool = False
    elastic: str | os.PathLike[str] | None = None
    heartbeat: float = 10.0
    shards: int = 1
    slow: Mapping[int, float] = field(default_factory=dict)
    comm: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        Care(self.patience, self.restarts)
        real_number("heartbeat", self.heartbeat, above=0)
        whole_number("shards", self.shards, least=1)
        by_worker("slow", self.slow)
        if self.elastic is not None:
            object.__setattr__(self, "elastic", folder_name("elastic", self.elastic))

    def begin(self) -> None:
        """From here on an exception, or an exit, of this rank before its run is over ends the whole job.

        Otherwise this begins with ``sg.sample``: a rank that fails before, say while it loads data, would leave the
        others waiting for ever.
        """
        self._library().exiting.awaited = True

    def team(self, servers: int, workers: int) -> Team:
        """The ranks, and what they are."""
        library = self._library()
        if join := os.environ.get(JOIN):
            return Joining(Path(join), self.heartbeat, self.slow)
        if library.exiting.last is not None and library.exiting.last.size > 1:
            raise ArgumentError(
                "engine", self, "has no other ranks any more: they ended with the first sg.sample",
                "To sample more than once use sg.engines.MPI(everywhere=True).",
            )  # fmt: skip
        library.exiting.awaited = True
        if self.patience is not None:
            library.exiting.patience = self.patience
        comm = library.world() if self.comm is None else self.comm
        if self.elastic is not None:
            crew = Crew(comm, servers, workers, None, self.everywhere)
            refuse_unless_elastic(crew)
            return crew
        try:
            layout = Layout(servers, comm.Get_size())
        except ArgumentError as error:
            Crew(comm, servers, workers, None, self.everywhere).refuse(error)
        return Crew(comm, servers, layout.workers, layout, self.everywhere)

    def run(self, job: Job) -> Outcome:
        """Do this rank's part. Rank 0 returns, and the others if all do."""
        crew = job.team
        assert isinstance(crew, Crew), "the job was planned for another engine"
        reports = self._serve(job, crew) if crew.serves else self._work(job, crew)
        if crew.everywhere:
            reports = _share(job, crew, reports)
        elif not crew.leads:
            crew.leave()
        crew.part()
        return outcome(reports)

    def _serve(self, job: Job, crew: Crew) -> list[Report]:
        care = Care(self.patience, self.restarts)
        if self.elastic is not None:
            care = replace(care, start=None, elastic=True)  # a place that nobody has taken is not waited for
            door = Door(Path(self.elastic), crew.rank, job.workers, connection_seconds(self.heartbeat))
            guests = partial(ElasticLink, crew.channel, door, job.potential, job.seed, self.heartbeat)
            return serve(job, crew.channel, crew.rank, guests, job.workers, care)
        assert crew.layout is not None
        ranks = crew.layout.workers_of(crew.rank)
        lines = {number: Line(crew.channel, rank, job.potential) for number, rank in enumerate(ranks)}
        return serve(job, crew.channel, crew.rank, partial(MpiLink, crew.channel, lines), len(ranks), care)

    def _work(self, job: Job, crew: Crew) -> list[Report]:
        assert crew.layout is not None
        posts = crew.layout.posts_of(crew.rank)
        pause = max(self.slow.get(number, 0.0) for _, number in posts)
        model, seed = job.potential, job.seed
        Hand([Post(Line(crew.channel, s, model), Worker(model, seed, s, number)) for s, number in posts], pause).work()
        return []

    def _library(self) -> "ModuleType":
        """The file that imports mpi4py, and with it starts MPI."""
        if self.elastic is not None or JOIN in os.environ:
            choose_transport()
        try:
            from stalegrad.engines.mpi import channel
        except (ModuleNotFoundError, RuntimeError) as error:  # no mpi4py, or no MPI library for it
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] != "mpi4py":
                raise
            raise MissingExtra("engine='mpi'", "mpi") from error
        return channel


def _share(job: Job, crew: Crew, reports: list[Report]) -> list[Report]:
    """Give the reports and the draws that rank 0 has to all."""
    assert job.recording is not None
    result = []
    for s in range(job.servers):
        facts, arrays = reports[s].parts() if crew.leads else ({}, [])
        report = Report.whole(*crew.channel.broadcast_facts(facts, arrays))
        drawn = job.recording.arrays(s) if crew.leads else job.recording.reserve(s, report.kept)
        for array in drawn:
            crew.channel.broadcast(array)
        result.append(report)
    return result
