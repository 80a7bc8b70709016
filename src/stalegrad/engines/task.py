"""The one place where an engine makes a server of a job, in the run's own process or in another."""

from dataclasses import dataclass

from stalegrad.engines.base import Job
from stalegrad.protocol.admission import Admission
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.past import Past
from stalegrad.protocol.server import ChainStatus, Server
from stalegrad.protocol.settings import Settings


@dataclass(frozen=True)
class ServerTask:
    """All that a server needs to begin, or to go on, wherever it runs: it can be pickled.

    Args:
        index: which server of the run it is.
        chain: where it is now.
        past: what has happened to it until now.
        settings: of the run.
        epoch: of the model, see :class:`~stalegrad.protocol.admission.Admission`.
    """

    index: int
    chain: Chain
    past: Past | None
    settings: Settings
    epoch: int

    @classmethod
    def of(cls, job: Job, index: int, chain: Chain, past: Past | None) -> "ServerTask":
        """The task of a job's server whose chain is where it is now."""
        return cls(index, chain, past, job.settings, job.potential.epoch)

    def server(self, record: Record, status: ChainStatus) -> Server:
        """The server, before its first worker has joined."""
        admission = Admission(self.settings.max_staleness, self.settings.policy, self.past, self.epoch)
        return Server(self.chain, admission, self.settings.steps, record, status, self.past)


def new_server(job: Job, index: int, made: tuple[Chain, Record] | None = None) -> Server:
    """The server of a job that runs in this process; with its chain and record, if they are there already."""
    chain, record = made or (job.chain(index), job.record(index))
    return ServerTask.of(job, index, chain, job.past_of(index)).server(record, job.status[index])
