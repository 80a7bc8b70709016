"""Compiled code for the tests: one folder per state of the source.

numba keeps compiled loops on disk and looks at nothing but the time of their own file, so an edit of a function that
others absorb would leave old code behind. A folder named after the source rules that out. The source that counts is
every file with compiled code and whatever it imports.
"""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CACHES = ROOT / ".numba_cache"
WEEK = 7 * 24 * 3600.0


def _source_folder():
    """The folder of the source as it is now. Those of other states go once nobody has used them for a week."""
    digest = hashlib.sha256()
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
    """Files that import numba or stalegrad.jit, and all of stalegrad that they import, directly or not."""
    source = ROOT / "src"
    imports = {path: set(_imports(path)) for path in source.rglob("*.py")}
    files = {path: path.relative_to(source).with_suffix("").parts for path in imports}
    names = {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in files.items()}
    del names["stalegrad"]  # the root gathers all modules and no compiled function needs it
    found, todo = (
        set(),
        [path for path in imports if any(re.match(r"numba\b|stalegrad\.jit\b", n) for n in imports[path])],
    )
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [names[name] for name in imports[path] & names.keys()]
    return found


def _imports(path):
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))


# Now and not in a hook: the next conftest.py may import stalegrad, and with it numba, which reads this once.
if "numba" in sys.modules:
    raise pytest.UsageError("numba was imported before tests/conftest.py could say where its cache is")
os.environ["NUMBA_CACHE_DIR"] = str(_source_folder())


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

    for kernel in (*KERNELS, sg.SGHMC(step_size=0.02, friction=5.0)):
        run = sg.sample(small_model(), kernel, steps=4, engine="threads", progress=False)
        sg.replay(run.trace, small_model(), kernel)
    small_model().full_gradient(small_model().initial())  # as models around it call it
