"""Compiled code on disk, where several processes compile at the same time."""

import importlib
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import stalegrad
from stalegrad._internal.jit import compiled, is_compiled
from stalegrad.kernels.fused import LOOPS
from stalegrad.potentials.compiled import _GRADIENTS

SOURCE = Path(__file__).parents[2] / "src"


def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


def test_processes_that_do_not_know_of_each_other_never_get_each_others_code(tmp_path, monkeypatch):
    """Two caches that have read the index before either has written: the last to write it wins, and both are right."""
    files = [compiled(total)._cache._cache_file for _ in range(2)]
    for file in files:
        monkeypatch.setattr(file, "_cache_path", str(tmp_path))
        monkeypatch.setattr(file, "_index_path", str(tmp_path / file._index_name))
        monkeypatch.setattr(file, "_load_index", dict)
    for file, key in zip(files, ("for floats", "for integers"), strict=True):
        file.save(key, f"code {key}")
    monkeypatch.undo()
    reader = files[0]
    monkeypatch.setattr(reader, "_cache_path", str(tmp_path))
    monkeypatch.setattr(reader, "_index_path", str(tmp_path / reader._index_name))
    assert reader.load("for integers") == "code for integers"
    assert reader.load("for floats") is None  # forgotten, and not taken for another's
    assert len(list(tmp_path.glob("*.nbc"))) == 2


def test_what_has_been_compiled_is_known():
    """For a type that nobody has ever compiled anything for, so that no cache on disk knows it."""
    numbers = np.zeros(3, [(f"number_{uuid.uuid4().hex}", np.float64)])
    assert not is_compiled(_first, (numbers,))
    _first(numbers)
    assert is_compiled(_first, (numbers,))
    assert is_compiled(_first, (numbers[:1].copy(),))
    assert not is_compiled(_first, (numbers[::2],))
    stored = compiled(_first.py_func)  # knows only what is on disk
    assert is_compiled(stored, (numbers,))
    assert not is_compiled(stored, (numbers[::2],))


@compiled
def _first(numbers):
    return numbers[0]


class Own(NamedTuple):
    numbers: Any


def test_code_for_classes_that_others_cannot_import_is_not_kept():
    """The index of a function names them, and a process without that module could then read nothing in it."""
    own = Own(np.arange(3.0))
    assert _first_of((own, 1))[0] == 0
    assert is_compiled(_first_of, ((own, 1),))
    assert not is_compiled(compiled(_first_of.py_func), ((own, 1),))  # which knows only what is on disk
    _first_of(((np.arange(3.0),), 1))
    assert is_compiled(compiled(_first_of.py_func), (((np.arange(3.0),), 1),))


@compiled
def _first_of(pair):
    return pair[0][0]


@pytest.mark.parametrize("content", [b"", b"half of an ind"])
def test_a_damaged_index_is_as_good_as_none(content, tmp_path, monkeypatch):
    function = compiled(_first.py_func)
    index = tmp_path / "index.nbi"
    index.write_bytes(content)
    monkeypatch.setattr(function._cache._cache_file, "_index_path", str(index))
    assert not is_compiled(function, (np.zeros(2, np.float32),))
    monkeypatch.delenv("STALEGRAD_TOLD_OF_CACHE", raising=False)
    assert function(np.ones(2, np.float32)) == 1


@pytest.mark.long
class TestACacheThatFails:
    """In processes of their own: a run goes on, says so in one line, and repairs what it can."""

    @pytest.fixture
    def sums(self, fresh_python, tmp_path):
        """Runs a file with two compiled functions; returns its results, its hits and what it said."""
        file, cache = tmp_path / "sums.py", tmp_path / "cache"
        file.write_text(SUMS)

        def run(*arguments, **environment):
            inherited = {key: value for key, value in os.environ.items() if key != "STALEGRAD_TOLD_OF_CACHE"}
            environment = {"PYTHONPATH": str(SOURCE), "NUMBA_CACHE_DIR": str(cache), **environment}
            done = fresh_python(file, *arguments, cwd=tmp_path, env=inherited | environment)
            assert done.returncode == 0, done.stderr
            *results, hits = done.stdout.split()
            assert results == ["3.0", "-3.0"]
            return int(hits), done.stderr

        return run

    def test_no_folder_can_be_written_to(self, sums, tmp_path):
        (tmp_path / "__pycache__").write_text("not a folder")
        hits, said = sums(NUMBA_CACHE_DIR="", XDG_CACHE_HOME="/dev/null", HOME="/dev/null")
        assert hits == 0
        assert said.startswith("stalegrad: compiled code cannot be kept (")
        assert said.endswith("NUMBA_CACHE_DIR may name a folder with room that can be written to.\n")
        assert said.count("\n") == 1

    def test_the_folder_goes_away_meanwhile(self, sums, tmp_path):
        hits, said = sums("lost", str(tmp_path / "cache"))
        assert hits == 0
        assert said.startswith(f"stalegrad: compiled code cannot be kept in {tmp_path / 'cache'}")
        assert said.count("\n") == 1

    def test_a_full_disk(self, sums, tmp_path):
        """Every write fails, as it does on a full disk."""
        hits, said = sums("full")
        assert hits == 0
        assert said.startswith(f"stalegrad: compiled code cannot be kept in {tmp_path / 'cache'}")
        assert said.count("\n") == 1
        assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
        assert sums() == (0, "")
        assert sums() == (2, "")

    def test_damaged_files_are_made_anew(self, sums, tmp_path):
        assert sums() == (0, "")
        damages = {
            "empty": lambda content: b"",
            "truncated": lambda content: content[: len(content) // 2],
            "one bit": lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
        }
        for kind, damage in [("nbc", "empty"), ("nbc", "truncated"), ("nbc", "one bit"), ("nbi", "truncated")]:
            damaged = list((tmp_path / "cache").rglob(f"*.{kind}"))
            assert len(damaged) == 2
            for path in damaged:
                path.write_bytes(damages[damage](path.read_bytes()))
            hits, said = sums()
            assert hits == 0, damage
            assert said.startswith("stalegrad: ")
            assert said.count("\n") == 1, damage
        assert sums() == (2, "")


SUMS = """
import resource, shutil, sys
from pathlib import Path
import numpy as np
from stalegrad._internal.jit import compiled


@compiled
def plus(values):
    return values[0] + values[1]


@compiled
def minus(values):
    return -values[0] - values[1]


if "full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
if "lost" in sys.argv:
    shutil.rmtree(sys.argv[2])
    Path(sys.argv[2]).write_text("not a folder")
values = np.array([1.0, 2.0])
print(plus(values), minus(values), sum(f.stats.cache_hits[s] for f in (plus, minus) for s in f.stats.cache_hits))
"""


def test_a_function_of_no_file_is_compiled_all_the_same():
    names = {}
    exec("def twice(x):\n    return 2 * x", names)
    assert compiled(names["twice"])(3) == 6


@pytest.mark.long
def test_what_one_process_compiled_for_a_kernel_another_loads(fresh_python, tmp_path):
    """Of a kernel in a user's own file, whose loop is made of source text: from disk, unless the formula changed."""
    file = tmp_path / "own_kernel.py"
    file.write_text(KERNEL.replace("THETA", "theta - h * g + sigma * z"))
    first, second = (fresh_python(file, cwd=tmp_path).stdout.split() for _ in range(2))
    assert (first[0], second[0]) == ("0", "1")  # hits
    assert first[1:] == second[1:]
    file.write_text(KERNEL.replace("THETA", "theta - 2 * h * g + sigma * z"))
    changed = fresh_python(file, cwd=tmp_path).stdout.split()
    assert changed[0] == "0"
    assert changed[1:] != first[1:]


KERNEL = """
from dataclasses import dataclass
from typing import Any, NamedTuple
import numpy as np
from stalegrad.kernels import Address, Kernel, Update
from stalegrad.kernels.fused import LOOPS


def formula(theta, g, z, h, sigma):
    return THETA


class State(NamedTuple):
    position: Any


@dataclass(frozen=True, kw_only=True)
class Own(Kernel):
    updates = Update(State, formula)

    def start(self, position, address):
        return State(position)

    def coefficients(self, h, h_next):
        return h, h


kernel = Own(step_size=0.1)
state = kernel.start(np.ones((1, 3)), Address(1, 0, 0))
kernel.advance(state, np.ones((1, 3)), np.array(kernel.coefficients(0.1, 0.1)), Address(1, 0, 0))
print(sum(LOOPS[State].fused.stats.cache_hits.values()), *state.position[0])
"""


def test_the_cache_of_the_tests_is_named_after_every_file_with_code_that_others_absorb(compiled_files):
    """Of the folders that hold such code: a file that is not among them could be changed, and old code would run."""
    root = Path(stalegrad.__file__).parent
    functions = set()
    for folder in ("_internal", "kernels/noise", "kernels/samplers", "potentials/glm", "potentials/minibatches",
                   "potentials/wrappers", "protocol", "protocol/architectures", "engines/simulation"):  # fmt: skip
        for path in (root / folder).glob("[!_]*.py"):
            module = importlib.import_module(".".join(("stalegrad", *path.relative_to(root).with_suffix("").parts)))
            functions |= {value.py_func for value in vars(module).values() if isinstance(value, Dispatcher)}
    functions |= {loop.update.formula for loop in LOOPS.values()}
    functions |= {getattr(function, "py_func", function) for function in _GRADIENTS.values()}
    files = {Path(function.__code__.co_filename) for function in functions}
    own = {path for path in files if path.is_relative_to(root)}
    assert {path.name for path in own} >= {"philox.py", "tiles.py", "sgld.py", "gaussian.py", "draws.py", "block.py"}
    assert own - compiled_files == set()
