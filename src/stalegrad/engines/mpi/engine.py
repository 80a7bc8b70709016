"""The MPI engine's settings, and which part of a run this rank has."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stalegrad._internal.errors import ArgumentError, MissingExtra
from stalegrad._internal.validation import by_worker, folder_name, real_number, whole_number
from stalegrad.engines.base import Engine, Job, Outcome
from stalegrad.engines.hostile_network import TO_SERVER, TO_WORKER, HostileNetwork, HostileWire, Wire
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.mpi import joining_worker
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.elastic_link import ElasticLink, refuse_unless_elastic
from stalegrad.engines.mpi.hostile import HostileConnection, HostileMpiLink
from stalegrad.engines.mpi.join_port import JoinPort
from stalegrad.engines.mpi.layout import Layout
from stalegrad.engines.mpi.link import MpiLink
from stalegrad.engines.mpi.rank_server import decoded, encoded, serve
from stalegrad.engines.mpi.rank_worker import Membership, RankWorker
from stalegrad.engines.mpi.ranks import RankTeam
from stalegrad.engines.reports import Report, outcome_of_reports
from stalegrad.engines.team import Team
from stalegrad.protocol.worker import Worker

if TYPE_CHECKING:
    from types import ModuleType

JOIN = "STALEGRAD_JOIN"
"""The variable that names the folder of a run to join as a worker."""


@dataclass(frozen=True)
class MPI(Engine):
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
        elastic: a folder of yours that all machines see and nobody else may write to. Then all ranks are servers, one
            for each chain, and up to ``workers`` workers a server join and leave while the run goes on: each is the
            same script started by itself, with the environment variable STALEGRAD_JOIN set to that folder. They may be
            killed at any time. Who may join, and what is not protected, is in ``docs/security.md``.
        heartbeat: seconds without a sign of life after which such a worker counts as dead.
        update_threads: threads among which each server splits its updates, for models of many parameters: the same
            bits, sooner, as long as there are cores for them.
        slow: extra seconds per gradient of some workers, by number, to study stragglers.
        hostile: a network that loses, repeats and damages messages by a plan, see
            :class:`stalegrad.testing.HostileNetwork`; for tests. Elastic workers have none.
        comm: an mpi4py communicator in place of all ranks. Its ranks call ``sg.sample``, and others do not.

    >>> MPI(everywhere=True).heartbeat
    10.0
    """

    patience: float | None = None
    restarts: int = 3
    everywhere: bool = False
    elastic: str | os.PathLike[str] | None = None
    heartbeat: float = 10.0
    update_threads: int = 1
    slow: Mapping[int, float] = field(default_factory=dict)
    hostile: HostileNetwork | None = None
    comm: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        FaultPolicy(self.patience, self.restarts)
        real_number("heartbeat", self.heartbeat, above=0)
        whole_number("update_threads", self.update_threads, least=1)
        by_worker("slow", self.slow)
        if self.elastic is not None and self.hostile is not None:
            raise ArgumentError("hostile", self.hostile, "is not for elastic workers", "Leave one of them out.")
        if self.elastic is not None:
            object.__setattr__(self, "elastic", folder_name("elastic", self.elastic))

    def begin(self) -> None:
        """From here on an exception, or an exit, of this rank before its run is over ends the whole job.

        Otherwise this begins with ``sg.sample``: a rank that fails before, say while it loads data, would leave the
        others waiting for ever.
        """
        if not os.environ.get(JOIN):  # nobody waits for a worker that joins
            self._library().exiting.awaited = True

    def team(self, servers: int, workers: int) -> Team:
        """The ranks, and which of them are servers and workers; or a process that joins such ranks."""
        if join := os.environ.get(JOIN):
            return joining_worker.JoiningTeam(Path(join), workers)
        library = self._library()
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
            team = RankTeam(comm, servers, workers, None, self.everywhere)
            refuse_unless_elastic(team)
            return team
        try:
            layout = Layout(servers, comm.Get_size())
        except ArgumentError as error:
            RankTeam(comm, servers, workers, None, self.everywhere).refuse(error)
        return RankTeam(comm, servers, layout.workers, layout, self.everywhere)

    def over(self, network: HostileNetwork) -> "MPI | None":
        """The same engine over a hostile network; there is none for elastic workers."""
        return None if self.elastic is not None else replace(self, hostile=network)

    def run(self, job: Job) -> Outcome:
        """Do this rank's part. Rank 0 returns, and the others if all do."""
        team = job.team
        if isinstance(team, joining_worker.JoiningTeam):
            joining_worker.work(job, team.folder, self.heartbeat, self.slow)
        assert isinstance(team, RankTeam), "the job was planned for another engine"
        reports = self._serve(job, team) if team.serves else self._work(job, team)
        if team.everywhere:
            reports = _share(job, team, reports)
        elif not team.leads:
            team.exit()
        team.finish()
        return outcome_of_reports(reports)

    def _serve(self, job: Job, team: RankTeam) -> list[Report]:
        policy = FaultPolicy(self.patience, self.restarts)
        if self.elastic is not None:  # a place that no worker has taken is not waited for
            policy = replace(policy, start=None, silence=self.heartbeat, elastic=True)
            port = JoinPort(Path(self.elastic), team.rank, job.settings.workers, team.broadcasts)
            joined = partial(ElasticLink, team.channel, port, job.potential, job.settings.seed, self.heartbeat)
            return serve(job, team.channel, team.rank, joined, job.settings.workers, policy)
        assert team.layout is not None
        ranks = team.layout.workers_of(team.rank)
        connections = {
            number: self._connection(job, team, rank, Wire(team.rank, number, TO_SERVER))
            for number, rank in enumerate(ranks)
        }
        link = MpiLink if self.hostile is None else HostileMpiLink
        return serve(job, team.channel, team.rank, partial(link, team.channel, connections), len(ranks), policy)

    def _work(self, job: Job, team: RankTeam) -> list[Report]:
        assert team.layout is not None
        numbers = team.layout.memberships_of(team.rank)
        memberships = [
            Membership(
                self._connection(job, team, s, Wire(s, number, TO_WORKER)),
                Worker(job.potential, job.settings.seed, s, number),
            )
            for s, number in numbers
        ]
        RankWorker(memberships).run(max(self.slow.get(number, 0.0) for _, number in numbers))
        return []

    def _connection(self, job: Job, team: RankTeam, peer: int, incoming: Wire) -> Connection:
        at_server = incoming.direction == TO_SERVER
        if self.hostile is None:
            return Connection(team.channel, peer, job.potential, at_server=at_server)
        wire = HostileWire(self.hostile, incoming)
        return HostileConnection(team.channel, peer, job.potential, wire, at_server=at_server)

    def _library(self) -> "ModuleType":
        """The file that imports mpi4py, and with it starts MPI."""
        try:
            from stalegrad.engines.mpi import channel
        except (ModuleNotFoundError, RuntimeError) as error:  # no mpi4py, or no MPI library for it
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] != "mpi4py":
                raise
            raise MissingExtra("engine='mpi'", "mpi") from error
        return channel


def _share(job: Job, team: RankTeam, reports: list[Report]) -> list[Report]:
    """Give the reports and the draws that rank 0 has to all."""
    assert job.recording is not None
    result = []
    for s in range(job.settings.servers):
        drawn = job.recording.arrays(s) if team.leads else ()
        facts, arrays = encoded(reports[s], drawn) if team.leads else ({}, [])
        report, kept = decoded(*team.channel.broadcast_facts(facts, arrays))
        for array in drawn if team.leads else job.recording.reserve(s, kept):
            team.channel.broadcast(array)
        result.append(report)
    return result
