"""A simulated cluster: the trace that a cluster would produce, in virtual time, without computing any gradient.

A discrete-event model. A worker computes for as long as its law says; its gradient travels for the latency, queues for
the server's incoming link and then for the server, which takes ``update`` seconds for an accepted gradient; the new
point queues for the outgoing link and travels back. Which gradients are accepted is decided by the same
:class:`stalegrad.protocol.admission.Admission` that real servers use.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from stalegrad._internal.jit import compiled
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.engines.simulation.laws import Constant, Law, Network, as_law, as_network
from stalegrad.kernels.noise import MAX_CHAINS, MAX_SEED, MAX_WORKERS
from stalegrad.protocol.admission import Admission, Assignment, Policy
from stalegrad.protocol.chain_trace import BLOCK_ROWS, ChainTrace, joined, unchecked
from stalegrad.protocol.order import Order, Stretch
from stalegrad.protocol.trace import Trace
from stalegrad.protocol.trace_builder import TraceBuilder

_FAR = 4096  # versions: so many points are kept for a gradient of which it is not known when it lands


def simulate(
    *,
    workers: int,
    steps: int,
    compute: Law | float = 1.0,
    network: Network | float | None = None,
    update: float = 0.0,
    servers: int = 1,
    max_staleness: int | None = None,
    policy: Policy = "drop",
    seed: int = 0,
    gradients: int | None = None,
) -> Trace:
    """The trace of S simulated servers with W workers each, with virtual times.

    Args:
        workers: W, workers of each server.
        steps: L, accepted updates of each server.
        compute: seconds for a gradient: a number or a law of :mod:`stalegrad.engines.simulation.laws`.
        network: the server's link; a number is a latency in seconds; None has no delay.
        update: seconds the server is busy with an accepted gradient.
        servers: S.
        max_staleness: τ, or None for no bound.
        policy: what happens at the bound, ``"drop"`` or ``"wait"``.
        seed: of the compute times.
        gradients: after so many a server ends, however few of them were accepted; None for no limit. Where W workers
            are dropped for being staler than τ, an update takes about W / (τ + 1) of them.

    >>> from stalegrad.engines.simulation import Exponential
    >>> trace = simulate(workers=4, steps=1000, compute=Exponential(mean=1e-2), update=1e-4)
    >>> round(float(trace.chains[0].staleness.mean()), 1)
    3.0
    """
    whole_number("workers", workers, least=1, most=MAX_WORKERS)
    whole_number("steps", steps, least=1)
    whole_number("servers", servers, least=1, most=MAX_CHAINS)
    seed = whole_number("seed", seed, most=MAX_SEED)
    most = inf if gradients is None else whole_number("gradients", gradients, least=1)
    cluster = Cluster(
        workers=workers, compute=compute, network=network, update=update, max_staleness=max_staleness, policy=policy,
        seed=seed,
    )  # fmt: skip
    if cluster.takes_turns:
        return Trace((cluster.trace(0, steps, most),) * servers, seed=seed)
    return Trace(tuple(cluster.trace(chain, steps, most) for chain in range(servers)), seed=seed)


class Cluster:
    """A server and its workers, whose chains are simulated as they are asked for; see :func:`simulate`."""

    def __init__(
        self,
        *,
        workers: int,
        compute: Law | float = 1.0,
        network: Network | float | None = None,
        update: float = 0.0,
        max_staleness: int | None = None,
        policy: Policy = "drop",
        seed: int = 0,
    ) -> None:
        self._workers, self._law = workers, as_law("compute", compute)
        self._link, self._busy = as_network(network), real_number("update", update, least=0)
        self._bound, self._policy, self._seed = max_staleness, policy, seed
        self._law.check_workers(workers)

    @property
    def takes_turns(self) -> bool:
        """Whether all workers are equally fast and never held: then every chain is the same."""
        admission = Admission(self._bound, self._policy)
        constant = isinstance(self._law, Constant) and not self._law.factors
        return constant and admission.lets_all_fly(self._workers)

    def order(self, chain: int, steps: int) -> Order:
        """So many updates of a chain, in blocks that are simulated when they are wanted."""
        if not steps:
            return Order(0, ())
        if self.takes_turns:
            return Order(steps, self._turns(steps))
        return Order(steps, self._stretches(chain, steps))

    def trace(self, chain: int, steps: int, gradients: float = inf) -> ChainTrace:
        """The same as a whole; it ends after so many gradients, however few of them were accepted."""
        if self.takes_turns:  # all are
            whole = joined(stretch.rows for stretch in self._turns(int(min(steps, gradients))))
        else:
            whole = joined(rows for rows, _ in self._events(chain, steps, gradients))
        return ChainTrace(**whole.columns())

    def _turns(self, steps: int) -> Iterator[Stretch]:
        """What :meth:`_stretches` gives for equally fast workers, without going through the events one by one."""
        assert isinstance(self._law, Constant)
        workers, link = self._workers, self._link
        free, ready = np.zeros(3), np.empty(workers)
        for worker in range(workers):
            free[2] += link.transfer
            ready[worker] = free[2] + link.latency + self._law.value
        for first in range(0, steps, BLOCK_ROWS):
            step = np.arange(first, min(first + BLOCK_ROWS, steps), dtype=np.int64)
            times = np.empty(len(step))
            transfers = link.gradient_transfer, link.transfer
            _times_of_turns(first, float(self._law.value), link.latency, transfers, self._busy, free, ready, times)
            rows = unchecked(
                worker=(step % workers).astype(np.int32),
                count=step // workers,
                staleness=np.minimum(step, workers - 1).astype(np.int32),
                accepted=np.ones(len(step), bool),
                time=times,
                gradient_seconds=np.full(len(step), self._law.value, np.float32),
            )
            yield Stretch(rows, min(steps, workers))

    def _stretches(self, chain: int, steps: int) -> Iterator[Stretch]:
        """A gradient that is under way at the end of a stretch is older when it lands: its point must be kept.

        How old it will be is not known, and one that is far behind may not land at all: then the whole simulation is
        made once more, for the largest staleness alone.
        """
        depth, exact = 1, None
        for rows, reach in self._events(chain, steps):
            needed = max(int(rows.staleness[rows.accepted].max(initial=0)), reach) + 1
            if self._bound is not None:
                needed = min(needed, self._bound + 1)
            if needed > max(depth, _FAR) and exact is None:
                exact = 1 + max(
                    int(block.staleness[block.accepted].max(initial=0)) for block, _ in self._events(chain, steps)
                )
            depth = max(depth, needed) if exact is None else exact
            yield Stretch(rows, depth)

    def _events(self, chain: int, steps: int, gradients: float = inf) -> Iterator[tuple[ChainTrace, int]]:
        """The rows of a chain, and how many versions before the last one the oldest gradient under way has read.

        All messages of a direction have one size and one latency, so each queue serves in the order in which gradients
        are ready. Of gradients that are ready at once, the one that was asked for first comes first.
        """
        latency, transfer, busy = self._link.latency, self._link.transfer, self._busy
        gradient_transfer = self._link.gradient_transfer
        admission, law, seed = Admission(self._bound, self._policy), self._law, self._seed
        incoming_free = server_free = outgoing_free = 0.0
        trace = TraceBuilder()
        # (when the gradient is computed, tie-breaker, what it is, how long it takes)
        ready: list[tuple[float, int, Assignment, float]] = []
        departures = count()

        def send(time: float) -> None:
            nonlocal outgoing_free
            for assignment in admission.release():
                outgoing_free = max(time, outgoing_free) + transfer
                seconds = law.seconds(seed, chain, assignment.worker, assignment.count)
                heappush(ready, (outgoing_free + latency + seconds, next(departures), assignment, seconds))

        for worker in range(self._workers):
            admission.join(worker)
        send(0.0)
        arrived = 0
        while admission.version < steps and arrived < gradients:
            time, _, assignment, seconds = heappop(ready)
            incoming_free = max(time + latency, incoming_free) + gradient_transfer
            landing = admission.land(assignment.worker)
            server_free = max(incoming_free, server_free) + (busy if landing.accepted else 0.0)
            row = assignment.worker, assignment.count, landing.staleness, landing.accepted, np.nan, server_free
            trace.append(*row, -1, seconds)
            arrived += 1
            send(server_free)
            if len(trace) == BLOCK_ROWS:
                yield trace.take(), admission.version - admission.flying[0].version
        if len(trace):
            yield trace.take(), 0


@compiled
def _times_of_turns(first, seconds, latency, transfers, busy, free, ready, times):  # type: ignore[no-untyped-def]
    """When each update from ``first`` on is done: the queues of :meth:`Cluster._events` for one order of arrival.

    Args:
        first: number of the first update.
        seconds: for a gradient.
        latency: of the link.
        transfers: seconds that a gradient occupies it, and a point.
        busy: seconds for an update.
        free: from when on the incoming link, the server and the outgoing link are free; it is kept up to date.
        ready: when each worker's gradient is computed; likewise.
        times: room for the result.
    """
    incoming_free, server_free, outgoing_free = free[0], free[1], free[2]
    for step in range(times.size):
        worker = (first + step) % ready.size
        incoming_free = max(ready[worker] + latency, incoming_free) + transfers[0]
        server_free = max(incoming_free, server_free) + busy
        outgoing_free = max(server_free, outgoing_free) + transfers[1]
        ready[worker] = outgoing_free + latency + seconds
        times[step] = server_free
    free[0], free[1], free[2] = incoming_free, server_free, outgoing_free
