"""Machines with cores, memory and a link each: how many chains and workers to put on them, and why.

A chain is a server and its workers. Chains are spread evenly over the machines. One that fits into its share of a
machine exchanges nothing over the network; one that does not has its other workers elsewhere, and their gradients come
in over the link of the server's machine, which all servers there share.

Whatever the layout, equal precision takes equally many updates after burn-in, all chains together: K. With S chains
each makes burn-in + K/S of them. So **chains divide what comes after the burn-in, and workers divide all of it**, but
make gradients stale: a bias, or a shorter step. That is the whole trade; :func:`advise_layout` says how it came out.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

from stalegrad._internal.text import duration
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.engines.simulation import LogNormal, Network
from stalegrad.planning import scaling
from stalegrad.planning.advice import Targets
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.step_sizes import StepSizes
from stalegrad.runs.jobs import JobFile

_SIMULATED = 3000  # updates of each layout, but never fewer than 20 a worker
_ALIKE = (
    1.1  # times within which two layouts are equally fast: then the one with more chains, whose gradients are fresher
)
_SMALL = 0.25  # share of a chain that burn-in may be, for chains to divide nearly all of it
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

    @property
    def seconds(self) -> float:
        """Until the precision wanted is there."""
        return self.steps / self.updates_per_second

    @property
    def ranks(self) -> int:
        """Processes: a server and its workers for each chain."""
        return self.servers * (self.workers + 1)


def cores_of(workers: int) -> int:
    """That a chain keeps busy: a lone worker and its server take turns, so one will do for both.

    >>> cores_of(1), cores_of(7)
    (1, 8)
    """
    return 1 if workers == 1 else workers + 1


def numbers_of_chains(machines: Machines) -> list[int]:
    """Divisions of the cores into equal parts, but for two a chain: a lone worker and its server need one.

    >>> numbers_of_chains(Machines(2, 6))
    [1, 2, 3, 4, 12]
    """
    total = machines.all_cores
    return sorted(s for s in range(1, total + 1) if total % s == 0 and (total // s == 1 or total // s > 2 or s == 1))


def layouts(
    job: JobFile, calibration: Calibration, sizes: StepSizes | None, machines: Machines, targets: Targets, seed: int = 0
) -> list[Layout]:
    """All that are worth a look, by growing number of chains."""
    found = []
    for servers in numbers_of_chains(machines):
        cores = machines.all_cores // servers
        workers = max(1, cores - 1)
        found.append(_layout(job, calibration, sizes, machines, targets, servers, workers, seed))
    return found


def _layout(
    job: JobFile, calibration: Calibration, sizes: StepSizes | None, machines: Machines, targets: Targets, servers: int,
    workers: int, seed: int,
) -> Layout:  # fmt: skip
    network, away, together = link_of(calibration, machines, servers, workers)
    alone, bound = calibration.alone, job.settings
    (predicted,) = scaling.predict(
        [workers], law=lambda count: LogNormal(alone.gradient, calibration.variation), steps=_SIMULATED,
        network=network, update=alone.served, max_staleness=bound.max_staleness, policy=bound.policy, seed=seed,
    )  # fmt: skip
    tau = predicted.mean_staleness
    factor = 1.0 if sizes is None else sizes.advised_factor(tau)
    error = None if sizes is None else sizes.error(tau, factor)
    burn_in = ceil(bound.burn_in / factor)
    kept = bound.servers * (bound.steps - bound.burn_in) / (factor * targets.error**2)
    memory = _memory(calibration, machines, servers, workers, together)
    return Layout(
        servers, workers, away, tau, predicted.updates_per_second, predicted.bottleneck, factor, error,
        burn_in + ceil(kept / servers), burn_in, memory, machines.memory is None or memory <= machines.memory,
    )  # fmt: skip


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


def _memory(calibration: Calibration, machines: Machines, servers: int, workers: int, together: int) -> float:
    """Bytes on the busiest machine: every process is one like this one, and a server has states and points besides."""
    processes = min(together * (workers + 1), max(machines.cores, 2 * together))
    return processes * calibration.process_bytes + together * (_COPIES + workers) * calibration.message_bytes


def advise_layout(found: Sequence[Layout], calibration: Calibration, targets: Targets) -> tuple[Layout, list[str]]:
    """The fastest that fits; of those that are nearly as fast, the one with most chains. And the reasons."""
    able = [layout for layout in found if layout.fits]
    if not able:
        least = min(found, key=lambda layout: layout.memory)
        return least, [
            f"Memory: nothing fits. The least, {least.servers} chain{'s' * (least.servers != 1)}, needs "
            f"{_bytes(least.memory)} on a machine."
        ]
    fastest = min(able, key=lambda layout: layout.seconds)
    best = max((each for each in able if each.seconds <= _ALIKE * fastest.seconds), key=lambda each: each.servers)
    return best, [_chains_or_workers(best, found, able), _memory_said(best, found)]


def _chains_or_workers(best: Layout, found: Sequence[Layout], able: Sequence[Layout]) -> str:
    many, few = found[-1], found[0]
    burnt = best.burn_in / best.updates_per_second
    if best is many or best.workers == 1:
        share = many.burn_in / max(many.steps, 1)
        other = min((each for each in able if each.workers > 1), key=lambda each: each.seconds, default=None)
        against = (
            "" if other is None
            else f" The best with several workers a chain, {other.servers} of {other.workers}, takes "
            f"{duration(other.seconds)}: its gradients are {other.mean_staleness:.1f} updates old"
            + (f", which asks for steps {other.factor:.2g} times as long" if other.factor < 1 else "")
            + " and cores go to servers."
        )  # fmt: skip
        divided = (
            "so that chains divide nearly all of the work, and their gradients are fresh." if share <= _SMALL
            else "which chains do not divide. They are there first all the same: their gradients are fresh, so that "
            "steps need not be shorter, and no core goes to a server."
        )  # fmt: skip
        return f"Chains: {best.servers} with a worker each. Burn-in is {share:.0%} of each, {divided}{against}"
    if not many.fits:
        why = f"as many chains as cores would need {_bytes(many.memory)} on a machine"
    else:
        alone = many.burn_in / many.updates_per_second
        why = (
            f"{many.servers} chains with a worker each would spend {duration(alone)} of {duration(many.seconds)} on "
            f"burn-in, which workers divide and chains do not; here it takes {duration(burnt)}"
        )
    return (
        f"Workers: {best.servers} chain{'s' * (best.servers != 1)} of {best.workers}, because {why}. One chain alone "
        f"would take {duration(few.seconds)}, held up by the {_PARTS[few.bottleneck]}."
    )


_PARTS = {
    "gradients": "gradients", "link": "link", "server": "server", "bound": "bound on staleness", "latency": "latency",
}  # fmt: skip


def _memory_said(best: Layout, found: Sequence[Layout]) -> str:
    out = [layout for layout in found if not layout.fits]
    left = f" {len(out)} of the layouts above would not fit." if out else ""
    return f"Memory: {_bytes(best.memory)} on a machine, from what this process takes, for each process.{left}"


def commands(best: Layout, machines: Machines, job: Path, step_size: float | None) -> list[tuple[str, str]]:
    """What to type, for MPI, Slurm and Ray."""
    file = shlex.quote(str(job))
    settings = f"--servers {best.servers} --steps {best.steps}"
    each = ceil(best.ranks / machines.count)
    crowd = best.workers == 1
    said = [
        ("mpiexec", f"mpiexec -n {best.ranks} -ppn {each} stalegrad run {file} --engine mpi {settings}"),
        (
            "srun",
            f"srun -N {machines.count} -n {best.ranks} --ntasks-per-node {each}{' --overcommit' * crowd} "
            f"stalegrad run {file} --engine mpi {settings}",
        ),
        ("Ray", f"stalegrad run {file} --engine ray --address HOST:6379 --workers {best.workers} {settings}"),
    ]
    if step_size is not None and best.factor < 1:
        said.append(
            ("in the file", f"step_size = {float(f'{best.factor * step_size:.2g}'):g}, burn_in = {best.burn_in}")
        )
    return said


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


def _bytes(number: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number / 1e3:.0f} kB"


def table(layout: Layout) -> dict[str, Any]:
    """A layout in plain types, for JSON."""
    return {**vars(layout), "seconds": layout.seconds, "ranks": layout.ranks}
