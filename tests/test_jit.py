"""Compiled code on disk, where several processes compile at the same time."""

from stalegrad.jit import compiled


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
