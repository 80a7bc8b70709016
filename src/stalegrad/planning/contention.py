"""The machine at hand, whose cores servers and workers share.

With W workers a chain a worker's round trip is gradient + exchange + server, and each of the three takes longer when
there are fewer cores than threads that want one, when a lock is shared, or when memory is. How much longer is measured,
at one, two and a few more workers, not assumed:

- between numbers of workers that were measured, times are linear in W;
- from the largest of those on, times stay as they are while there is a core for every worker;
- beyond that the cores are the limit: gradients and exchanges take longer in proportion to W, the server, which asks
  for less than its fair share of a core, does not.

The exchange is what makes the simulated rate the measured one. So it holds whatever the model does not know, such as
waking up sleeping cores.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stalegrad.engines.simulation import LogNormal, Network, simulate
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.scaling import TRIED, updates_per_second
from stalegrad.planning.timing import RoundTrip
from stalegrad.protocol.admission import Policy
from stalegrad.protocol.chain_trace import ChainTrace

_HALVINGS = 14
_UPDATES = 400  # simulated for each worker


class Times(NamedTuple):
    """Seconds of the three parts of a worker's round trip.

    >>> times = Times(gradient=0.02, served=0.001, exchange=0.0005)
    >>> f"{sum(times) * 1e3:.1f} ms a round trip"
    '21.5 ms a round trip'
    """

    gradient: float
    served: float
    exchange: float


class Here(NamedTuple):
    """What a chain does on this machine."""

    updates_per_second: float
    mean_staleness: float


class Bound(NamedTuple):
    """The bound on the staleness."""

    max_staleness: int | None = None
    policy: Policy = "drop"


NO_BOUND = Bound()


def predict_here(calibration: Calibration, workers: int, bound: Bound, seed: int = 0) -> Here:
    """Simulate W workers a chain with the times that they have on this machine."""
    trace = _simulated(times_here(calibration, workers, bound), workers, calibration.variation, bound, seed)
    half = trace.updates().staleness[trace.steps // 2 :]
    return Here(updates_per_second(trace), float(half.mean()))


def times_here(calibration: Calibration, workers: int, bound: Bound = NO_BOUND) -> Times:
    """The times of W workers a chain that share this machine.

    >>> trips = (RoundTrip(1, 0.02, 0.001, 45.0, 0.0), RoundTrip(2, 0.02, 0.001, 88.0, 1.0))
    >>> measured = Calibration(
    ...     engine="processes", cores=2, servers=1, parameters=20, message_bytes=160, wire_bytes=(160, 160),
    ...     n_data=10_000, batch_size=100, gradients={50: 0.012, 100: 0.02}, variation=0.1, update=0.001,
    ...     busy_elsewhere=0.0, round_trips=trips,
    ... )
    >>> [f"{times_here(measured, workers).gradient * 1e3:.0f} ms" for workers in (1, 2, 4)]  # four share two cores
    ['20 ms', '20 ms', '40 ms']
    """
    trips = calibration.round_trips
    counts = [trip.workers for trip in trips]
    fitted = [_fitted(trip, calibration.variation, bound) for trip in trips]
    gradient, served, exchange = (float(np.interp(workers, counts, column)) for column in zip(*fitted, strict=True))
    full = max(counts[-1], calibration.cores / calibration.servers)
    crowd = max(1.0, workers / full)
    return Times(crowd * gradient, served, crowd * exchange)


@lru_cache(maxsize=64)  # asked for once for every number of workers
def _fitted(trip: RoundTrip, variation: float, bound: Bound) -> Times:
    """The exchange that explains a measured rate, by halving: the rate falls as the exchange grows."""
    gradient, served, measured = trip.gradient, trip.served, trip.updates_per_second

    def too_fast(exchange: float) -> bool:
        trace = _simulated(Times(gradient, served, exchange), trip.workers, variation, bound, 0)
        return updates_per_second(trace) > measured

    if trip.workers == 1:
        return Times(gradient, served, max(0.0, 1 / measured - gradient - served))
    low, high = 0.0, trip.workers / measured
    if not too_fast(low):
        return Times(gradient, served, low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if too_fast(middle) else (low, middle)
    return Times(gradient, served, high)


def _simulated(times: Times, workers: int, variation: float, bound: Bound, seed: int) -> ChainTrace:
    updates = _UPDATES * workers
    trace = simulate(
        workers=workers, steps=updates, compute=LogNormal(times.gradient, variation), gradients=TRIED * updates,
        network=Network(latency=times.exchange / 2), update=times.served, seed=seed, **bound._asdict(),
    )  # fmt: skip
    return trace.chains[0]
