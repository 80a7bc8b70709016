"""Which of the layouts to choose, why, and what to type."""

import shlex
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from stalegrad._internal.text import span
from stalegrad.planning.advice import Targets
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.machines import Layout, Machines

_ALIKE = 1.1  # times within which two layouts are equally fast: then more chains, whose gradients are fresher
_SMALL = 0.25  # share of a chain that burn-in may be, for chains to divide nearly all of it


def advise_layout(found: Sequence[Layout], calibration: Calibration, targets: Targets) -> tuple[Layout, list[str]]:
    """The fastest that fits; of those that are nearly as fast, the one with most chains. And the reasons.

    >>> from stalegrad.planning.machines import Machines, layouts
    >>> from stalegrad.planning.timing import RoundTrip
    >>> from stalegrad.runs.jobs import JobFile
    >>> job = JobFile.from_table({"steps": 1000, "burn_in": 500, "model": "stalegrad.testing:small_model"})
    >>> trips = (RoundTrip(1, 0.02, 0.001, 45.0, 0.0), RoundTrip(2, 0.02, 0.001, 88.0, 1.0))
    >>> measured = Calibration(
    ...     engine="processes", cores=2, servers=1, parameters=20, message_bytes=160, wire_bytes=(160, 160),
    ...     n_data=10_000, batch_size=100, gradients={50: 0.012, 100: 0.02}, variation=0.1, update=0.001,
    ...     busy_elsewhere=0.0, round_trips=trips,
    ... )
    >>> found = layouts(job, measured, None, Machines(count=1, cores=8), Targets())
    >>> best, reasons = advise_layout(found, measured, Targets())
    >>> best.servers, best.workers
    (1, 7)
    """
    able = [layout for layout in found if layout.fits]
    if not able:
        least = min(found, key=lambda layout: layout.memory)
        return least, [
            f"Memory: nothing fits. The least, {least.servers} chain{'s' * (least.servers != 1)}, needs "
            f"{_bytes(least.memory)} on a machine."
        ]
    fastest = min(able, key=lambda layout: layout.seconds)
    best = max((each for each in able if each.seconds <= _ALIKE * fastest.seconds), key=lambda each: each.servers)
    said = [_chains_or_workers(best, found, able), _memory_said(best, found)]
    if targets.within is not None and best.seconds > targets.within:
        said.append(f"Time: none of them is done within {span(targets.within)}.")
    return best, said


def _chains_or_workers(best: Layout, found: Sequence[Layout], able: Sequence[Layout]) -> str:
    many = found[-1]
    if best.workers == 1:
        share = best.burn_in / max(best.steps, 1)
        divided = (
            "so that chains divide nearly all of the work, and their gradients are fresh." if share <= _SMALL
            else "which chains do not divide. They are there first all the same: their gradients are fresh, so that "
            "steps need not be shorter, and no core goes to a server."
        )  # fmt: skip
        return (
            f"Chains: {best.servers} with a worker each. Burn-in is {share:.0%} of each, {divided}"
            f"{_best_with_workers(able)}"
        )
    if not many.fits:
        why = f"as many chains as cores would need {_bytes(many.memory)} on a machine"
    elif many.burn_in > _SMALL * many.steps:
        alone, burnt = (each.burn_in / each.updates_per_second for each in (many, best))
        why = (
            f"{many.servers} chains with a worker each would spend {span(alone)} of {span(many.seconds)} on "
            f"burn-in, which workers divide and chains do not; here it takes {span(burnt)}"
        )
    else:
        rates = [each.servers * each.updates_per_second for each in (many, best)]
        why = (
            f"{many.servers} chains with a worker each would make {rates[0]:,.0f} updates a second together, these "
            f"make {rates[1]:,.0f}"
        )
    return (
        f"Workers: {best.servers} chain{'s' * (best.servers != 1)} of {best.workers}, because {why}."
        f"{_one_chain(best, found)}"
    )


def _best_with_workers(able: Sequence[Layout]) -> str:
    """What the choice of chains is measured against."""
    other = min((each for each in able if each.workers > 1), key=lambda each: each.seconds, default=None)
    if other is None:
        return ""
    shorter = f", which asks for steps {other.factor:.2g} times as long" if other.factor < 1 else ""
    served = "" if other.measured else " and cores go to servers"
    return (
        f" The best with several workers a chain, {other.servers} of {other.workers}, takes {span(other.seconds)}: "
        f"its gradients are {other.mean_staleness:.1f} updates old{shorter}{served}."
    )


def _one_chain(best: Layout, found: Sequence[Layout]) -> str:
    few = found[0]
    if best.servers == 1:
        return ""
    return f" One chain alone would take {span(few.seconds)}, held up by the {_PARTS[few.bottleneck]}."


_PARTS = {
    "gradients": "gradients", "link": "link", "server": "server", "bound": "bound on staleness", "latency": "latency",
}  # fmt: skip


def _memory_said(best: Layout, found: Sequence[Layout]) -> str:
    out = [layout for layout in found if not layout.fits]
    left = f" {len(out)} of the layouts above would not fit." if out else ""
    return f"Memory: {_bytes(best.memory)} on a machine, from what this process takes, for each process.{left}"


def commands(best: Layout, machines: Machines, job: Path, step_size: float | None) -> list[tuple[str, str]]:
    """What to type, for MPI, Slurm and Ray; first, on one machine, for the engine of the job."""
    file = shlex.quote(str(job))
    settings = f"--servers {best.servers} --steps {best.steps}"
    each = ceil(best.ranks / machines.count)
    crowd = best.ranks > machines.all_cores
    said = [] if machines.count > 1 else [("this machine", f"stalegrad run {file} --workers {best.workers} {settings}")]
    said += [
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


def _bytes(number: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number / 1e3:.0f} kB"
