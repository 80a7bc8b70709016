"""The ranks that make a run together: they meet, follow rank 0, and leave."""

import json
import os
import socket
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from stalegrad.engines.base import available_cores
from stalegrad.engines.mpi.layout import Layout
from stalegrad.errors import ArgumentError, StalegradError
from stalegrad.potentials.base import Potential

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

T = TypeVar("T")


def fingerprint(potential: Potential, seed: int) -> int:
    """What ranks must agree on, as one number. It tells models and sizes of data apart, not the data themselves."""
    batches = potential.minibatches
    told = [type(potential).__name__, potential.size, potential.dtype.name]
    told += [batches.n_data, batches.batch_size, batches.scheme, seed]
    return zlib.crc32(json.dumps(told).encode())


class Crew:
    """The ranks of a communicator as one team; see :class:`stalegrad.engines.base.Team`.

    Args:
        comm: the communicator.
        servers: S.
        workers: W, the most workers that a server has.
        layout: who is what; None if all ranks are servers.
        everywhere: whether all ranks return from sampling.
    """

    def __init__(self, comm: Any, servers: int, workers: int, layout: Layout | None, everywhere: bool) -> None:
        self.comm, self.servers, self.workers, self.layout = comm, servers, workers, layout
        self.everywhere = everywhere
        self.rank: int = comm.Get_rank()
        self.leads = self.rank == 0
        self.even = layout is not None and layout.even
        self.cores = available_cores()
        self._channel: Channel | None = None

    @property
    def channel(self) -> "Channel":
        """Between the ranks, once they have met."""
        assert self._channel is not None, "they have not met"
        return self._channel

    @property
    def serves(self) -> bool:
        """Whether this rank is a server's."""
        return self.rank < self.servers

    def meet(self, potential: Potential, seed: int) -> None:
        """Wait for all ranks, and count their processors."""
        from stalegrad.engines.mpi import channel

        kind = channel.FrailChannel if self.layout is None else channel.Channel
        self._channel = kind.among(self.comm)
        host = zlib.crc32(socket.gethostname().encode())
        told = self.channel.everybody(
            [fingerprint(potential, seed), self.servers, host, available_cores(), os.cpu_count() or 1]
        )
        self.cores = sum(_cores_of(told[told[:, 2] == each]) for each in np.unique(told[:, 2]))
        others = np.flatnonzero((told[:, :2] != told[0, :2]).any(axis=1)).tolist()
        if others:
            self.refuse(
                ArgumentError(
                    "engine", "mpi", f"ranks {others} were called with another model, seed or number of servers than "
                    "rank 0", "All ranks must call sg.sample alike; does every machine have the same data?",
                )
            )  # fmt: skip

    def first(self, lead: Callable[[], T], tell: Callable[[T], str], follow: Callable[[str], T]) -> T:
        """Rank 0 acts, the others follow."""
        if not self.leads:
            told, _ = self.channel.broadcast_facts({})
            if told["problem"] is not None:
                self.refuse(StalegradError(told["problem"]))
            return follow(told["word"])
        try:
            result = lead()
            word = tell(result)
        except BaseException as error:
            self.channel.broadcast_facts({"problem": f"{type(error).__name__}: {error}"})
            self.refuse(error)
        self.channel.broadcast_facts({"problem": None, "word": word})
        return result

    def refuse(self, error: BaseException) -> NoReturn:
        """Do not start, on any rank. All must call this."""
        if self.leads or self.everywhere:
            self.part()
            raise error
        self.leave()

    def part(self) -> None:
        """The run is over: nobody waits for this rank any more."""
        from stalegrad.engines.mpi.channel import exiting

        exiting.awaited = False
        if self._channel is not None and self.everywhere:
            self.channel.barrier()
            self.channel.free()
        elif self._channel is not None:
            exiting.last = self.channel

    def leave(self) -> NoReturn:
        """End this process, without a word."""
        self.part()
        raise SystemExit(0)


def _cores_of(ranks: Any) -> int:
    """The processors of a machine that its ranks may use: together no more than it has."""
    return int(min(ranks[:, 3].sum(), ranks[:, 4].max()))
