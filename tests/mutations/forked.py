"""Runs pytest again and again without importing again what does not change: each run is a fork that imports stalegrad.

Reads lines of JSON, ``{"arguments": […], "output": file, "seconds": limit or null}``, and answers each with the code
that pytest returned, null if it took too long.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback

ALREADY = ("numpy", "numba", "scipy.stats", "zarr", "hypothesis", "pytest", "cloudpickle", "arviz_stats")
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # some of them are also plugins of pytest
FAILED = 3  # what pytest returns where it fails itself


def main() -> None:
    """Answer until there are no more lines."""
    for name in ALREADY:
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(order["arguments"], order["output"])
        print(json.dumps(_wait(child, order["seconds"])), flush=True)


def _run(arguments: list[str], output: str) -> None:
    """In the fork: never returns."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, own in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(given, own)
    sys.argv = ["pytest", *arguments]
    code = FAILED
    try:
        code = int(importlib.import_module("pytest").main([*QUIET, *arguments]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, seconds: float | None) -> int | None:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if deadline is not None and time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.05)


if __name__ == "__main__":
    main()
