"""What it costs to watch a run: updates a second with the live page open, over those without it.

    python benchmarks/watch_cost.py [--tasks a9a lenet] [--rounds 5] [--seconds 6]

Logistic regression on a9a by two threads, where an update takes microseconds, and LeNet on MNIST by two processes,
where a gradient takes milliseconds. Runs without and with the page take turns; what is printed is the ratio within each
pair and the median. A page that is open is a client in a process of its own that reads all events; what a browser
spends on drawing is the browser's, and not in it. Sampler, page and client take cores from the workers
like everything else here.
"""

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

import a9a_like
import images
import stalegrad as sg
from stalegrad.runs.watch import server


def tasks(names: list[str]) -> dict[str, tuple[Any, dict[str, Any], int]]:
    """Model, settings and updates of a trial run, by name."""
    found: dict[str, tuple[Any, dict[str, Any], int]] = {}
    if "a9a" in names:
        data = a9a_like.load()
        potential: Any = sg.potentials.Logistic(data.csr(), data.y, batch_size=50)
        kernel: Any = sg.SGLD(step_size=1e-6)
        found["a9a"] = potential, {"kernel": kernel, "engine": "threads", "workers": 2}, 400_000
    if "lenet" in names:
        pictures = images.load("mnist")
        potential = sg.potentials.from_torch(
            sg.networks.lenet(0),
            "categorical",
            (pictures.X, pictures.y),
            batch_size=64,
            transform=sg.networks.lenet_pixels,
        )
        kernel = sg.SGHMC(step_size=1e-6, friction=10.0)
        found["lenet"] = potential, {"kernel": kernel, "engine": "processes", "workers": 2}, 200
    return found


CLIENT = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for address in sys.stdin:
    base, _, token = address.strip().partition("/?token=")
    request = urllib.request.Request(base + "/api/events", headers={"Authorization": "Bearer " + token})
    read = 0
    try:
        with opener.open(request) as stream:
            for line in stream:
                read += len(line)
    except (OSError, ValueError):
        pass
    print(read, flush=True)
"""
"""Reads events as a browser does, until the page is gone, and says how many bytes they were; page after page."""


class Client:
    """A client in a process of its own, which has started before anything is measured."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", CLIENT]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def open(self, address: str) -> None:
        """Read this page from now on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{address}\n")
        self._process.stdin.flush()

    def read(self) -> int:
        """How many bytes it has been sent, once the page is gone."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def speed(potential: Any, settings: dict[str, Any], steps: int, client: Client | None = None) -> tuple[float, int]:
    """Updates a second by the run's own trace, after its first fifth, and the bytes that the page was sent."""
    settings = {**settings, "steps": steps, "thin": max(1, steps // 100), "progress": False}
    serve, pages = server.Page.serve, []

    def opened(*arguments: Any, **given: Any) -> Any:
        assert client is not None
        pages.append(serve(*arguments, **given))
        client.open(pages[-1].address(pages[-1].tokens.view))
        return pages[-1]

    if client is not None:
        server.Page.serve = opened  # type: ignore[method-assign,assignment]
        settings["watch"] = sg.Watch(port=0)
    try:
        run = sg.sample(potential, **settings)
    finally:
        server.Page.serve = serve  # type: ignore[method-assign]
        for page in pages:
            page.close()
    sent = client.read() if client is not None else 0
    chain = run.trace.chains[0]
    assert chain.time is not None
    first = len(chain) // 5
    return (len(chain) - first) / float(chain.time[-1] - chain.time[first]), sent


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What it costs to watch a run.")
    parser.add_argument("--tasks", nargs="+", default=["a9a", "lenet"], choices=["a9a", "lenet"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run, about (default %(default)s)")
    parser.add_argument("--json", help="file for the numbers")
    given = parser.parse_args()
    results, client = {}, Client()
    for name, (potential, settings, steps) in tasks(given.tasks).items():
        speed(potential, settings, steps)  # compiles, and imports
        trial, _ = speed(potential, settings, steps)
        steps = max(steps, int(trial * given.seconds))
        ratios, speeds, sent = [], [], 0
        for number in range(given.rounds):
            order = (False, True) if number % 2 == 0 else (True, False)
            found = {watched: speed(potential, settings, steps, client if watched else None) for watched in order}
            ratios.append(found[True][0] / found[False][0])
            speeds.append((found[False][0], found[True][0]))
            sent = found[True][1]
            print(
                f"{name}: {found[False][0]:,.1f}/s without, {found[True][0]:,.1f}/s with, ratio {ratios[-1]:.3f}",
                flush=True,
            )
        results[name] = {"ratios": ratios, "speeds": speeds, "bytes": sent}
        print(
            f"{name}: median ratio {statistics.median(ratios):.3f} over {given.rounds} pairs; "
            f"{sent:,} bytes sent in the last run"
        )
    weight = sum(len(content) for file, content in server.page_files().items() if not file.endswith(".txt"))
    print(f"the page itself: {weight:,} bytes")
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"page": weight, **results}, file)


if __name__ == "__main__":
    sys.exit(main())
