"""What numba has compiled beside a defect is kept for the next one only where the defect cannot be in it."""

from pathlib import Path

from .run import compiled_of, importers, keep_compiled

FILES = {name: Path(name) for name in ("a", "b", "c", "d")}


def test_who_imports_a_file_directly_or_not():
    """b imports a, and c imports b; what others import is not there."""
    imports = {FILES["a"]: {"numpy"}, FILES["b"]: {"a"}, FILES["c"]: {"b", "math"}, FILES["d"]: {"elsewhere"}}
    assert importers(imports, FILES, FILES["a"]) == {FILES["a"], FILES["b"], FILES["c"]}
    assert importers(imports, FILES, FILES["c"]) == {FILES["c"]}


def test_files_that_import_each_other_come_to_an_end():
    imports = {FILES["a"]: {"b"}, FILES["b"]: {"a"}}
    assert importers(imports, FILES, FILES["a"]) == {FILES["a"], FILES["b"]}


def test_code_of_suspect_modules_is_neither_taken_nor_kept(tmp_path):
    names = ["block.f-1.py311.nbi", "block.f-1.py311.1.nbc", "blocks.g-2.py311.nbi", "block.txt"]
    assert compiled_of({"block"}, "", names) == names[:2]
    changed, sound = tmp_path / "changed", tmp_path / "sound"
    (changed / "protocol_1").mkdir(parents=True)
    sound.mkdir()
    for name in names:
        (changed / "protocol_1" / name).write_text(name)
    keep_compiled(changed, sound, {"block"})
    assert [path.name for path in sound.rglob("*") if path.is_file()] == ["blocks.g-2.py311.nbi"]
