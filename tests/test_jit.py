"""Compiled code on disk, where several processes compile at the same time."""

import uuid

import numpy as np

from stalegrad.jit import compiled, is_compiled


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
