"""Hours of faults, on every engine by turns.

In a turn, run after run is killed, stopped, slowed and starved of disk by a seeded plan (:mod:`tests.soak.plan`),
resumed where that ends it, and held against what is promised: every update made, no gradient applied twice, no draw
lost, a replay with the same bits, nothing that grows and nothing left behind. The table in the end says how it went.
The exit status is 1 if a promise was broken, with the evidence kept, and 130 after Ctrl-C.
"""

import argparse
import json
import math
import shutil
import signal
import tempfile
import time
from pathlib import Path

from .children import Children
from .disk import Disk
from .plan import KINDS
from .tally import Tally, as_json, broken, table
from .turn import Turn

LONGEST_TURN = 240.0  # seconds
SHORTEST_TURN = 5.0


def arguments(given: list[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Hours of faults, on every engine.")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long, about: the last run is let through")
    parser.add_argument("--seed", type=int, default=0, help="of the plan of faults")
    parser.add_argument("--engines", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--runs", type=int, help="one turn of so many each, however long it takes")
    parser.add_argument("--out", type=Path, default=Path("soak-output"), help="for table.txt, soak.json and evidence/")
    return parser.parse_args(given)


def turns(minutes: float, engines: list[str]) -> list[str]:
    """Whose turns there are, in order: each engine has as many as the others, none much longer than four minutes."""
    return engines * max(1, round(60 * minutes / len(engines) / LONGEST_TURN))


def soak(asked: argparse.Namespace, folder: Path, tallies: dict[str, Tally], private: bool) -> None:
    """All turns. What one takes longer is taken from those to come."""
    disk, children = Disk(folder, private), Children()
    print(f"full disk: {disk.how}", flush=True)
    order, deadline = turns(asked.minutes, asked.engines), time.monotonic() + 60 * asked.minutes
    if asked.runs is not None:
        order, deadline = asked.engines, math.inf
    try:
        for number, engine in enumerate(order):
            seconds = max(SHORTEST_TURN, (deadline - time.monotonic()) / (len(order) - number))
            place = folder / f"{number}"
            place.mkdir()
            print(f"turn {number + 1} of {len(order)}: {engine}", flush=True)
            evidence = asked.out / "evidence"
            Turn(engine, number, asked.seed, place, evidence, children, disk, private, tallies[engine]).run(
                seconds, asked.runs
            )
            shutil.rmtree(place, ignore_errors=True)
    finally:
        children.end()
        disk.close()


def run(given: list[str], private: bool) -> int:
    """The program; its exit status."""
    asked = arguments(given)
    asked.out = asked.out.absolute()
    shutil.rmtree(asked.out / "evidence", ignore_errors=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # also in the background, where shells have Ctrl-C ignored
        signal.signal(number, signal.default_int_handler)
    tallies, began, interrupted = {engine: Tally() for engine in asked.engines}, time.monotonic(), False
    folder = Path(tempfile.mkdtemp(prefix="sgs-"))  # a short name: Ray's sockets are in it
    try:
        soak(asked, folder, tallies, private)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes, text, problems = (time.monotonic() - began) / 60, table(tallies), broken(tallies)
    about = {"minutes": minutes, "seed": asked.seed, "interrupted": interrupted, "own mounts": private}
    (asked.out / "soak.json").write_text(json.dumps(as_json(tallies, broken=problems, **about), indent=1))
    (asked.out / "table.txt").write_text(text + "\n")
    print(f"\n{text}\n\n{minutes:.1f} minutes{', interrupted' if interrupted else ''}, seed {asked.seed}", flush=True)
    for problem in problems:
        print(f"broken: {problem}", flush=True)
    return 1 if problems else 130 if interrupted else 0
