"""Files that are written as a whole or not at all."""

import json
import os

import pytest

from stalegrad._internal import files
from stalegrad._internal.numbers_file import write_numbers


def test_numbers_are_written_to_a_new_folder_and_what_json_does_not_know_is_null(tmp_path):
    path = tmp_path / "new" / "numbers.json"
    write_numbers(path, {"a": [1.5, float("nan")], "b": {"c": float("-inf"), "d": "φ"}, "e": (1, None, True)})
    assert json.loads(path.read_text()) == {"a": [1.5, None], "b": {"c": None, "d": "φ"}, "e": [1, None, True]}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write_numbers(tmp_path / "numbers.json", [1])

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(tmp_path / "numbers.json", b"other", "numbers")
    assert os.listdir(tmp_path) == ["numbers.json"]
    assert json.loads((tmp_path / "numbers.json").read_text()) == [1]


@pytest.fixture
def calls(monkeypatch):
    """What is synchronised, renamed and made, in order: (what, path)."""
    noted = []
    real = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "mkdir")}

    def fsync(descriptor):
        noted.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        real["fsync"](descriptor)

    def noting(name):
        def call(*arguments, **options):
            real[name](*arguments, **options)
            noted.append((name, str(arguments[-1] if name != "mkdir" else arguments[0])))

        return call

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("replace", "rename", "mkdir"):
        monkeypatch.setattr(os, name, noting(name))
    return noted


def test_a_file_is_synchronised_before_it_is_renamed_and_its_folder_after(tmp_path, calls):
    files.write(tmp_path / "a", b"content", "a")
    (first, temporary), *rest = calls
    assert first == "fsync"
    assert temporary.startswith(f"{tmp_path}/a.")
    assert rest == [("replace", str(tmp_path / "a")), ("fsync", str(tmp_path))]


def test_a_new_folder_is_synchronised_in_the_one_above_it(tmp_path, calls):
    files.make_folder(tmp_path / "a" / "b")
    made = [("mkdir", str(tmp_path / "a")), ("fsync", str(tmp_path))]
    made += [("mkdir", str(tmp_path / "a" / "b")), ("fsync", str(tmp_path / "a"))]
    assert calls == made
    files.make_folder(tmp_path / "a" / "b")
    assert calls == made


def test_half_a_character_comes_back_from_json(tmp_path):
    """Names of files that are no UTF-8 have some, and they get into messages."""
    files.write_json(tmp_path / "x.json", {"failure": "caf\udce9 é"}, "x")
    assert files.read_json(tmp_path / "x.json") == {"failure": "caf\udce9 é"}
