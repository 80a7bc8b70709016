"""What to choose, and why, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import ceil, floor, log10

from stalegrad._internal.text import duration
from stalegrad._internal.validation import real_number
from stalegrad.analysis.diagnostics.checks.stiffness import LIMIT
from stalegrad.kernels.noise import MAX_CHAINS
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.cluster import Cluster
from stalegrad.planning.row import Row
from stalegrad.planning.step_sizes import StepSizes, error_text
from stalegrad.runs.jobs import JobFile

BUSIEST = 0.9
"""Share of its time that a server may be busy: beyond, gradients queue, and more workers only make them staler."""

LEAST_EFFICIENCY = 0.5
"""Speedup over W below which an update costs twice as much as with one worker, and more."""

EXCHANGE_SHARE = (0.15, 0.2)
"""What exchange and server may cost of a gradient: what is aimed at, and from where on minibatches are too small."""

_NEARLY_BEST = 0.95
_WORTH_IT = 1.2
_CROWDED = 0.15  # share of the time that others take from which on it is worth saying


@dataclass(frozen=True)
class Targets:
    """What a run is to achieve.

    Args:
        error: the Monte Carlo error wanted, over the one that the job has as it is written: 0.5 halves it.
        within: seconds in which the run should be done, on the cluster; None leaves the number of chains as it is.
        price: of an hour of a core, in whatever money; None counts hours only.

    >>> Targets(error=0.5, within=3600.0).error
    0.5
    """

    error: float = 1.0
    within: float | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        real_number("error", self.error, above=0)
        if self.within is not None:
            real_number("within", self.within, above=0)
        if self.price is not None:
            real_number("price", self.price, least=0)


@dataclass(frozen=True)
class Advice:
    """What to choose.

    Args:
        workers: W on a cluster.
        servers: S.
        steps: L, burn-in included.
        burn_in: of those.
        batch_size: J.
        step_size: the factor by which to multiply the job's.
        workers_here: W on this machine.
        seconds: that the run would take on the cluster.
        core_hours: that it would cost there.
        price: of those; None without a price.
        reasons: for all that, a sentence or two each.
        warnings: what is wrong with the job as it is.
    """

    workers: int
    servers: int
    steps: int
    burn_in: int
    batch_size: int
    step_size_factor: float
    workers_here: int
    seconds: float
    core_hours: float
    price: float | None
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def advise(
    job: JobFile,
    calibration: Calibration,
    cluster: Cluster,
    rows: Sequence[Row],
    sizes: StepSizes | None,
    targets: Targets,
) -> Advice:
    """Choose W, S, J and h.

    W is the largest number tried, from 1 on without a gap, whose staleness the step size stands, whose server is busy
    less than 90 % of the time and which still brings half of a linear speedup. If not even one worker's gradients are
    fresh enough for the step size, the step size is what must change. S and L follow from the precision wanted: the
    variance of an average falls as 1/(S·L·h), whatever W is, and W sets how long L updates take. J is enough where
    exchange and server cost no more than a fifth of a gradient.

    >>> from stalegrad.planning import forecast
    >>> kernel = {"name": "SGLD", "step_size": 1e-3}
    >>> job = JobFile.from_table({"steps": 100, "model": "stalegrad.testing:small_model", "kernel": kernel})
    >>> found = forecast(job, seconds=0.2, max_workers=2)
    >>> half = advise(job, found.calibration, found.cluster, found.rows, found.step_sizes, Targets(error=0.5))
    >>> half.steps * half.servers >= 4 * 100  # half the error takes four times the draws
    True
    """
    row, factor, why_workers = _workers(rows, sizes)
    servers, steps, burn_in, why_servers = _servers(job, row, factor, targets)
    batch_size, why_batch = _batch(calibration, cluster)
    here, why_here = _here(calibration, rows, job)
    seconds = steps / row.cluster.updates_per_second
    hours = servers * (row.workers + 1) * seconds / 3600
    price = None if targets.price is None else hours * targets.price
    return Advice(
        workers=row.workers,
        servers=servers,
        steps=steps,
        burn_in=burn_in,
        batch_size=batch_size,
        step_size_factor=factor,
        workers_here=here,
        seconds=seconds,
        core_hours=hours,
        price=price,
        reasons=(*why_workers, *why_servers, _cost(row, servers, steps, seconds, hours, price), why_batch, *why_here),
        warnings=tuple(_warnings(job, calibration, rows, sizes)),
    )


def _workers(rows: Sequence[Row], sizes: StepSizes | None) -> tuple[Row, float, list[str]]:
    """The row to choose, the factor of the step size, and the reasons."""
    fast = list(takewhile(_fast, rows)) or [rows[0]]
    steady = list(takewhile(_stands, fast))
    if not steady:
        assert sizes is not None
        return _smaller_step(fast[-1], sizes)
    row = steady[-1]
    tau = f"mean staleness {row.cluster.mean_staleness:.1f}"
    said = [
        f"Workers: W = {row.workers:,} a chain on a cluster, {row.cluster.updates_per_second:,.0f} updates/s, "
        f"{row.cluster.speedup:.1f} times one worker, at {tau}. {_why_not_more(rows, row)}"
    ]
    if sizes is not None and len(steady) < len(fast):
        said[0] += f" {_alternative(row, fast[-1], sizes)}"
    if sizes is not None:
        said.append(_step_reason(row, sizes))
    return row, 1.0, said


def _fast(row: Row) -> bool:
    return row.cluster.server_busy < BUSIEST and row.efficiency >= LEAST_EFFICIENCY


def _stands(row: Row) -> bool:
    return row.error is None or abs(row.error) <= LIMIT


def _why_not_more(rows: Sequence[Row], row: Row) -> str:
    later = rows[rows.index(row) + 1 :]
    if not later:
        return "That is the largest number that was tried."
    more = later[0]
    if not _stands(more):
        off = error_text(more.error)
        what = "the chain would blow up" if off == "blows up" else f"the variance would be off by {off}"
        return f"With {more.workers:,} {what} along the stiffest direction, unless the step size is made smaller."
    if more.cluster.server_busy >= BUSIEST:
        return f"With {more.workers:,} the server would be busy {more.cluster.server_busy:.0%} of the time."
    return f"With {more.workers:,} the speedup would be {more.cluster.speedup:.1f}, less than half of linear."


def _alternative(row: Row, fastest: Row, sizes: StepSizes) -> str:
    """Whether a smaller step and more workers sample faster: the precision of an average grows with h times updates."""
    factor = sizes.advised_factor(fastest.cluster.mean_staleness)
    gain = factor * fastest.cluster.updates_per_second / row.cluster.updates_per_second
    if gain < _WORTH_IT:
        return "A smaller step would let more workers in, but takes back what they bring."
    return (
        f"With step_size={_two_digits(factor * sizes.step_size):.2g} it could be {fastest.workers:,} workers, and "
        f"equal precision {gain:.1f} times sooner."
    )


def _step_reason(row: Row, sizes: StepSizes) -> str:
    limit = sizes.blow_up(row.cluster.mean_staleness)
    beyond = "" if limit is None else f" It would blow up from {limit:.2g} on."
    return (
        f"Step size: {sizes.step_size:.3g} stays. The largest curvature is {sizes.curvature:.3g}, and at this "
        f"staleness the variance is off by {error_text(row.error)} where it is off most, {_noise_said(sizes)}.{beyond}"
    )


def _noise_said(sizes: StepSizes) -> str:
    return f"{error_text(sizes.noise_error)} of it by the noise of minibatches"


def _smaller_step(row: Row, sizes: StepSizes) -> tuple[Row, float, list[str]]:
    factor = sizes.advised_factor(row.cluster.mean_staleness)
    h = _two_digits(factor * sizes.step_size)
    off = error_text(sizes.error(0.0))
    what = "blow up" if off == "blows up" else f"have a variance off by {off}"
    said = (
        f"Step size: {h:.2g} in place of {sizes.step_size:.3g}. The largest curvature is {sizes.curvature:.3g}, and "
        f"even with one worker, whose gradients are fresh, the chain would {what} along that direction."
    )
    workers = (
        f"Workers: W = {row.workers:,} a chain on a cluster, with that step size: "
        f"{row.cluster.updates_per_second:,.0f} updates/s at mean staleness {row.cluster.mean_staleness:.1f}."
    )
    return row, h / sizes.step_size, [said, workers]


def _servers(job: JobFile, row: Row, factor: float, targets: Targets) -> tuple[int, int, int, list[str]]:
    """S, L, burn-in, and the reasons: h·S·(L − burn-in) is to be that of the job, over the square of the error."""
    burn_in = ceil(job.settings.burn_in / factor)
    kept = job.settings.servers * (job.settings.steps - job.settings.burn_in) / (factor * targets.error**2)
    servers, said = job.settings.servers, ""
    rate = row.cluster.updates_per_second
    if targets.within is not None:
        room = rate * targets.within - burn_in
        if room <= 0:
            said = f" Not within {duration(targets.within)}: the burn-in alone takes {duration(burn_in / rate)}."
        elif kept / room > MAX_CHAINS:
            said = f" Not within {duration(targets.within)}: it would take more than {MAX_CHAINS:,} chains."
        else:
            servers = max(1, ceil(kept / room))
            said = f" So many are done within {duration(targets.within)}."
    steps = burn_in + ceil(kept / servers)
    aim = "the precision of the job as it is" if targets.error == 1 else f"{targets.error:g} of the job's error"
    text = (
        f"Chains: S = {servers:,} of {steps:,} updates each, {burn_in:,} of them burn-in, for {aim}: the variance of "
        f"an average falls as 1/(S·L·h), whoever computes the gradients.{said}"
    )
    if servers == 1:
        text += " One chain cannot be compared with another; two or more tell whether they agree."
    return servers, steps, burn_in, [text]


def _cost(row: Row, servers: int, steps: int, seconds: float, hours: float, price: float | None) -> str:
    paid = "" if price is None else f", that is {price:.3g} at the price given"
    return (
        f"Cost: {duration(seconds)} on {servers * (row.workers + 1):,} cores, one for each worker and each server: "
        f"{hours:.3g} core hours{paid}."
    )


def _batch(calibration: Calibration, cluster: Cluster) -> tuple[int, str]:
    """The smallest J, from the job's on, at which exchange and server cost little beside a gradient."""
    overhead, now = cluster.overhead(calibration), calibration.batch_size
    gradient = calibration.gradient_seconds(now)
    aim, most = EXCHANGE_SHARE
    costs = f"exchange and server take {duration(overhead)}, a gradient takes {duration(gradient)}"
    if overhead <= most * gradient:
        return now, f"Minibatches: J = {now:,} is enough: {costs}."
    low, high = now, calibration.n_data
    if overhead > aim * calibration.gradient_seconds(high):
        return now, (
            f"Minibatches: {costs}, and not even with all {high:,} data a minibatch would it be otherwise. This model "
            f"is too cheap to be worth many workers."
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if overhead <= aim * calibration.gradient_seconds(middle) else (middle, high)
    size = min(_two_digits_up(high), calibration.n_data)
    return size, (
        f"Minibatches: {costs}; from J = {size:,} on, in place of {now:,}, that is {aim:.0%}. It buys less waiting and "
        f"less gradient noise, not more precision for each update."
    )


def _here(calibration: Calibration, rows: Sequence[Row], job: JobFile) -> tuple[int, list[str]]:
    """The fewest workers that are nearly the fastest on this machine."""
    rates = {row.workers: row.here.updates_per_second for row in rows if row.here is not None}
    best = max(rates.values())
    workers = next(count for count, rate in rates.items() if rate >= _NEARLY_BEST * best)
    chains = f"{job.settings.servers} chain{'s' * (job.settings.servers != 1)}"
    text = (
        f"This machine, with {chains} on {calibration.cores} cores: W = {workers}, {rates[workers]:,.0f} updates/s a "
        f"chain, {duration(job.settings.steps / rates[workers])} for the job's {job.settings.steps:,}."
    )
    alone = 1 / (calibration.gradients[calibration.batch_size] + calibration.update)
    if alone > best * job.settings.servers:
        text += (
            f" A single thread that exchanges nothing (engine inline) would make {alone:,.0f}, with whatever staleness "
            f"it is told to simulate."
        )
    return workers, [text]


def _warnings(job: JobFile, calibration: Calibration, rows: Sequence[Row], sizes: StepSizes | None) -> list[str]:
    said = []
    if calibration.diverged:
        said.append("The chain diverged at the job's step size. Its times were measured with a smaller one.")
    asked = next((row for row in rows if row.workers >= job.settings.workers), rows[-1])
    if sizes is not None and not _stands(asked):
        off = error_text(asked.error)
        what = "blows up" if off == "blows up" else f"has a variance off by {off} along the stiffest direction"
        said.append(f"With the job's step size {sizes.step_size:.3g} and {asked.workers:,} workers the chain {what}.")
    if calibration.busy_elsewhere > _CROWDED:
        said.append(
            f"For {calibration.busy_elsewhere:.0%} of the time this thread waited for a core, or for another device: "
            f"if others use this machine, all times here are too long and too uneven."
        )
    return said


def _two_digits(number: float) -> float:
    unit = 10.0 ** (floor(log10(number)) - 1)
    return floor(number / unit) * unit


def _two_digits_up(number: int) -> int:
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit
