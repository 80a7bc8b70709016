"""What it costs to watch a run: updates a second with the live page open, over those without it.

    python benchmarks/watch_cost.py [--tasks a9a lenet] [--seconds 200] [--json FILE] [--add FILE…]

Logistic regression on a9a by two threads, where an update takes microseconds, and LeNet on MNIST by two processes,
where a gradient takes milliseconds. A machine's speed differs by more from one run to the next than a page may cost, so
that everything is compared within runs: each is cut into stretches of two seconds, in random order: without the page;
with it; and with one that looks eight times as often, whose cost is eight times as easily seen. How many updates a
stretch has made is read from the trace. In each run log(updates a second) is fitted by a level, a trend and the effect
of either page; what is printed is the mean of the effects over all runs as a ratio, with a 95 % interval by resampling
runs. An eighth of what the eager page costs is the second, sharper, estimate of what the page costs.

The third is processor time: that of the sampler's and the page's threads and of the client, as a share of the cores,
all of which the workers could use. An open page is a client in a process of its own that reads all events; what a
browser spends on drawing is the browser's, and not in it.
"""

import argparse
import json
import random
import select
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import a9a_like
import images
import stalegrad as sg
from stalegrad.engines import available_cores, local_servers
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.watch import server

STRETCH, STRETCHES = 2.0, 6
"""Seconds, and how many there are in a run."""
BEGINNING = 1.5  # seconds before the first
EAGER = 8


def task(name: str) -> tuple[Any, dict[str, Any]]:
    """Model and settings."""
    if name == "a9a":
        data = a9a_like.load()
        potential: Any = sg.potentials.Logistic(data.csr(), data.y, batch_size=50)
        return potential, {"kernel": sg.SGLD(step_size=1e-6), "engine": "threads", "workers": 2, "thin": 5000}
    pictures = images.load("mnist")
    potential = sg.potentials.from_torch(
        sg.networks.lenet(0), "categorical", (pictures.X, pictures.y), batch_size=64,
        transform=sg.networks.lenet_pixels,
    )  # fmt: skip
    kernel = sg.SGHMC(step_size=1e-6, friction=10.0)
    return potential, {"kernel": kernel, "engine": "processes", "workers": 2, "thin": 20}


CLIENT = """
import http.client, select, sys
connection = answer = None
while True:
    waiting = [sys.stdin] if answer is None else [sys.stdin, connection.sock]
    ready = select.select(waiting, [], [])[0]
    if sys.stdin in ready:
        line = sys.stdin.readline().split()
        if not line:
            break
        if line[0] == "open":
            connection = http.client.HTTPConnection("127.0.0.1", int(line[1]))
            connection.request("GET", "/api/events", headers={"Authorization": "Bearer " + line[2]})
            answer, read = connection.getresponse(), 0
        else:
            connection.close()
            answer = None
            print(read, flush=True)
    elif answer is not None:
        some = answer.read1(1 << 20)
        read += len(some)
        if not some:
            answer = None
"""
"""Reads events as a browser does, from when it is told to until it is told to stop."""


class Client:
    """A client in a process of its own, which has started before anything is measured."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", CLIENT]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, text: str) -> None:
        """Open a page, or close it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def read(self) -> int:
        """How many bytes it was sent, once it has been told to stop."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 30.0)[0]
        return int(self.process.stdout.readline())


class Looking:
    """Opens and closes the page of a run by turns.

    Args:
        client: who looks at it.
        order: how often the page looks in each stretch, 0 without one.
    """

    def __init__(self, client: Client, order: list[int]) -> None:
        self.client, self.order = client, order
        self.stretches: list[dict[str, Any]] = []
        self.begun = 0.0
        """When the clock of the run was 0."""
        self._sampler: Any = None
        self._page: Any = None
        self._stop: Any = None
        self._paused = True
        self.thread = threading.Thread(target=self._play, daemon=True)

    def careful_look(self, sampler: Sampler) -> None:
        """What the sampler does every second, if the page is open."""
        if not self._paused:
            CAREFUL_LOOK(sampler)

    def serve(self, *arguments: Any, **given: Any) -> Any:
        """The page is there."""
        self._page = SERVE(*arguments, **given)
        self._sampler, self._stop = arguments[1], given["stop"]
        self.thread.start()
        return self._page

    def clock(self, elapsed: float = 0.0) -> Any:
        """The run begins."""
        self.begun = time.perf_counter() - elapsed
        return CLOCK(elapsed)

    def _play(self) -> None:
        while not self.begun or not any(chain.updates for chain in self._sampler.source.chains()):
            time.sleep(0.01)  # processes take a while to start
        time.sleep(BEGINNING)
        for looks in self.order:
            began, before = time.perf_counter(), self._processor()
            if looks:
                self._sampler._every, server._LOOK = 1 / looks, 0.25 / looks
                self._paused = False
                self.client.tell(f"open {self._page.port} {self._page.tokens.view}")
            time.sleep(STRETCH)
            self._paused = True
            if looks:
                self.client.tell("close")
            ended, after = time.perf_counter(), self._processor()
            sent = self.client.read() if looks else 0
            self.stretches.append({
                "looks": looks, "from": began - self.begun, "to": ended - self.begun, "bytes": sent,
                "processor": (after - before) / (ended - began),
            })  # fmt: skip
            self._sampler._every = 0.05
        self._stop()

    def _processor(self) -> float:
        """Seconds that the sampler, the page and the client have had a core."""
        ours = [
            thread.native_id for thread in threading.enumerate()
            if thread.name.startswith(("stalegrad-sampler", "stalegrad-page", "asyncio"))
        ]  # fmt: skip
        files = [Path(f"/proc/self/task/{number}/schedstat") for number in ours]
        files += list(Path(f"/proc/{self.client.process.pid}/task").glob("*/schedstat"))
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9


CAREFUL_LOOK, SERVE, CLOCK = Sampler._careful_look, server.Page.serve, local_servers.monotonic_clock


def watched(potential: Any, settings: dict[str, Any], steps: int, client: Client, order: list[int]) -> dict[str, Any]:
    """One run, whose page is opened and closed: updates a second of each stretch."""
    looking = Looking(client, order)
    Sampler._careful_look = lambda sampler: looking.careful_look(sampler)  # type: ignore[method-assign]
    server.Page.serve = looking.serve  # type: ignore[method-assign]
    local_servers.monotonic_clock = looking.clock  # type: ignore[assignment]
    try:
        run = sg.sample(potential, steps=steps, progress=False, watch=sg.Watch(port=0), **settings)
        looking.thread.join()
        looking._page.close()
    finally:
        Sampler._careful_look = CAREFUL_LOOK  # type: ignore[method-assign]
        server.Page.serve = SERVE  # type: ignore[method-assign]
        local_servers.monotonic_clock = CLOCK
    chain = run.trace.chains[0]
    if chain.time is None or not len(chain):  # it was stopped before its first gradient was there
        return {"stretches": [], "steps": steps}
    time_of = np.asarray(chain.time)
    counts = np.arange(1, len(time_of) + 1)
    for stretch in looking.stretches:
        first, last = np.interp([stretch["from"], stretch["to"]], time_of, counts, left=np.nan, right=np.nan)
        stretch["rate"] = float((last - first) / (stretch["to"] - stretch["from"]))
    return {"stretches": [s for s in looking.stretches if np.isfinite(s["rate"])], "steps": steps}


def effects(run: dict[str, Any]) -> tuple[float, float] | None:
    """Of the page and of the eager one on log(updates a second), beside a level and a trend."""
    stretches = run["stretches"]
    looks = np.array([s["looks"] for s in stretches])
    if not {0, 1, EAGER} <= set(looks.tolist()) or len(stretches) < STRETCHES:
        return None
    middle = np.array([(s["from"] + s["to"]) / 2 for s in stretches])
    columns = [np.ones(len(looks)), middle - middle.mean(), looks == 1, looks == EAGER]
    found = np.linalg.lstsq(np.stack(columns, 1).astype(float), np.log([s["rate"] for s in stretches]), rcond=None)[0]
    return float(found[2]), float(found[3])


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios with intervals, over all runs."""
    found = np.array([each for each in map(effects, runs) if each is not None])
    rng = np.random.default_rng(0)
    means = found[rng.integers(0, len(found), (10_000, len(found)))].mean(1)
    stretches = [s for run in runs for s in run["stretches"]]

    def ratio(column: int, share: float = 1.0) -> list[float]:
        low, high = np.quantile(share * means[:, column], [0.025, 0.975])
        return [float(np.exp(value)) for value in (share * found[:, column].mean(), low, high)]

    def mean(looks: int, name: str) -> float:
        return statistics.mean(s[name] for s in stretches if s["looks"] == looks)

    return {
        "runs": len(found), "updates_per_second": mean(0, "rate"), "page": ratio(0), "eager_page": ratio(1),
        "page_by_eager": ratio(1, 1 / EAGER),
        "processor_share": {n: (mean(n, "processor") - mean(0, "processor")) / available_cores() for n in (1, EAGER)},
        "bytes_per_second": mean(1, "bytes") / STRETCH,
    }  # fmt: skip


def measured(name: str, seconds: float, client: Client) -> list[dict[str, Any]]:
    """As many runs as there is time for."""
    potential, settings = task(name)
    length = BEGINNING + STRETCH * STRETCHES + 1.0
    trial = sg.sample(potential, steps=400_000 if name == "a9a" else 200, progress=False, **settings)
    chain = trial.trace.chains[0]
    assert chain.time is not None
    rate = len(chain) / 2 / float(chain.time[-1] - chain.time[len(chain) // 2])
    runs: list[dict[str, Any]] = []
    shuffled, ends = random.Random(time.time_ns()), time.perf_counter() + seconds
    while time.perf_counter() + length < ends or not runs:
        order = [0, 1, EAGER] * (STRETCHES // 3)
        shuffled.shuffle(order)
        runs.append(watched(potential, settings, int(10 * rate * length), client, order))
        rates = [s["rate"] for s in runs[-1]["stretches"]]
        rate = statistics.median(rates) if rates else 3 * rate  # it was over before anything was seen
        print(name, " ".join(f"{s['looks']}:{s['rate']:,.5g}" for s in runs[-1]["stretches"]), flush=True)
    return runs


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What it costs to watch a run.")
    parser.add_argument("--tasks", nargs="*", default=["a9a", "lenet"], choices=["a9a", "lenet"])
    parser.add_argument("--seconds", type=float, default=200.0, help="for all tasks together (default %(default)s)")
    parser.add_argument("--json", help="file for the numbers")
    parser.add_argument("--add", nargs="*", default=[], help="files of earlier calls, whose runs are counted, too")
    given = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {}
    for file in given.add:
        for name, former in json.loads(Path(file).read_text())["runs"].items():
            runs.setdefault(name, []).extend(former)
    client = Client()
    for name in given.tasks:
        runs.setdefault(name, []).extend(measured(name, given.seconds / len(given.tasks), client))
    client.process.terminate()
    if given.json:
        Path(given.json).write_text(json.dumps({"runs": runs}))
    found = {name: summary(of) for name, of in runs.items() if any(map(effects, of))}
    weight = sum(len(content) for file, content in server.page_files().items() if not file.endswith(".txt"))
    for name, figures in found.items():
        said = [f"{what} {r:.4f} ({low:.4f}–{high:.4f})" for what, (r, low, high) in {
            "page": figures["page"], f"page that looks {EAGER} times as often": figures["eager_page"],
            "page, from that": figures["page_by_eager"],
        }.items()]  # fmt: skip
        share = {n: f"{100 * s:.2f} %" for n, s in figures["processor_share"].items()}
        print(f"{name}: {figures['updates_per_second']:,.0f} updates/s, {figures['runs']} runs; {'; '.join(said)}; ")
        print(f"    processor time, of all cores: {share[1]}, eager {share[EAGER]}; ", end="")
        print(f"{figures['bytes_per_second']:,.0f} bytes a second")
    print(f"the page itself: {weight:,} bytes")
    if given.json:
        Path(given.json).write_text(json.dumps({"page": weight, "summary": found, "runs": runs}))


if __name__ == "__main__":
    sys.exit(main())
