"""Is the page of a large run light? 64 workers and 10⁷ gradients, watched while it runs and afterwards.

    python benchmarks/watch_large.py [--engines inline threads] [--gradients 10000000] [--json FILE]

One chain of SGLD on a Gaussian with 10 parameters is sampled into a store, by 64 workers of a simulated cluster or 64
threads, in a process of its own with its page open: a client in another process reads all events, and asks for the
whole state twice a second. Then the folder is watched, as ``stalegrad watch`` does, in a fresh process: the first look,
which reads the whole trace, and the next one. Sizes are those of what a browser is sent.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from stalegrad.engines import Inline
from stalegrad.engines.simulation import Exponential
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.observers.stored import StoredSource
from stalegrad.runs.watch import server
from stalegrad.runs.watch.content import Content

WORKERS = 64
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def model() -> sg.potentials.GaussianMean:
    """10 parameters, minibatches of 4 of 1,000 data."""
    return sg.potentials.GaussianMean(np.random.default_rng(0).normal(size=(1000, 10)), batch_size=4)


def peak() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Reader:
    """Asks for the whole state of a page again and again, and reads its events beside that."""

    def __init__(self, port: int, token: str) -> None:
        self._base, self._token, self.over = f"http://127.0.0.1:{port}", token, threading.Event()
        self.answers: list[tuple[float, int]] = []
        """Seconds until the whole state was there, and its bytes."""
        self.updates: list[int] = []
        """Bytes of each event."""
        threading.Thread(target=self._events, daemon=True).start()

    def _open(self, path: str) -> Any:
        request = urllib.request.Request(self._base + path, headers={"Authorization": f"Bearer {self._token}"})
        return _OPENER.open(request, timeout=60)

    def _events(self) -> None:
        try:
            with self._open("/api/events") as stream:
                for line in stream:
                    if line.startswith(b"data:"):
                        self.updates.append(len(line))
        except (OSError, ValueError):
            pass
        self.over.set()

    def ask(self) -> None:
        """Once."""
        begun = time.perf_counter()
        with self._open("/api/state") as answer:
            content = answer.read()
        self.answers.append((time.perf_counter() - begun, len(content)))


def make(engine: str, gradients: int, folder: str) -> None:
    """In a process of its own: sample, and say where the page is."""
    serve = server.Page.serve

    def served(*arguments: Any, **given: Any) -> Any:
        page = serve(*arguments, **given)
        print(json.dumps({"port": page.port, "token": page.tokens.view}), flush=True)
        return page

    server.Page.serve = served  # type: ignore[method-assign,assignment]
    chosen: Any = Inline(compute=Exponential(1.0)) if engine == "inline" else engine
    settings: dict[str, Any] = {"workers": WORKERS, "thin": 1000, "engine": chosen, "progress": False}
    sg.sample(model(), sg.SGLD(step_size=1e-5), steps=20_000, **settings)  # compiles
    begun, before = time.perf_counter(), peak()
    sg.sample(
        model(), sg.SGLD(step_size=1e-5), steps=gradients, store=folder, watch=sg.Watch(port=0), **settings
    )  # fmt: skip
    print(json.dumps({"seconds": time.perf_counter() - begun, "before": before, "peak": peak()}), flush=True)


def look(folder: str) -> None:
    """In a process of its own: watch what is stored."""
    before, begun = peak(), time.perf_counter()
    sampler = Sampler(StoredSource(folder))
    snapshot = sampler.look()
    first = time.perf_counter() - begun
    content = Content(sampler)
    begun = time.perf_counter()
    size = len(content.whole(False).encode())
    made = time.perf_counter() - begun
    time.sleep(0.3)
    begun = time.perf_counter()
    sampler.look()
    again = time.perf_counter() - begun
    print(
        json.dumps({
            "first_look": first, "next_look": again, "made": made, "bytes": size, "before": before, "peak": peak(),
            "gradients": sum(chain.updates + chain.dropped for chain in snapshot.chains),
        })
    )  # fmt: skip


def measured(engine: str, gradients: int) -> dict[str, Any]:
    """A run of an engine while it is made, and afterwards."""
    with tempfile.TemporaryDirectory() as place:
        folder = f"{place}/run"
        command = [sys.executable, __file__, "--make", engine, "--gradients", str(gradients), "--folder", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        reader = Reader(**json.loads(process.stdout.readline()))
        while not reader.over.wait(0.5):
            try:
                reader.ask()
            except (OSError, ValueError):
                break
        run = json.loads(process.stdout.readline())
        assert process.wait() == 0
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        stored = json.loads(
            subprocess.run(
                [sys.executable, __file__, "--look", "--folder", folder], check=True, capture_output=True, text=True
            ).stdout
        )
    seconds = [took for took, _ in reader.answers]
    return {
        "seconds": run["seconds"], "gradients_per_second": gradients / run["seconds"], "store_bytes": size,
        "live": {
            "answers": len(seconds), "median_seconds": statistics.median(seconds), "worst_seconds": max(seconds),
            "state_bytes": max(of for _, of in reader.answers), "updates": len(reader.updates),
            "update_bytes": statistics.median(reader.updates), "largest_update_bytes": max(reader.updates),
            "memory_before": run["before"], "memory_peak": run["peak"],
        },
        "stored": stored,
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="The page of a large run.")
    parser.add_argument("--gradients", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", default=["inline", "threads"])
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--json", help="file for the numbers")
    given = parser.parse_args()
    if given.make:
        return make(given.make, given.gradients, given.folder)
    if given.look:
        return look(given.folder)
    found = {engine: measured(engine, given.gradients) for engine in given.engines}
    table = Table(title=f"{given.gradients:,} gradients of {WORKERS} workers", title_justify="left", box=None)
    table.add_column("")
    for engine in found:
        table.add_column(engine, justify="right")

    def row(name: str, text: str, *path: str) -> None:
        cells = []
        for of in found.values():
            value: Any = of
            for key in path:
                value = value[key]
            cells.append(text.format(value))
        table.add_row(name, *cells)

    row("run, page open, seconds", "{:.1f}", "seconds")
    row("whole state, median s", "{:.4f}", "live", "median_seconds")
    row("whole state, worst s", "{:.3f}", "live", "worst_seconds")
    row("whole state, bytes", "{:,.0f}", "live", "state_bytes")
    row("an update, bytes", "{:,.0f}", "live", "update_bytes")
    row("memory of the run before, MB", "{:.0f}", "live", "memory_before")
    row("memory of the run at most, MB", "{:.0f}", "live", "memory_peak")
    row("stored: first look, s", "{:.2f}", "stored", "first_look")
    row("stored: next look, s", "{:.4f}", "stored", "next_look")
    row("stored: making the state, s", "{:.4f}", "stored", "made")
    row("stored: state, bytes", "{:,.0f}", "stored", "bytes")
    row("stored: memory before, MB", "{:.0f}", "stored", "before")
    row("stored: memory at most, MB", "{:.0f}", "stored", "peak")
    row("store, bytes", "{:,.0f}", "store_bytes")
    Console(stderr=given.json == "-").print(table)
    harness.write_json(found, given.json)
    return None


if __name__ == "__main__":
    main()
