"""The server's ceiling: updates a second by kernel and size, what they cost beside the memory, and shards.

Candidates take turns on the same sizes:

- *fused*: the kernel's compiled update, noise included, on one thread or split over all cores;
- *NumPy*: ``Generator.standard_normal`` in float32 and the same update in NumPy, written without needless copies;
- *no noise*: the same compiled update with the noise left out;
- *copy*: the machine's own copy of a vector, for the bandwidth.

    python benchmarks/server.py [--parameters 10000 10000000] [--json FILE]
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import harness
from results import Bar, Result
from stalegrad._internal.jit import compiled
from stalegrad.engines import available_cores
from stalegrad.engines.update_threads import split_over
from stalegrad.experiments.times import WorkerTimes, time_worker
from stalegrad.kernels import PSGLD, SGHMC, SGLD, SGNHT, Address, Kernel
from stalegrad.kernels.fused import Split, whole

KERNELS: dict[str, Kernel] = {
    "SGLD": SGLD(step_size=1e-3),
    "SGHMC": SGHMC(step_size=1e-3, friction=10.0),
    "SGHMC, splitting": SGHMC(step_size=1e-3, friction=10.0, integrator="splitting"),
    "SGNHT": SGNHT(step_size=1e-3),
    "SGNHT, splitting": SGNHT(step_size=1e-3, integrator="splitting"),
    "SGNHT, each": SGNHT(step_size=1e-3, thermostats="each"),
    "pSGLD": PSGLD(step_size=1e-3, n_data=60_000, batch_size=64),
}
LENET = 431_080
"""Parameters of LeNet."""
TEXT = """
One update of a vector of float32 by each kernel, noise included, on one thread; *SGHMC on all cores* is the same
update split over {cores} threads, *no noise* the same loop with the noise left out, *NumPy* the same update with
NumPy's generator. The machine copies {copy:.3g} GB/s at the largest size (bytes read plus bytes written); SGHMC's
update reads three vectors and writes two. Best rounds, since this is about what the machine can do. A server saturates
when gradients arrive as fast as it handles them: a worker's round trip divided by the server's share of it.
"""


@compiled
def _without_noise(theta, q, g, c, start, stop):  # type: ignore[no-untyped-def]
    keep, h, sigma = c[0], c[1], c[2]
    t, p, d = theta[0, start:stop], q[0, start:stop], g[0, start:stop]
    for i in range(t.shape[0]):
        v = keep * p[i] - h * d[i] + sigma * d[i]
        p[i] = v
        t[i] = t[i] + h * v


def fused(name: str, kernel: Kernel, size: int, split: Split = whole) -> harness.Case:
    """The kernel's update of a vector of so many parameters."""
    state = kernel.start(np.zeros((1, size), np.float32), Address(0, 0, 0))
    gradient = np.full((1, size), 0.01, np.float32)
    coefficients = np.array(kernel.coefficients(1e-3, 1e-3), np.float32)
    update = iter(range(1 << 40))

    def run() -> None:
        kernel.advance(state, gradient, coefficients, Address(0, 0, next(update)), split)

    return _repeated(name, run, size)


def in_numpy(size: int) -> harness.Case:
    """SGHMC's update with NumPy's generator, in place wherever NumPy can."""
    rng = np.random.default_rng(0)
    theta, q, scratch = np.zeros((3, size), np.float32)
    gradient = np.full(size, 0.01, np.float32)
    keep, h, sigma = (np.float32(value) for value in KERNELS["SGHMC"].coefficients(1e-3, 1e-3))

    def run() -> None:
        rng.standard_normal(dtype=np.float32, out=scratch)
        np.multiply(scratch, sigma, out=scratch)
        np.multiply(q, keep, out=q)
        np.add(q, scratch, out=q)
        np.multiply(gradient, h, out=scratch)
        np.subtract(q, scratch, out=q)
        np.multiply(q, h, out=scratch)
        np.add(theta, scratch, out=theta)

    return _repeated("SGHMC, NumPy", run, size)


def no_noise(name: str, size: int, split: Split = whole) -> harness.Case:
    """SGHMC's compiled update without its noise."""
    theta, q = np.zeros((2, 1, size), np.float32)
    gradient = np.full((1, size), 0.01, np.float32)
    c = np.array(KERNELS["SGHMC"].coefficients(1e-3, 1e-3), np.float32)
    part = lambda start, stop: _without_noise(theta, q, gradient, c, start, stop)  # noqa: E731
    return _repeated(name, lambda: split(part, size), size)


def copy(size: int) -> harness.Case:
    """One vector to another."""
    source, target = np.ones((2, size), np.float32)
    return _repeated("copy", lambda: np.copyto(target, source), size)


def _repeated(name: str, run: Callable[[], object], size: int) -> harness.Case:
    """Short updates many times in one timed call."""
    times = max(1, 200_000 // size)

    def many() -> None:
        for _ in range(times):
            run()

    return harness.Case(name, many, times)


def same_bits(size: int, shards: int) -> bool:
    """Whether a sharded update gives the bits of one that is not, for every kernel."""
    gradient = np.random.default_rng(0).normal(size=(1, size)).astype(np.float32)
    for kernel in KERNELS.values():
        states = []
        for split in (whole, split_over(shards)):
            state = kernel.start(np.zeros((1, size), np.float32), Address(0, 0, 0))
            coefficients = np.array(kernel.coefficients(1e-3, 1e-3), np.float32)
            for update in range(3):
                kernel.advance(state, gradient, coefficients, Address(0, 0, update), split)
            states.append(state)
        if not all(np.array_equal(a, b) for a, b in zip(*states, strict=True) if a is not None):
            return False
    return True


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Updates a second of a server, by kernel and size.")
    parser.add_argument("--parameters", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--round-trips", type=int, default=100, help="gradients of LeNet timed (default %(default)s)")
    harness.add_arguments(parser, rounds=15)
    return harness.parse(parser, given, parameters=[10_000, 200_000], round_trips=8, rounds=2)


def round_trip(count: int) -> WorkerTimes:
    """Of a gradient of LeNet, measured with one worker process, over so many gradients."""
    from networks import Task

    task = Task("lenet")
    return time_worker(task.potential, task.sampler.ours(), "processes", steps=count, count=count)


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores, sizes = available_cores(), sorted(given.parameters)
    splits = {k: split_over(k) for k in sorted({1, cores})}
    rates: dict[int, dict[str, float]] = {}
    figures: dict[str, Any] = {}
    for size in sizes:
        cases = [fused(name, kernel, size) for name, kernel in KERNELS.items()]
        cases += [in_numpy(size), no_noise("SGHMC, no noise", size), copy(size)]
        if cores > 1:
            cases += [
                fused("SGHMC on all cores", KERNELS["SGHMC"], size, splits[cores]),
                no_noise("SGHMC, no noise, on all cores", size, splits[cores]),
            ]
        timings = harness.measure(cases, rounds=given.rounds, warm_up=2)
        rates[size] = {timing.name: timing.best_rate for timing in timings}
        figures[str(size)] = [timing.as_dict() for timing in timings]
    largest = sizes[-1]
    bandwidth = 8 * largest * rates[largest]["copy"] / 1e9
    lenet = round_trip(given.round_trips)
    saturation = (lenet.gradient + lenet.exchange + lenet.served) / lenet.served
    text = TEXT.format(cores=cores, copy=bandwidth)
    result = Result("The server's ceiling", text, vars(given))
    result.table(
        "Updates a second, float32",
        ["", *(f"{size:,}" for size in sizes)],
        [[name, *(rates[size][name] for size in sizes)] for name in rates[largest]],
    )
    result.table(
        f"A server with LeNet's gradients ({LENET:,} parameters, SGHMC, worker processes)",
        ["", "ms"],
        [
            ["a gradient, one core", 1e3 * lenet.gradient],
            ["the server, a gradient", 1e3 * lenet.served],
            ["of that, the update", 1e3 * lenet.update],
            ["the rest of the round trip", 1e3 * lenet.exchange],
            ["workers with a core each that saturate it", f"{saturation:.0f}"],
        ],
    )
    result.curves(
        "server", "Updates a second by size", "parameters", "updates a second",
        {name: (sizes, [rates[size][name] for size in sizes]) for name in rates[largest]},
    )  # fmt: skip
    result.bars = bars(rates[largest], largest, cores)
    result.figures = {
        "timings": figures, "copy_gb_per_second": bandwidth, "gradient": lenet.gradient, "served": lenet.served,
        "exchange": lenet.exchange, "saturation": saturation,
    }  # fmt: skip
    result.finish(given.json)


def bars(rates: dict[str, float], size: int, cores: int) -> list[Bar]:
    """Fused against no noise on all cores, and shards."""
    suffix = " on all cores" if cores > 1 else ""
    plain = "SGHMC, no noise" + (", on all cores" if cores > 1 else "")
    ours, peer = 1e3 / rates["SGHMC" + suffix], 1e3 / rates[plain]
    what = f"server, {size:.0e} parameters: ".replace("e+0", "e")
    found = [Bar(f"{what}update over the same without noise", ours, peer, 3.0, at_least=False, unit="ms")]
    if cores > 1:
        name = f"{what}{cores} shards over one, equal bits"
        sharded, whole_ = rates["SGHMC on all cores"], rates["SGHMC"]
        found.append(Bar(name, sharded, whole_, GROWTH, unit="updates/s", also=same_bits(100_003, cores)))
    return found


GROWTH = 1.5
"""What sharding over all cores must gain at least, on two cores and more."""


if __name__ == "__main__":
    main()
