"""A simulated cluster: the trace that a cluster would produce, in virtual time, without computing any gradient.

A discrete-event model. A worker computes for as long as its law says; its gradient travels for the latency, queues for
the server's incoming link and then for the server, which takes ``update`` seconds for an accepted gradient; the new
point queues for the outgoing link and travels back. Which gradients are accepted is decided by the same
:class:`stalegrad.admission.Admission` that real servers use.
"""

from heapq import heappop, heappush
from itertools import count

import numpy as np

from stalegrad.admission import Admission, Assignment, Policy
from stalegrad.checks import real_number, whole_number
from stalegrad.jit import compiled
from stalegrad.noise import MAX_CHAINS, MAX_WORKERS
from stalegrad.simulation.laws import Constant, Law, Network, as_law, as_network
from stalegrad.trace import MAX_SEED, ChainTrace, Trace, TraceBuilder


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
) -> Trace:
    """The trace of S simulated servers with W workers each, with virtual times.

    Args:
        workers: W, workers of each server.
        steps: L, accepted updates of each server.
        compute: seconds for a gradient: a number or a law of :mod:`stalegrad.simulation.laws`.
        network: the server's link; a number is a latency in seconds; None has no delay.
        update: seconds the server is busy with an accepted gradient.
        servers: S.
        max_staleness: τ, or None for no bound.
        policy: what happens at the bound, ``"drop"`` or ``"wait"``.
        seed: of the compute times.

    >>> from stalegrad.simulation import Exponential
    >>> trace = simulate(workers=4, steps=1000, compute=Exponential(mean=1e-2), update=1e-4)
    >>> round(float(trace.chains[0].staleness.mean()), 1)
    3.0
    """
    whole_number("workers", workers, least=1, most=MAX_WORKERS)
    whole_number("steps", steps, least=1)
    whole_number("servers", servers, least=1, most=MAX_CHAINS)
    seed = whole_number("seed", seed, most=MAX_SEED)
    law, link, busy = as_law("compute", compute), as_network(network), real_number("update", update, least=0)
    law.check_workers(workers)
    admission = Admission(max_staleness, policy)
    if isinstance(law, Constant) and not law.factors and admission.lets_all_fly(workers):
        return Trace((_take_turns(workers, steps, law.value, link, busy),) * servers, seed=seed)
    chains = [
        _simulate_chain(chain, workers, steps, law, link, busy, Admission(max_staleness, policy), seed)
        for chain in range(servers)
    ]
    return Trace(tuple(chains), seed=seed)


def _take_turns(workers: int, steps: int, seconds: float, link: Network, busy: float) -> ChainTrace:
    """What :func:`_simulate_chain` gives for equally fast workers, without going through the events one by one."""
    step = np.arange(steps, dtype=np.int64)
    return ChainTrace(
        worker=(step % workers).astype(np.int32),
        count=step // workers,
        staleness=np.minimum(step, workers - 1).astype(np.int32),
        accepted=np.ones(steps, bool),
        time=_times_of_turns(workers, steps, float(seconds), link.latency, link.transfer, busy),
    )


@compiled
def _times_of_turns(workers, steps, seconds, latency, transfer, busy):  # type: ignore[no-untyped-def]
    """When each update is done: the queues of :func:`_simulate_chain` for one order of arrival."""
    incoming_free = server_free = outgoing_free = 0.0
    ready, times = np.empty(workers), np.empty(steps)
    for worker in range(workers):
        outgoing_free += transfer
        ready[worker] = outgoing_free + latency + seconds
    for step in range(steps):
        worker = step % workers
        incoming_free = max(ready[worker] + latency, incoming_free) + transfer
        server_free = max(incoming_free, server_free) + busy
        outgoing_free = max(server_free, outgoing_free) + transfer
        ready[worker] = outgoing_free + latency + seconds
        times[step] = server_free
    return times


def _simulate_chain(
    chain: int, workers: int, steps: int, law: Law, link: Network, busy: float, admission: Admission, seed: int
) -> ChainTrace:
    """All messages have one size and one latency, so each queue serves in the order in which gradients are ready.

    Of gradients that are ready at once, the one that was asked for first comes first.
    """
    latency, transfer = link.latency, link.transfer
    incoming_free = server_free = outgoing_free = 0.0
    trace = TraceBuilder()
    ready: list[tuple[float, int, Assignment]] = []  # (when the gradient is computed, tie-breaker, what it is)
    departures = count()

    def send(time: float) -> None:
        nonlocal outgoing_free
        for assignment in admission.release():
            outgoing_free = max(time, outgoing_free) + transfer
            seconds = law.seconds(seed, chain, assignment.worker, assignment.count)
            heappush(ready, (outgoing_free + latency + seconds, next(departures), assignment))

    for worker in range(workers):
        admission.join(worker)
    send(0.0)
    while admission.version < steps:
        time, _, assignment = heappop(ready)
        incoming_free = max(time + latency, incoming_free) + transfer
        landing = admission.land(assignment.worker)
        server_free = max(incoming_free, server_free) + (busy if landing.accepted else 0.0)
        trace.append(assignment.worker, assignment.count, landing.staleness, landing.accepted, time=server_free)
        send(server_free)
    return trace.build()
