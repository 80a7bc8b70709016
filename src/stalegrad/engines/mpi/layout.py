"""Which rank is what: ranks 0 … S−1 are servers, the others work for them by turns."""

from dataclasses import dataclass

from stalegrad._internal.errors import ArgumentError


@dataclass(frozen=True)
class Layout:
    """Ranks of S servers and their workers.

    Where the workers cannot be shared out evenly some servers have one more than others. Where there are fewer workers
    than servers, each works for several of them.

    >>> layout = Layout(servers=2, ranks=5)
    >>> layout.workers_of(0), layout.workers_of(1), layout.memberships_of(4)
    ([2, 4], [3], [(0, 1)])
    >>> Layout(servers=3, ranks=5).memberships_of(3)
    [(0, 0), (2, 0)]

    Args:
        servers: S.
        ranks: in all.
    """

    servers: int
    ranks: int

    def __post_init__(self) -> None:
        if self.ranks < self.servers + 1:
            needed = f"mpiexec -n {self.servers + 1}"
            raise ArgumentError(
                "servers", self.servers, f"needs at least {self.servers + 1} ranks with engine='mpi', one for each "
                f"server and one for a worker; there {'is' if self.ranks == 1 else 'are'} {self.ranks}",
                f"Start it with {needed} or more: all ranks beyond the servers are workers.",
            )  # fmt: skip

    @property
    def workers(self) -> int:
        """W: the most workers that a server has."""
        return len(self.workers_of(0))

    @property
    def even(self) -> bool:
        """Whether all servers have as many."""
        return len({len(self.workers_of(server)) for server in range(self.servers)}) == 1

    def workers_of(self, server: int) -> list[int]:
        """The ranks of a server's workers, in the order of their numbers."""
        return [rank for rank, at, _ in self._memberships() if at == server]

    def memberships_of(self, rank: int) -> list[tuple[int, int]]:
        """The (server, number) pairs as which a rank works; none for a server's rank."""
        return [(server, number) for at, server, number in self._memberships() if at == rank]

    def _memberships(self) -> list[tuple[int, int, int]]:
        workers = self.ranks - self.servers
        return [
            (self.servers + k % workers, k % self.servers, k // self.servers) for k in range(max(workers, self.servers))
        ]
