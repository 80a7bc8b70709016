"""The ranks that make a run together: they synchronize, follow rank 0, and end."""

import json
import os
import socket
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad.engines.mpi.layout import Layout
from stalegrad.engines.team import available_cores
from stalegrad.potentials.base import Potential

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

T = TypeVar("T")


def fingerprint(potential: Potential, seed: int) -> int:
    """What ranks must agree on, as one number. It tells models and sizes of data apart, not the data themselves."""
    batches = potential.minibatches
    facts = [type(potential).__name__, potential.size, potential.dtype.name]
    facts += [batches.n_data, batches.batch_size, batches.scheme, seed]
    return zlib.crc32(json.dumps(facts).encode())


class RankTeam:
    """The ranks of a communicator as one team; see :class:`stalegrad.engines.team.Team`.

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
        self.broadcasts: list[str] = []  # what rank 0 has sent to all others, in order
        self._channel: Channel | None = None

    @property
    def channel(self) -> "Channel":
        """Between the ranks, once they have been synchronized."""
        assert self._channel is not None, "they have not been synchronized"
        return self._channel

    @property
    def serves(self) -> bool:
        """Whether this rank is a server's."""
        return self.rank < self.servers

    def synchronize(self, potential: Potential, seed: int) -> None:
        """Wait for all ranks, and count their processors."""
        from stalegrad.engines.mpi.channel import Channel

        self._channel = Channel.among(self.comm)
        host = zlib.crc32(socket.gethostname().encode())
        gathered = self.channel.all_gather(
            [fingerprint(potential, seed), self.servers, host, available_cores(), os.cpu_count() or 1]
        )
        self.cores = sum(_cores_of(gathered[gathered[:, 2] == each]) for each in np.unique(gathered[:, 2]))
        others = np.flatnonzero((gathered[:, :2] != gathered[0, :2]).any(axis=1)).tolist()
        if others:
            self.refuse(
                ArgumentError(
                    "engine", "mpi", f"ranks {others} were called with another model, seed or number of servers than "
                    "rank 0", "All ranks must call sg.sample alike; does every machine have the same data?",
                )
            )  # fmt: skip

    def broadcast(self, compute: Callable[[], T], encode: Callable[[T], str], decode: Callable[[str], T]) -> T:
        """What rank 0 computes; the others receive it encoded. If rank 0 fails, all do."""
        if not self.leads:
            received, _ = self.channel.broadcast_facts({})
            if received["problem"] is not None:
                self.refuse(StalegradError(received["problem"]))
            self.broadcasts.append(received["message"])
            return decode(received["message"])
        try:
            result = compute()
            message = encode(result)
        except BaseException as error:
            self.channel.broadcast_facts({"problem": f"{type(error).__name__}: {error}"})
            self.refuse(error)
        self.channel.broadcast_facts({"problem": None, "message": message})
        self.broadcasts.append(message)
        return result

    def refuse(self, error: BaseException) -> NoReturn:
        """Do not start, on any rank. All must call this."""
        if self.leads or self.everywhere:
            self.finish()
            raise error
        self.exit()

    def finish(self) -> None:
        """Note that the run is over: no other rank waits for this one any more."""
        from stalegrad.engines.mpi.channel import exiting

        exiting.awaited = False
        if self._channel is not None and self.everywhere:
            self.channel.barrier()
            self.channel.free()
        elif self._channel is not None:
            exiting.last = self.channel

    def exit(self) -> NoReturn:
        """End this process, quietly and with status 0."""
        self.finish()
        raise SystemExit(0)


def _cores_of(ranks: Any) -> int:
    """The processors of a machine that its ranks may use: together no more than it has."""
    return int(min(ranks[:, 3].sum(), ranks[:, 4].max()))
