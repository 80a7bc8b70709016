"""Machines with cores, memory and a link each: how many chains and workers to put on them, and why.

A chain is a server and its workers. Chains are spread evenly over the machines. One that fits into its share of a
machine exchanges nothing over the network; one that does not has its other workers elsewhere, and their gradients come
in over the link of the server's machine, which all servers there share.

Where the machine is the one at hand, layouts need not be predicted: short runs tell how fast they are, see
:func:`~stalegrad.planning.calibration.measure_layouts`.

Whatever the layout, equal precision takes equally many updates after burn-in, all chains together: K. With S chains
each makes burn-in + K/S of them. So **chains divide what comes after the burn-in, and workers divide all of it**, but
make gradients stale: a bias, or a shorter step. That is the whole trade; ``layout_advice.py`` says how it came out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, NamedTuple

from stalegrad._internal.validation import real_number, whole_number
from stalegrad.engines.simulation import LogNormal, Network
from stalegrad.planning import scaling
from stalegrad.planning.advice import Targets
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.step_sizes import StepSizes
from stalegrad.planning.timing import RoundTrip
from stalegrad.runs.jobs import JobFile

_SIMULATED = 3000  # updates of each layout, but never fewer than 20 a worker
_COPIES = 4  # of θ that a chain's state takes at its server, besides one for each worker that is away


@dataclass(frozen=True)
class Machines:
    """What there is.

    Args:
        count: machines.
        cores: of each.
        bandwidth: bytes a second of a machine's link, each way.
        latency: seconds that a message travels between machines.
        memory: bytes of each; None if it is not known.

    >>> Machines(count=4, cores=8, memory=64e9).cores
    8
    """

    count: int
    cores: int
    bandwidth: float = 1.25e9
    latency: float = 5e-5
    memory: float | None = None

    def __post_init__(self) -> None:
        whole_number("machines", self.count, least=1)
        whole_number("cores", self.cores, least=1)
        real_number("link", self.bandwidth, above=0)
        real_number("latency", self.latency, least=0)
        if self.memory is not None:
            real_number("memory", self.memory, above=0)

    @property
    def all_cores(self) -> int:
        """The cores of all machines together."""
        return self.count * self.cores


@dataclass(frozen=True)
class Layout:
    """So many chains of so many workers on the machines, and what to expect of them.

    Args:
        servers: S.
        workers: W of each chain.
        away: share of a chain's workers that are not on their server's machine.
        mean_staleness: of gradients.
        updates_per_second: of a chain.
        bottleneck: what holds a chain up.
        factor: by which the job's step size is multiplied, so that the staleness does not bias the result.
        error: of the variance along the stiffest direction with that step; None if it is not known.
        steps: L of each chain, burn-in included.
        burn_in: of those.
        memory: bytes on the machine that needs most.
        fits: whether the machines have that much.
        measured: whether rate and staleness are those of a short run, not of a simulation.
    """

    servers: int
    workers: int
    away: float
    mean_staleness: float
    updates_per_second: float
    bottleneck: str
    factor: float
    error: float | None
    steps: int
    burn_in: int
    memory: float
    fits: bool = True
    measured: bool = False

    @property
    def seconds(self) -> float:
        """Until the precision wanted is there."""
        return self.steps / self.updates_per_second

    @property
    def ranks(self) -> int:
        """Processes: a server and its workers for each chain."""
        return self.servers * (self.workers + 1)


def numbers_of_chains(machines: Machines) -> list[int]:
    """Divisions of the cores into equal parts, but for two a chain: a lone worker and its server need one.

    >>> numbers_of_chains(Machines(2, 6))
    [1, 2, 3, 4, 12]
    """
    total = machines.all_cores
    return sorted(s for s in range(1, total + 1) if total % s == 0 and (total // s == 1 or total // s > 2 or s == 1))


def layouts(
    job: JobFile, calibration: Calibration, sizes: StepSizes | None, machines: Machines, targets: Targets,
    seed: int = 0, here: Mapping[tuple[int, int], RoundTrip] | None = None,
) -> list[Layout]:  # fmt: skip
    """All that are worth a look, by growing number of chains.

    Args:
        job: what is to be run.
        calibration: what it takes.
        sizes: what is known of its step size.
        machines: what there is.
        targets: what the run is to achieve.
        seed: of the simulations.
        here: what short runs on this machine have shown, by (S, W), see :func:`to_measure`.

    >>> from stalegrad.planning.timing import RoundTrip
    >>> job = JobFile.from_table({"steps": 1000, "burn_in": 500, "model": "stalegrad.testing:small_model"})
    >>> trips = (RoundTrip(1, 0.02, 0.001, 45.0, 0.0), RoundTrip(2, 0.02, 0.001, 88.0, 1.0))
    >>> measured = Calibration(
    ...     engine="processes", cores=2, servers=1, parameters=20, message_bytes=160, wire_bytes=(160, 160),
    ...     n_data=10_000, batch_size=100, gradients={50: 0.012, 100: 0.02}, variation=0.1, update=0.001,
    ...     busy_elsewhere=0.0, round_trips=trips,
    ... )
    >>> found = layouts(job, measured, None, Machines(count=1, cores=8), Targets())
    >>> [(layout.servers, layout.workers) for layout in found]
    [(1, 7), (2, 3), (8, 1)]
    """
    found: list[Layout] = []
    known, same = here or {}, is_here(calibration, machines)
    for servers, workers in divisions(machines, all_workers=same and (1, machines.cores) in known):
        memory = _memory(calibration, machines, servers, workers)
        trip = known.get((servers, workers)) if same else None
        parts = parts_of(calibration, machines, servers, workers, known)
        seen = _measured(trip) if trip else _predicted(job, parts, calibration.variation, workers, seed)
        tau = seen.mean_staleness
        factor = 1.0 if sizes is None else sizes.advised_factor(tau)
        burn_in = ceil(job.settings.burn_in / factor)
        kept = job.settings.servers * (job.settings.steps - job.settings.burn_in) / (factor * targets.error**2)
        found.append(
            Layout(
                servers,
                workers,
                seen.away,
                tau,
                seen.updates_per_second,
                seen.bottleneck,
                factor,
                None if sizes is None else sizes.error(tau, factor),
                burn_in + ceil(kept / servers),
                burn_in,
                memory,
                machines.memory is None or memory <= machines.memory,
                trip is not None,
            )
        )
    return found


def divisions(machines: Machines, *, all_workers: bool = False) -> list[tuple[int, int]]:
    """(S, W) of all layouts that are worth a look.

    Args:
        machines: what there is.
        all_workers: also have workers on all cores, which a server that does little may share with them: whether that
            pays is for a run to tell.

    >>> divisions(Machines(1, 2)), divisions(Machines(1, 2), all_workers=True)
    ([(1, 1), (2, 1)], [(1, 1), (1, 2), (2, 1)])
    """
    total = machines.all_cores
    found = {(servers, max(1, total // servers - 1)) for servers in numbers_of_chains(machines)}
    if all_workers:
        found |= {(servers, total // servers) for servers in range(1, total + 1) if total % servers == 0}
    return sorted(found)


def is_here(calibration: Calibration, machines: Machines) -> bool:
    """Whether the machine is one like this."""
    return (machines.count, machines.cores) == (1, calibration.cores)


def to_measure(calibration: Calibration, machines: Machines) -> list[tuple[int, int]]:
    """(S, W) of what short runs here can tell about: all that fits, if the machine is like this one.

    Of others, what becomes of a lone worker and its server when they have to share a core, because there is a chain on
    every core. They take turns, but waking each other takes longer than when each has a core of its own.
    """
    if not is_here(calibration, machines):
        return [(calibration.cores, 1)]
    most = inf if machines.memory is None else machines.memory
    return [each for each in divisions(machines, all_workers=True) if _memory(calibration, machines, *each) <= most]


class Parts(NamedTuple):
    """What a chain of a layout is made of."""

    gradient: float
    """Seconds."""
    served: float
    """Seconds."""
    network: Network
    away: float
    """Share of the workers that are not on their server's machine."""


def parts_of(
    calibration: Calibration, machines: Machines, servers: int, workers: int, here: Mapping[tuple[int, int], RoundTrip]
) -> Parts:
    """The times of a lone worker here; of one that shares a core with its server, where each core has a chain."""
    network, away, _ = link_of(calibration, machines, servers, workers)
    shared = here.get((calibration.cores, 1)) if workers == 1 and servers == machines.all_cores else None
    if shared is None:
        return Parts(calibration.alone.gradient, calibration.alone.served, network, away)
    exchange = max(0.0, 1 / shared.updates_per_second - shared.gradient - shared.served)
    return Parts(shared.gradient, shared.served, replace(network, latency=exchange / 2), away)


class _Seen(NamedTuple):
    """What a chain of a layout does."""

    away: float
    mean_staleness: float
    updates_per_second: float
    bottleneck: str


def _measured(trip: RoundTrip) -> _Seen:
    rate = trip.updates_per_second
    held = scaling.bottleneck(rate * trip.gradient / trip.workers, 0.0, rate * trip.served)
    return _Seen(0.0, trip.mean_staleness, rate, held)


def _predicted(job: JobFile, parts: Parts, variation: float, workers: int, seed: int) -> _Seen:
    (predicted,) = scaling.predict(
        [workers], law=lambda count: LogNormal(parts.gradient, variation), steps=_SIMULATED, network=parts.network,
        update=parts.served, max_staleness=job.settings.max_staleness, policy=job.settings.policy, seed=seed,
    )  # fmt: skip
    return _Seen(parts.away, predicted.mean_staleness, predicted.updates_per_second, predicted.bottleneck)


def link_of(calibration: Calibration, machines: Machines, servers: int, workers: int) -> tuple[Network, float, int]:
    """What a server's messages go through, the share of its workers that are elsewhere, and the servers of a machine.

    On one machine a message takes what was measured here. Over the network it takes the latency on top, and occupies
    its share of the machine's link.
    """
    together = ceil(servers / machines.count)
    own = max(0, machines.cores // together - 1)  # cores of its machine that a server has for workers
    away = 0.0 if workers == 1 else max(0, workers - own) / workers
    point, gradient = (each * away * together for each in calibration.wire_bytes)
    latency = calibration.exchange / 2 + away * machines.latency
    return Network(latency, machines.bandwidth, point, gradient), away, together


def _memory(calibration: Calibration, machines: Machines, servers: int, workers: int) -> float:
    """Bytes on the busiest machine: every process is one like this one, and a server has states and points besides."""
    together = ceil(servers / machines.count)
    processes = min(together * (workers + 1), max(machines.cores, 2 * together))
    return processes * calibration.process_bytes + together * (_COPIES + workers) * calibration.message_bytes


def parse_bits(text: str) -> float:
    """Bytes a second of a link: ``10G`` is 10 Gbit/s.

    >>> parse_bits("10G"), parse_bits("100M"), parse_bits("1.6e9")
    (1250000000.0, 12500000.0, 200000000.0)
    """
    return _scaled(text) / 8


def parse_bytes(text: str) -> float:
    """``64G`` is 64·10⁹ bytes.

    >>> parse_bytes("64G")
    64000000000.0
    """
    return _scaled(text)


def _scaled(text: str) -> float:
    word = text.strip().removesuffix("bit/s").removesuffix("b/s").removesuffix("B").strip()
    units = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    number, unit = (word[:-1], units[word[-1]]) if word[-1:] in units else (word, 1.0)
    value = float(number) * unit
    if not 0 < value < inf:
        raise ValueError(text)
    return value


def table(layout: Layout) -> dict[str, Any]:
    """A layout in plain types, for JSON."""
    return {**vars(layout), "seconds": layout.seconds, "ranks": layout.ranks}
