"""What an engine costs beside its bare transport: exchanges a second when the gradient is free.

Measured by ``engines.py``, which knows all engines and asks more questions than this section shows.

    python benchmarks/engine_cost.py [--json FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
from results import Bar, Result

HERE = Path(__file__).resolve().parent
TEXT = """
Exchanges a second, a gradient up and a point down, when the gradient is free: everything that is left is transport and
engine. *Bare* is the same transport, shared memory with its signals, queues or MPI's messages, with nothing but a copy
on each side, *bare, with the update* a server that makes the update besides; the engine adds checks, staleness, the
update with its noise, the trace and the bookkeeping of workers. The share says how much of the bare transport's rate
the engine keeps.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Engines as a share of their bare transports.")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--parameters", type=int, nargs="+", default=[124, 431_080])
    parser.add_argument(
        "--engines", nargs="+", default=engines(), help="as engines.py names them (default %(default)s)"
    )
    parser.add_argument("--duration", type=float, default=1.0, help="seconds of one measurement (default %(default)s)")
    harness.add_arguments(parser, rounds=3)
    return harness.parse(
        parser, given, workers=[1], parameters=[124], engines=["threads", "processes"], duration=0.2, rounds=1
    )


def engines() -> list[str]:
    """Those of one machine, and MPI where mpi4py is installed."""
    return ["threads", "processes"] + (["mpi"] if find_spec("mpi4py") else [])


def measured(script: str, *words: object) -> dict[str, Any]:
    """What another benchmark writes as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        command = [sys.executable, str(HERE / script), *map(str, words), "--json", str(file)]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found


def rows_of(given: argparse.Namespace) -> list[dict[str, Any]]:
    """What ``engines.py`` finds, for each engine, number of workers and size."""
    words = ["--engines", *given.engines, "--workers", *given.workers, "--parameters", *given.parameters]
    words += ["--milliseconds", "--duration", given.duration, "--rounds", given.rounds]
    found: list[dict[str, Any]] = measured("engines.py", *words)["results"]
    return found


def main() -> None:
    """Measure and report."""
    given = arguments()
    rows = rows_of(given)
    result = Result("What an engine costs", TEXT, vars(given))
    result.table(
        "Exchanges a second with a free gradient, medians",
        ["", "workers", "parameters", "bare transport", "bare, with the update", "engine", "share of bare"],
        [_shown(row) for row in rows],
    )
    result.bars = bars(rows)
    result.figures = {"rows": rows}
    result.finish(given.json)


def bars(rows: Sequence[dict[str, Any]]) -> list[Bar]:
    """MPI's small messages: what is left of the bare transport with the update."""
    return [
        Bar(
            f"MPI, 124 float32, {row['workers']} workers: of bare with the update",
            _share(row, "with update"),
            None,
            0.8,
        )
        for row in rows
        if row["engine"] == "mpi" and row["parameters"] == 124
    ]


def _share(row: dict[str, Any], of: str) -> float:
    """The engine's share of a bare rate, the median over rounds."""
    rates = zip(row["rates"]["engine"], row["rates"][of], strict=True)
    return statistics.median(engine / bare for engine, bare in rates)


def _shown(row: dict[str, Any]) -> list[str | float | None]:
    rates = {name: statistics.median(values) for name, values in row["rates"].items()}
    share = _share(row, "bare")
    described = [row["engine"], str(row["workers"]), f"{row['parameters']:,}"]
    return [*described, rates["bare"], rates.get("with update"), rates["engine"], f"{share:.0%}"]


if __name__ == "__main__":
    main()
