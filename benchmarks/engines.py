"""Engines side by side, each beside its bare transport.

Two questions, for 1, 2 and 4 workers. *Exchanges a second*: how often a gradient that costs nothing comes up and a
point goes down, for models of 124, 431,080 and 10 million float32. *Gradients a second*: how many gradients of 5 and
25 ms of CPU time reach the chain, at 431,080 float32.

For every engine there are three figures, which take turns. *Bare* is its transport with nothing on top
(``bare_transports.py``); *with update* is the same with a server that makes the update that the engine makes, so that
what is left of the difference is the engine's own; *engine* is ``sg.sample`` with SGLD, after the first quarter of the
run. For MPI there is a fourth, *spinning*: the bare transport with waits inside MPI, which burn a core a rank. For Ray
there is another, *at once*: the engine with as many gradients a call as it finds worthwhile, which is what a user gets;
*engine* is with one a call, as the bare actor call. The table has the best of several rounds, the one that others on
the machine have disturbed least; the JSON has all.

    python benchmarks/engines.py [--engines threads processes mpi ray] [--workers 1 2 4] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table

import bare_transports as bare
import harness
import stalegrad as sg
from bare_transports import Load
from burning import Burning

Measure = Callable[[Load], float]


def sampled(load: Load, engine: Any, rate: float) -> float:
    """Gradients a second that reach the chain, of a run that is to last as long as the bare transport's."""
    steps = max(40, round(rate * load.duration))
    model = Burning(load.parameters, load.milliseconds / 1e3)
    run = sg.sample(
        model, sg.SGLD(step_size=1e-6), steps=steps, workers=load.workers, thin=steps, engine=engine, progress=False
    )
    times = run.trace.chains[0].time
    assert times is not None
    skip = steps // 4
    return float((steps - 1 - skip) / (times[-1] - times[skip]))


@dataclass(frozen=True)
class Candidate:
    """An engine: its bare transports by name, "bare" among them, and the engine itself, given the rate to expect.

    ``others`` are the same engine with other settings.
    """

    transports: dict[str, Measure]
    engine: Callable[[Load, float], float]
    others: dict[str, Callable[[Load, float], float]] = field(default_factory=dict)


def answered(process: "subprocess.Popen[str]", what: str, load: Load, *more: float) -> float:
    """The rate that a process finds when it is asked to measure something."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([what, asdict(load), *more]), file=process.stdin, flush=True)
    for line in process.stdout:
        if line.startswith("rate "):
            return float(line.split()[1])
    raise RuntimeError(f"{what} with {load} failed")


class OnRanks:
    """Ranks of an mpiexec for each number of workers, which are started once and measure one thing after another."""

    _jobs: ClassVar[dict[int, "subprocess.Popen[str]"]] = {}

    @classmethod
    def measure(cls, what: str) -> Callable[..., float]:
        """Have them measure something that :func:`serve_ranks` knows."""

        def measure(load: Load, *more: float) -> float:
            if load.workers not in cls._jobs:
                cls._jobs[load.workers] = cls._start(load.workers + 1)
            return answered(cls._jobs[load.workers], what, load, *more)

        return measure

    @classmethod
    def end(cls) -> None:
        """End them, if they were started."""
        for job in cls._jobs.values():
            job.communicate()

    @staticmethod
    def _start(ranks: int) -> "subprocess.Popen[str]":
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-n", ranks, sys.executable, "-m", "mpi4py", __file__, "--rank"]
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def serve_ranks() -> None:
    """What a rank does: whatever the standard input of rank 0 asks for, until it ends."""
    from mpi4py import MPI

    from stalegrad.engines.mpi.channel import Channel

    channel = Channel.among(MPI.COMM_WORLD)  # whose waits leave the processor to others
    compile_express(channel)
    while True:
        asked, _ = channel.broadcast_facts({} if channel.rank else {"task": sys.stdin.readline()})
        if not asked["task"]:
            return
        what, load, *more = json.loads(asked["task"])
        if what == "engine":
            rate = sampled(Load(**load), sg.engines.MPI(everywhere=True), *more)
        else:
            rate = bare.mpi(Load(**load), spinning=what == "spinning") or 0.0
        if channel.rank == 0:
            print("rate", rate, flush=True)


def compile_express(channel: Any) -> None:
    """Make runs that are worth compiling what deals with small messages, until it is, so that shorter ones use it."""
    from stalegrad.engines.mpi import express

    for _ in range(20):
        sampled(
            Load(124, channel.size - 1, 0.0, False, 1.0), sg.engines.MPI(everywhere=True), 2 * express.WORTH_COMPILING
        )
        told, _ = channel.broadcast_facts({"compiled": bool(express.exchange.overloads)})
        if told["compiled"]:
            return


class OnRay:
    """A process of its own with a Ray of its own, which is started once; other transports fork this process."""

    _process: "subprocess.Popen[str] | None" = None

    @classmethod
    def measure(cls, what: str) -> Callable[..., float]:
        """Have that process measure something that :func:`serve_ray` knows."""

        def measure(load: Load, *more: float) -> float:
            if cls._process is None:
                command = [sys.executable, __file__, "--ray"]
                cls._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            return answered(cls._process, what, load, *more)

        return measure

    @classmethod
    def end(cls) -> None:
        """End it, if it was started."""
        if cls._process is not None:
            cls._process.communicate()


def serve_ray() -> None:
    """Measure what the standard input asks for, until it ends."""
    import ray

    from stalegrad.engines.ray.connection import on_loopback
    from stalegrad.engines.ray.security import make_token

    make_token()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  as all the others
    with tempfile.TemporaryDirectory(prefix="sg-", ignore_cleanup_errors=True) as folder, on_loopback():
        ray.init(
            address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder,
            object_store_memory=2 << 30,
        )  # fmt: skip
        for line in sys.stdin:
            what, load, *more = json.loads(line)
            load = Load(**load)
            if what == "bare":
                rate = bare.ray_actor(load)
            else:
                engine = sg.engines.Ray(gradients_per_call=1 if what == "engine" else None, cpus_per_worker=0)
                rate = sampled(load, engine, *more)
            print("rate", rate, flush=True)
        ray.shutdown()


CANDIDATES = {
    "threads": Candidate({"bare": bare.threads}, lambda load, rate: sampled(load, "threads", rate)),
    "processes": Candidate({"bare": bare.shared_memory}, lambda load, rate: sampled(load, "processes", rate)),
    "mpi": Candidate(
        {"bare": OnRanks.measure("bare"), "spinning": OnRanks.measure("spinning")}, OnRanks.measure("engine")
    ),
    "ray": Candidate({"bare": OnRay.measure("bare")}, OnRay.measure("engine"), {"at once": OnRay.measure("at once")}),
}
"""Another engine is another entry: a bare call of its transport, and ``sg.sample`` on it."""


def measured(candidate: Candidate, load: Load) -> dict[str, float]:
    """Every figure of an engine, once."""
    rates = {name: transport(load) for name, transport in candidate.transports.items()}
    rates["with update"] = candidate.transports["bare"](replace(load, updates=True))
    rates["engine"] = candidate.engine(load, rates["with update"])
    return rates | {name: other(load, rates["with update"]) for name, other in candidate.others.items()}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Exchanges and gradients a second of all engines.")
    parser.add_argument("--engines", nargs="+", default=list(CANDIDATES), choices=list(CANDIDATES))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--parameters", type=int, nargs="*", default=[124, 431_080, 10_000_000], help="for exchanges")
    parser.add_argument("--milliseconds", type=float, nargs="*", default=[5.0, 25.0], help="of gradients")
    parser.add_argument("--duration", type=float, default=2.0, help="seconds of one measurement (default %(default)s)")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ray", action="store_true", help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    if arguments.rank:
        serve_ranks()
        return
    if arguments.ray:
        serve_ray()
        return
    console = Console(stderr=arguments.json == "-")
    loads = [
        *((f"exchanges/s, {n:,} float32", Load(n, 0, 0.0, False, arguments.duration)) for n in arguments.parameters),
        *(
            (f"gradients/s, {ms:g} ms", Load(431_080, 0, ms, False, arguments.duration))
            for ms in arguments.milliseconds
        ),
    ]
    results = []
    for title, load in loads:
        rows = [
            {"engine": name, **asdict(replace(load, workers=workers)), "rates": {}}
            for name in arguments.engines
            for workers in arguments.workers
        ]
        for _ in range(arguments.rounds):
            for row in rows:
                once = measured(CANDIDATES[row["engine"]], replace(load, workers=row["workers"]))
                for name, rate in once.items():
                    row["rates"].setdefault(name, []).append(rate)
        results += rows
        console.print(table(f"{title}: best of {arguments.rounds}", rows))
    OnRanks.end()
    OnRay.end()
    harness.write_json({"duration": arguments.duration, "results": results}, arguments.json)


def table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """The rows of one question."""
    result = Table(title=title)
    figures = ("bare", "spinning", "with update", "engine", "at once")
    for heading in ("engine", "workers", *figures, "of bare", "of bare with update"):
        result.add_column(heading, justify="left" if heading == "engine" and not result.columns else "right")
    for row in rows:
        rates = {name: max(values) for name, values in row["rates"].items()}
        shares = [rates["engine"] / rates[name] for name in ("bare", "with update")]
        shown = [f"{rates[name]:,.0f}" if name in rates else "" for name in figures]
        result.add_row(row["engine"], str(row["workers"]), *shown, *(f"{share:.0%}" for share in shares))
    return result


if __name__ == "__main__":
    main()
