"""Runs every file of tests alone, in a process of its own, with its tests in random order: none may need another.

    python -m tests.alone [--order SEED] [--long] [--minutes M] [--again FILE] [file or folder …]

A process is a fork of one that has imported NumPy, numba and the like, but nothing of stalegrad, JAX or torch. With
``--again`` the files that pass are noted, and passed over the next time, so that a run can be made in parts.

As a plugin of pytest, ``-p tests.alone --order SEED``, it shuffles the tests of any run.
"""

import argparse
import math
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests import forked

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
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.alone", f"--order={order}", *marked]
    with tempfile.NamedTemporaryFile() as output:
        code = forked.pytest([*options, file], output.name)
        printed = Path(output.name).read_text(errors="replace")
    return code in (0, NOTHING_RUN), time.monotonic() - begun, printed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=1, help="the seed of the order")
    parser.add_argument("--long", action="store_true", help="the tests of `make test-long` in place of the others")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no other file is begun")
    parser.add_argument("--again", type=Path, help="where files that pass are noted, and not run once more")
    parser.add_argument("places", nargs="*", default=["tests"], help="files or folders")
    options = parser.parse_args()
    places = [ROOT / place for place in options.places]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))]
    files = [
        str(f.relative_to(ROOT))
        for f in files
        if not {"clusters", "browser"} & set(f.parts) or options.places != ["tests"]
    ]
    passed = set(options.again.read_text().split()) if options.again and options.again.exists() else set()
    left = [file for file in files if file not in passed]
    os.chdir(ROOT)
    forked.preload()
    bad, end = [], time.monotonic() + 60 * options.minutes
    while left and time.monotonic() < end:
        file = left.pop(0)
        good, seconds, output = run(file, options.order, options.long)
        shown = f"[{len(files) - len(left):3}/{len(files)}] {'passed' if good else 'FAILED'} {seconds:6.1f} s  {file}"
        print(shown, flush=True)
        if good:
            passed.add(file)
            if options.again:
                options.again.write_text("\n".join(sorted(passed)) + "\n")
        else:
            bad.append(file)
            print(output[-3000:], flush=True)
    print(f"{len(passed.intersection(files))} of {len(files)} files pass alone in random order", *bad, sep="\n  ")
    if left:
        print(f"{len(left)} are still to be tried")
    sys.exit(bool(bad or left))


if __name__ == "__main__":
    main()
