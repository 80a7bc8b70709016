"""Runs every file of tests alone, in a process of its own, with its tests in random order: none may need another.

    python -m tests.alone [--order SEED] [--long] [file or folder …]

As a plugin of pytest, ``-p tests.alone --order SEED``, it shuffles the tests of any run.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTHING_RUN = 5


def pytest_addoption(parser):
    parser.addoption("--order", type=int, help="the seed of the order in which the tests run")


def pytest_collection_modifyitems(config, items):
    if config.getoption("order") is not None:
        random.Random(config.getoption("order")).shuffle(items)


def run(file, order, long):
    """Whether it passes, how long it took and what was printed."""
    begun = time.monotonic()
    marked = ["-m", "long" if long else "not long"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.alone", f"--order={order}"]
    done = subprocess.run([*command, *marked, file], cwd=ROOT, capture_output=True, text=True)
    return done.returncode in (0, NOTHING_RUN), time.monotonic() - begun, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=1, help="the seed of the order")
    parser.add_argument("--long", action="store_true", help="the tests of `make test-long` in place of the others")
    parser.add_argument("places", nargs="*", default=["tests"], help="files or folders")
    options = parser.parse_args()
    places = [ROOT / place for place in options.places]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))]
    files = [
        str(f.relative_to(ROOT))
        for f in files
        if not {"clusters", "browser"} & set(f.parts) or options.places != ["tests"]
    ]
    os.nice(10)
    bad = []
    for number, file in enumerate(files, 1):
        good, seconds, output = run(file, options.order, options.long)
        print(f"[{number:3}/{len(files)}] {'passed' if good else 'FAILED'} {seconds:6.1f} s  {file}", flush=True)
        if not good:
            bad.append(file)
            print(output[-3000:], flush=True)
    print(f"{len(files) - len(bad)} of {len(files)} files pass alone in random order", *bad, sep="\n  ")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
