"""Compiled code for the tests: one folder per state of the source.

numba keeps compiled loops on disk and looks at nothing but the time of their own file, so an edit of a function that
others absorb would leave old code behind. A folder named after the source rules that out. The source that counts is
every file with compiled code, or with functions that it hands to those who compile them, and whatever it imports.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
CACHES = ROOT / ".numba_cache"
COMPILES = re.compile(r"(numba|stalegrad\._internal\.jit|stalegrad\.kernels\.fused|stalegrad\.potentials\.compiled)\b")
IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))", re.MULTILINE)
NAMES = re.compile(r"[\w.]+")
WEEK = 7 * 24 * 3600.0

# The same examples every time, and no opinion on how long they take: a busy machine is no defect.
hypothesis.settings.register_profile(
    "stalegrad",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("stalegrad")


def _source_folder():
    """The folder of the source as it is now. Those of other states go once nobody has used them for a week."""
    digest = hashlib.sha256(metadata.version("numba").encode())  # another version keeps other code
    for path in sorted(_compiled_files()):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    folder = CACHES / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    for other in CACHES.iterdir():
        try:
            unused = time.time() - other.stat().st_mtime
        except FileNotFoundError:  # another process was quicker
            continue
        if unused > WEEK:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _compiled_files():
    """Files that import what compiles functions, and all of stalegrad that they import, directly or not."""
    imports, names = _modules()
    found, todo = set(), [path for path in imports if any(COMPILES.match(name) for name in imports[path])]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [names[name] for name in imports[path] & names.keys()]
    return found


def _modules():
    """The names that each file of the source imports, and the file of each name of a module."""
    source = ROOT / "src"
    imports = {path: set(_imports(path)) for path in source.rglob("*.py")}
    files = {path: path.relative_to(source).with_suffix("").parts for path in imports}
    names = {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in files.items()}
    del names["stalegrad"]  # the root gathers all modules and no compiled function needs it
    return imports, names


def _imports(path):
    """The names that a file imports, and those inside of them: read off its text, which is faster than parsing it."""
    for module, names, modules in IMPORTS.findall(path.read_text()):
        yield from (
            (module, *(f"{module}.{name}" for name in NAMES.findall(names))) if module else NAMES.findall(modules)
        )


# Now and not in a hook: the next conftest.py may import stalegrad, whose functions take it over as they are defined.
_folder = str(_source_folder())
if "stalegrad" in sys.modules and os.environ.get("NUMBA_CACHE_DIR") != _folder:
    raise pytest.UsageError("stalegrad was imported before tests/conftest.py could say where its cache is")
os.environ["NUMBA_CACHE_DIR"] = _folder
if "numba" in sys.modules:  # numba has read it already
    sys.modules["numba"].config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]


@pytest.fixture(scope="session")
def compiled_files():
    """The files whose source names the folder of compiled code."""
    return _compiled_files()


def pytest_sessionfinish():
    """End MPI where a test has started it.

    A test process may be ended before Python ends it, and what MPI has in /dev/shm would stay there.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()


@pytest.fixture(scope="session")
def fresh_python():
    """Runs a new interpreter that imports the same stalegrad, wherever it is started; returns the finished process."""

    def run(*arguments, **options):
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120"}
        options = {"env": environment, "capture_output": True, "text": True, "timeout": 300, **options}
        return subprocess.run([sys.executable, *map(str, arguments)], **options)

    return run


@pytest.fixture(scope="session")
def compiled():
    """Compile here what processes of tests need, once, rather than in all of them at the same time."""
    import stalegrad as sg  # not before: numba must know where its cache is
    from stalegrad.testing import KERNELS, small_model

    with (Path(os.environ["NUMBA_CACHE_DIR"]) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes that come second load what the first has compiled
        for kernel in KERNELS:
            run = sg.sample(small_model(), kernel, steps=4, engine="threads", progress=False)
            sg.replay(run.trace, small_model(), kernel)
        small_model().full_gradient(small_model().initial())  # as models around it call it
