"""What rounded messages cost and save: bytes, the time to round and pack, bias, and gradients a second over a link.

*Cost* is processor time to round, pack and unpack a vector of n float32. *Bias* is that of posterior means, in standard
deviations, and of variances, of a logistic regression whose runs differ in ``messages=`` alone: the worst coordinate's
distance from the run with exact messages, beside its standard error, over R repetitions of the same trace. *Link* is
how many gradients a second reach a chain of n parameters with W workers on MPI, over the loopback of a network
namespace that this program makes and limits with ``tc`` (it needs the right to); on Ray over a cable of that speed
between two such namespaces (:mod:`ray_link`), the server on one side of it and the workers on the other; and on Ray on
one host, where messages of this size lie in shared memory.

    python benchmarks/messages.py [--parts cost bias mpi ray_link ray] [--gigabits 1 0.1] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import ray_link
import stalegrad as sg
from a9a_like import synthetic
from hostile_link import Quadratic
from stalegrad.potentials.wire.formats import FORMATS, Counter

PARTS = ("cost", "bias", "mpi", "ray_link", "ray")
_MARK = "figures "
_MILLISECONDS = 10.0


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Rounded messages beside exact ones.")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--parameters", type=int, default=431_080)
    parser.add_argument("--gigabits", type=float, nargs="+", default=[1.0, 0.1], help="a second, of the link")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--updates", type=int, default=300, help="of a run (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=512, help="of the runs that show bias (default %(default)s)")
    parser.add_argument("--measure", choices=("mpi", "ray_link", "ray"), help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=3)
    return harness.parse(parser, given, parts=["cost", "bias"], repeats=64, rounds=1)


def cost(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Milliseconds of processor time, the best of some calls."""
    values = np.random.Generator(np.random.Philox(key=1)).standard_normal((1, given.parameters)).astype(np.float32)
    rows = []
    for name in ("bfloat16", "int8"):
        codec, out = FORMATS[name].gradient, np.empty_like(values)
        packed, back = np.empty(codec.packed_bytes(given.parameters), np.uint8), np.empty_like(values)
        calls = {
            "round": lambda c=codec, o=out: c.round(values, o, 1, Counter.of_point(0, 1, 0)),
            "pack": lambda c=codec, o=out, p=packed: c.pack(o[0], p),
            "unpack": lambda c=codec, p=packed, b=back: c.unpack(p, b[0]),
        }
        rows.append({"messages": name, **{what: _best(call) for what, call in calls.items()}})
    return rows


def _best(call: Any, calls: int = 20) -> float:
    call()
    seconds = []
    for _ in range(calls):
        begun = time.process_time()
        call()
        seconds.append(time.process_time() - begun)
    return 1e3 * min(seconds)


def bias(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Of means and variances, beside exact messages; with eight workers, whose gradients are seven updates old."""
    data = synthetic(2_000, seed=3)
    model = sg.potentials.Logistic(data.dense, data.y, prior_scale=1.0, batch_size=50)
    kernel, steps = sg.SGHMC(step_size=0.02, friction=5.0), 600
    start = sg.potentials.find_mode(model)
    drawn = {
        name: np.asarray(
            sg.sample(
                model, kernel, steps=steps, workers=8, repeats=given.repeats, burn_in=steps - 1, initial=start, seed=1,
                messages=name, warmup=None, progress=False,
            ).draws
        ).reshape(given.repeats, -1).astype(np.float64)
        for name in FORMATS
    }  # fmt: skip
    exact = drawn.pop("float32")
    deviation, rows = exact.std(axis=0), []
    for name, draws in drawn.items():
        mean = np.abs(draws.mean(axis=0) - exact.mean(axis=0)) / deviation
        ratio = draws.var(axis=0) / exact.var(axis=0)
        rows.append(
            {
                "messages": name, "mean_worst": float(mean.max()), "variance_mean_ratio": float(ratio.mean()),
                "variance_worst": float(np.abs(ratio - 1).max()), "mean_error": float(np.sqrt(2 / given.repeats)),
                "variance_error": float(np.sqrt(4 / given.repeats)), "coordinates": int(deviation.size),
                "repeats": given.repeats,
            }
        )  # fmt: skip
    return rows


def rates(engine: Any, given: argparse.Namespace, card: str | None = None) -> dict[str, Any]:
    """Gradients a second of each format, by turns; all must replay.

    With the name of a network card also the bytes that went through it for each gradient, which are refused if they
    are fewer than the messages have: they have gone another way then.
    """
    model = Quadratic(given.parameters, _MILLISECONDS / 1e3)
    found: dict[str, Any] = {name: [] for name in FORMATS}
    carried: dict[str, list[float]] = {name: [] for name in FORMATS}
    for seed in range(given.rounds):
        for name in FORMATS:
            before = carried_by(card)
            run = sg.sample(
                model, sg.SGLD(step_size=1e-6), steps=given.updates, workers=given.workers, thin=given.updates // 3,
                seed=seed, engine=engine, messages=name, warmup=None, progress=False,
            )  # fmt: skip
            carried[name].append((carried_by(card) - before) / given.updates)
            if card and carried[name][-1] < 0.8 * sum(FORMATS[name].message_bytes(given.parameters)):
                raise RuntimeError(f"{carried[name][-1]:.0f} bytes a gradient went through {card}: not the messages")
            (chain,), skip = run.trace.chains, given.updates // 4
            assert chain.time is not None
            again = sg.replay(run.trace, Quadratic(given.parameters, 0.0))
            assert np.array_equal(again.draws, run.draws), "a run did not replay"
            found[name].append(float((given.updates - 1 - skip) / (chain.time[-1] - chain.time[skip])))
    return {**found, "carried": carried} if card else found


def carried_by(card: str | None) -> int:
    """Bytes that a network card has sent and received so far; of the loopback, which receives what it sends, once."""
    lines = Path("/proc/net/dev").read_text().splitlines() if card else []
    counts = [line.split(":")[1].split() for line in lines if line.strip().startswith(f"{card}:")]
    return sum(int(each[8]) + (0 if card == "lo" else int(each[0])) for each in counts)


def over_a_link(given: argparse.Namespace, gigabits: float) -> dict[str, Any]:
    """The rates on MPI, all messages through a loopback of this speed."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    words = ["--measure", "mpi", "--workers", given.workers, "--updates", given.updates, "--rounds", given.rounds]
    words += ["--parameters", given.parameters]
    ranks = [mpiexec, "-localhost", "127.0.0.1", "-n", given.workers + 1, sys.executable, "-m", "mpi4py", __file__]
    limit = f"tc qdisc add dev lo root tbf rate {gigabits}gbit burst 1mb limit 256mb"
    script = f'ip link set lo mtu 9000 up && {limit} && exec "$@"'
    command = ["unshare", "--net", "sh", "-c", script, "sh", *ranks, *words]
    # Ranks of one machine, and UCX between them, would share memory otherwise.
    environment = os.environ | {
        "MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo",
    }  # fmt: skip
    return {"engine": "mpi", "gigabits": gigabits, **_figures_of(command, environment)}


def ray_over_a_link(given: argparse.Namespace, gigabits: float) -> dict[str, Any]:
    """The rates on Ray, server and workers on two hosts with a cable of this speed between them."""
    words = ["--measure", "ray_link", "--workers", given.workers, "--updates", given.updates, "--rounds", given.rounds]
    words += ["--parameters", given.parameters, "--gigabits", gigabits]
    with tempfile.TemporaryDirectory(prefix="sg-", ignore_cleanup_errors=True) as folder:
        variables = ray_link.environment(Path(folder))
        found = _figures_of([*ray_link.ALONE, sys.executable, __file__, *words], variables)
    return {"engine": "ray", "gigabits": gigabits, **found}


def on_ray(given: argparse.Namespace) -> dict[str, Any]:
    """The rates on Ray, in a process of its own."""
    words = ["--measure", "ray", "--workers", given.workers, "--updates", given.updates, "--rounds", given.rounds]
    command = [sys.executable, __file__, *words, "--parameters", given.parameters]
    return {"engine": "ray", "gigabits": None, **_figures_of(command, dict(os.environ))}


def _figures_of(command: Sequence[Any], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True, env=environment)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(_MARK))
    figures: dict[str, Any] = json.loads(line.removeprefix(_MARK))
    return figures


def measure_here(given: argparse.Namespace) -> None:
    """What the ranks of :func:`over_a_link`, or the process of :func:`on_ray`, do."""
    if given.measure == "ray":
        from hostile_link import ray_on_loopback

        with ray_on_loopback():
            figures = rates(sg.engines.Ray(gradients_per_call=1, cpus_per_worker=0), given)
    elif given.measure == "ray_link":
        with ray_link.two_hosts(given.gigabits[0], given.workers) as address:
            engine = sg.engines.Ray(address=address, gradients_per_call=1, server_resources={"first": 1})
            figures = rates(engine, given, "card")
    else:
        figures = rates(sg.engines.MPI(everywhere=True), given, "lo")
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank:
            return
    print(_MARK + json.dumps(figures), flush=True)


def main() -> None:
    """Measure and report."""
    given = arguments()
    if given.measure:
        measure_here(given)
        return
    console = Console(stderr=given.json == "-")
    sizes = {name: wire.message_bytes(given.parameters) for name, wire in FORMATS.items()}
    result: dict[str, Any] = {"parameters": given.parameters, "bytes": sizes}
    if "cost" in given.parts:
        result["cost"] = cost(given)
        _show(console, "Milliseconds of processor time a message", result["cost"])
    if "bias" in given.parts:
        result["bias"] = bias(given)
        _show(console, "Beside exact messages", result["bias"])
    result["rates"] = [over_a_link(given, gigabits) for gigabits in given.gigabits if "mpi" in given.parts]
    result["rates"] += [ray_over_a_link(given, gigabits) for gigabits in given.gigabits if "ray_link" in given.parts]
    result["rates"] += [on_ray(given)] if "ray" in given.parts else []
    if result["rates"]:
        table = Table(title=f"Gradients a second, {given.workers} workers, {_MILLISECONDS:g} ms each (median)")
        for heading in ("engine", "Gbit/s", *FORMATS):
            table.add_column(heading, justify="right")
        for row in result["rates"]:
            speed = "-" if row["gigabits"] is None else f"{row['gigabits']:g}"
            table.add_row(row["engine"], speed, *(f"{np.median(row[name]):.1f}" for name in FORMATS))
            if "carried" in row:
                bytes_ = (f"{np.median(row['carried'][name]):,.0f} B" for name in FORMATS)
                table.add_row("", "carried", *bytes_)
        console.print(table)
    harness.write_json(result, given.json)


def _show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    for heading in rows[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)


if __name__ == "__main__":
    main()
