"""Scale on paper: ``sg.simulate`` with the constants of this machine, to 10⁴ workers and 10⁹ parameters.

Measured here: seconds of an update a parameter (SGHMC, noise included, one thread), the bandwidth of the memory, what
the server does for a gradient besides its update, and LeNet's gradient. Assumed: that a gradient takes as long a
parameter as LeNet's, that every worker has a core, and a link's bandwidth where there is one.

    python benchmarks/scale.py [--json FILE]
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import harness
import server
from results import Result
from stalegrad.engines.simulation import LogNormal, Network, simulate
from stalegrad.planning.scaling import updates_per_second

LINK = 1.25e9
"""Bytes a second of ten gigabits."""
TEXT = """
On paper, not measured: `sg.simulate` runs the protocol of one server with up to {most:,} workers in virtual time, with
constants of this machine. An update takes {update:.3g} ns a parameter on one thread (SGHMC with its noise,
{parameters:,} parameters), handling a gradient {handling:.3g} µs besides, copying a vector is bound by {bandwidth:.3g}
GB/s, and a gradient takes {gradient:.3g} ns a parameter (LeNet's, one core, J = 64) with a variation of
{variation:.0%}. Assumed are a core for every worker and that larger models cost as much a parameter. *Shards* split
the vector of an update over so many threads of the server, until the memory's bandwidth is the limit (five vectors
read or written by an update of SGHMC). On a link of 10 Gbit/s each gradient and each point is a message of four bytes
a parameter, and the slower of link and server is what saturates; shards on one machine do not help the link. The
workers that saturate a server are those whose gradients keep it, or its link, busy without a pause.
"""


@dataclass(frozen=True)
class Constants:
    """Seconds on this machine.

    Args:
        update: of an update, a parameter.
        handling: the server's, a gradient, besides the update.
        gradient: of a gradient, a parameter.
        variation: spread of gradients over their mean.
        bandwidth: bytes a second that the memory moves.
    """

    update: float
    handling: float
    gradient: float
    variation: float
    bandwidth: float

    def served(self, parameters: int, shards: int = 1) -> float:
        """Seconds of the server a gradient: an update on so many threads, and copying the new point out."""
        update = max(self.update * parameters / shards, 5 * 4 * parameters / self.bandwidth)
        return self.handling + update + 8 * parameters / self.bandwidth

    def saturation(self, parameters: int, shards: int = 1, link: float | None = None) -> float:
        """Workers that keep the server, or its link, busy without a pause."""
        served, transfer = self.served(parameters, shards), 0.0 if link is None else 4 * parameters / link
        return (self.gradient * parameters + served + 2 * transfer) / max(served, transfer)

    def rate(self, workers: int, parameters: int, shards: int = 1, link: float | None = None) -> float:
        """Updates a second of a simulated cluster."""
        network = None if link is None else Network(bandwidth=link, message_bytes=4 * parameters)
        law = LogNormal(self.gradient * parameters, self.variation)
        trace = simulate(
            workers=workers, steps=max(400, 4 * workers), compute=law, network=network,
            update=self.served(parameters, shards),
        )  # fmt: skip
        return updates_per_second(trace.chains[0])


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Where one server saturates, simulated with measured constants.")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--models", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7, 10**8, 10**9])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--parameters", type=int, default=10_000_000, help="at which an update is timed")
    parser.add_argument("--round-trips", type=int, default=60, help="gradients of LeNet timed (default %(default)s)")
    harness.add_arguments(parser, rounds=9)
    return harness.parse(
        parser, given, workers=[1, 10, 100], models=[10**4, 10**9], parameters=200_000, round_trips=8, rounds=2
    )  # fmt: skip


def measured(given: argparse.Namespace) -> Constants:
    """The constants of this machine."""
    n = given.parameters
    update, copy = harness.measure(
        [server.fused("SGHMC", server.KERNELS["SGHMC"], n), server.copy(n)], rounds=given.rounds
    )
    lenet = server.round_trip(given.round_trips)
    return Constants(
        update=1e-6 * update.best / n,
        handling=max(lenet.served - lenet.update, 0.0),
        gradient=lenet.gradient / server.LENET,
        variation=lenet.variation,
        bandwidth=8 * n / (1e-6 * copy.best),
    )


def main() -> None:
    """Measure, simulate and report."""
    given = arguments()
    constants = measured(given)
    text = TEXT.format(
        most=max(given.workers), parameters=given.parameters, update=1e9 * constants.update,
        handling=1e6 * constants.handling, bandwidth=constants.bandwidth / 1e9, gradient=1e9 * constants.gradient,
        variation=constants.variation,
    )  # fmt: skip
    result = Result("Scale, on paper", text, vars(given))
    result.table(
        "Workers that saturate one server (simulated machine)",
        ["parameters", *(f"{k} shard{'s' * (k > 1)}" for k in given.shards), "on a link of 10 Gbit/s"],
        [
            [f"{n:,}", *(constants.saturation(n, k) for k in given.shards), constants.saturation(n, link=LINK)]
            for n in given.models
        ],
    )
    series, rows = {}, []
    for k in given.shards:
        rates = [constants.rate(w, 10**7, k) for w in given.workers]
        series[f"10⁷ parameters, {k} shard{'s' * (k > 1)}"] = given.workers, rates
        rows.append([f"{k} shard{'s' * (k > 1)}", *rates])
    linked = [constants.rate(w, 10**7, link=LINK) for w in given.workers]
    series["10⁷ parameters, on a link of 10 Gbit/s"] = given.workers, linked
    result.table(
        "Updates a second at 10⁷ parameters (simulated)",
        ["", *(f"{w:,} worker{'s' * (w > 1)}" for w in given.workers)],
        [*rows, ["on a link of 10 Gbit/s", *linked]],
    )
    largest = max(given.models)
    result.table(
        f"Updates a second at {largest:,} parameters (simulated)",
        ["", *(f"{w:,} worker{'s' * (w > 1)}" for w in given.workers)],
        [[f"{k} shard{'s' * (k > 1)}", *(constants.rate(w, largest, k) for w in given.workers)] for k in given.shards],
    )
    result.curves("scale", "One server, simulated", "workers", "updates a second", series)
    result.figures = vars(constants)
    result.finish(given.json)


if __name__ == "__main__":
    main()
