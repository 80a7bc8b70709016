"""What a server's update costs: every kernel, fused with its noise, against NumPy and against the memory.

Three things take turns on one core with the same arrays:

- *fused*: the kernel's compiled update, noise included;
- *NumPy*: ``Generator.standard_normal`` in float32 and the same update in NumPy, written without needless copies;
- *no noise*: the same compiled update with the noise left out, which is what the memory allows.

    python benchmarks/update.py [--parameters 431080] [--json FILE]
"""

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
from stalegrad.jit import compiled
from stalegrad.kernels import PSGLD, SGHMC, SGLD, SGNHT, Address, Kernel

KERNELS: dict[str, Kernel] = {
    "SGHMC": SGHMC(step_size=1e-3, friction=10.0),
    "SGLD": SGLD(step_size=1e-3),
    "SGHMC, splitting": SGHMC(step_size=1e-3, friction=10.0, integrator="splitting"),
    "SGNHT": SGNHT(step_size=1e-3),
    "SGNHT, splitting": SGNHT(step_size=1e-3, integrator="splitting"),
    "SGNHT, each": SGNHT(step_size=1e-3, thermostats="each"),
    "pSGLD": PSGLD(step_size=1e-3, n_data=60_000, batch_size=64),
}


@compiled
def _without_noise(theta, q, g, c):  # type: ignore[no-untyped-def]
    keep, h, sigma = c[0], c[1], c[2]
    t, p, d = theta[0], q[0], g[0]
    for i in range(t.shape[0]):
        v = keep * p[i] - h * d[i] + sigma * d[i]
        p[i] = v
        t[i] = t[i] + h * v


def fused(kernel: Kernel, size: int, dtype: Any) -> harness.Case:
    """The kernel's update of a vector of so many parameters."""
    state = kernel.start(np.zeros((1, size), dtype), Address(0, 0, 0))
    gradient = np.full((1, size), 0.01, dtype)
    coefficients = np.array(kernel.coefficients(1e-3, 1e-3), dtype)
    update = iter(range(1 << 40))

    def run() -> None:
        kernel.advance(state, gradient, coefficients, Address(0, 0, next(update)))

    return harness.Case("", run, size)


def in_numpy(size: int, dtype: Any) -> harness.Case:
    """SGHMC's update with NumPy's generator, in place wherever NumPy can."""
    rng = np.random.default_rng(0)
    theta, q, scratch = np.zeros((3, size), dtype)
    gradient = np.full(size, 0.01, dtype)
    keep, h, sigma = (dtype(value) for value in KERNELS["SGHMC"].coefficients(1e-3, 1e-3))

    def run() -> None:
        rng.standard_normal(dtype=dtype, out=scratch)
        np.multiply(scratch, sigma, out=scratch)
        np.multiply(q, keep, out=q)
        np.add(q, scratch, out=q)
        np.multiply(gradient, h, out=scratch)
        np.subtract(q, scratch, out=q)
        np.multiply(q, h, out=scratch)
        np.add(theta, scratch, out=theta)

    return harness.Case("NumPy normals + NumPy update", run, size)


def no_noise(size: int, dtype: Any) -> harness.Case:
    """SGHMC's compiled update without its noise."""
    theta, q = np.zeros((2, 1, size), dtype)
    gradient = np.full((1, size), 0.01, dtype)
    c = np.array(KERNELS["SGHMC"].coefficients(1e-3, 1e-3), dtype)
    return harness.Case("compiled, no noise", lambda: _without_noise(theta, q, gradient, c), size)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="One server update, by kernel.")
    parser.add_argument("--parameters", type=int, default=431_080, help="size of the vector (default %(default)s)")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    harness.add_arguments(parser, rounds=61)
    arguments = parser.parse_args()
    size, dtype = arguments.parameters, np.dtype(arguments.dtype).type
    cases = [in_numpy(size, dtype), no_noise(size, dtype)]
    cases += [fused(kernel, size, dtype) for kernel in KERNELS.values()]
    numpy, bare, *ours = harness.measure(cases, rounds=arguments.rounds, warm_up=2)
    results = {
        name: {
            "ns_per_parameter": 1e3 * timing.best,
            "ratio_to_numpy": numpy.best / timing.best,
            "ratio_to_bandwidth": bare.best / timing.best,
        }
        for name, timing in zip(KERNELS, ours, strict=True)
    }
    table = Table(title=f"One update of {size:,} {arguments.dtype} parameters, one core, best of {arguments.rounds}")
    for heading in ("kernel", "ns a parameter", "× NumPy's SGHMC", "no noise / with noise"):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    for name, row in results.items():
        ratio, bandwidth = row["ratio_to_numpy"], row["ratio_to_bandwidth"]
        table.add_row(name, f"{row['ns_per_parameter']:.2f}", f"{ratio:.1f}", f"{bandwidth:.2f}")
    table.add_row("NumPy normals + update", f"{1e3 * numpy.best:.2f}", "1.0", "")
    table.add_row("compiled, no noise", f"{1e3 * bare.best:.2f}", "", "1.00")
    Console(stderr=arguments.json == "-").print(table)
    document = {
        **results["SGHMC"],
        "kernels": results,
        "numpy_ns_per_parameter": 1e3 * numpy.best,
        "no_noise_ns_per_parameter": 1e3 * bare.best,
        "parameters": size,
        "dtype": arguments.dtype,
    }
    harness.write_json(document, arguments.json)


if __name__ == "__main__":
    main()
