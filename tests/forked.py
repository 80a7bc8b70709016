"""Runs pytest again and again without importing again what does not change: each run is a fork that imports stalegrad.

Reads lines of JSON, ``{"arguments": […], "output": file, "seconds": limit or null}``, and answers each with the code
that pytest returned, null if it took too long. What takes long is said by processor time, and by doing nothing for
minutes: beside other programs a test takes many times its seconds and is not at fault.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ALREADY = ("numpy", "numba", "scipy.stats", "zarr", "hypothesis", "pytest", "cloudpickle", "arviz_stats")
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # some of them are also plugins of pytest
FAILED = 3  # what pytest returns where it fails itself
WINDOW, IDLE = 120.0, 1.2  # who uses less processor time than that in such a time waits for what will not come


def main() -> None:
    """Answer until there are no more lines."""
    preload()
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(pytest(order["arguments"], order["output"], order["seconds"])), flush=True)


def preload() -> None:
    """Import what does not change; not what starts threads, which a fork does not survive."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others' plugins take most of a short run, and none is needed
    for name in ALREADY:
        importlib.import_module(name)


def pytest(
    arguments: list[str], output: str, seconds: float | None = None, first: Callable[[], None] | None = None
) -> int | None:
    """Run it in a fork: its code, None if it took too long. What it prints goes into a file.

    ``first`` is called in the fork before; the code of a SystemExit is that of pytest.
    """
    child = os.fork()
    if child == 0:
        _run(arguments, output, first)
    return _wait(child, seconds)


def _run(arguments: list[str], output: str, first: Callable[[], None] | None) -> None:
    """In the fork: never returns."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, own in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(given, own)
    sys.argv = ["pytest", *arguments]
    code = FAILED
    try:
        if first is not None:
            first()
        code = int(importlib.import_module("pytest").main([*QUIET, *arguments]))
    except SystemExit as exited:
        code = exited.code if isinstance(exited.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, seconds: float | None) -> int | None:
    looked, used = time.monotonic(), 0.0
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if seconds is not None and time.monotonic() > looked + WINDOW:
            before, used, looked = used, _processor_seconds(child), time.monotonic()
            if used > seconds or used - before < IDLE:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
        time.sleep(0.05)


def _processor_seconds(session: int) -> float:
    """What the processes of a session, and those of their children that have ended, have used of a processor."""
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
