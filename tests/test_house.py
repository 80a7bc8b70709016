"""The tree is the map: few entries at the top, folders that say what lives in them, contracts that are declared."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "stalegrad"
PYTHONS_OWN = {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}
MOST_ENTRIES = 14
LEAST_WORDS = 20

PROBED = {
    "X": "data sets of other libraries",
    "y": "data sets of other libraries",
    "_cache_file": "numba's caches, of which some have no file",
    "_reload_init": "newer versions of numba",
    "config": "tools for metrics that a user logs to",
    "dtype": "what a user gave in place of an array, for the error",
    "enable_x64": "newer versions of JAX",
    "instance_class": "numba's types of named tuples",
    "last_value": "Python's note of an uncaught exception",
    "logits": "what a user's module gives, such as a transformer of another library",
    "loss": "what a user's module gives, such as a transformer of another library",
    "log": "what a user gave in place of a tool for metrics, for the error",
    "mallopt": "C libraries other than GNU's",
    "memfd_create": "systems other than Linux",
    "metric": "any kernel of a user that takes natural gradients, in the conformance suite alone",
    "momentum": "a state's fields, which a kernel is free to have",
    "point": "a state's fields, which a kernel is free to have",
    "sched_getaffinity": "systems other than Linux",
    "shape": "what a user's function returned in place of an array, for the error",
    "tocsr": "SciPy's sparse matrices",
    "update": "tools for metrics that a user logs to",
    "val": "constants in JAX's equations, whose class has another place in every version",
}
"""Attributes that code may look for, and what may lack them. Those of Python itself, with two underscores, are free."""


def folders(root):
    return [path for path in root.rglob("*") if path.is_dir() and any(path.rglob("*.py"))]


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


def calls(tree, *names):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def test_few_entries_at_the_top():
    entries = {path.name for path in SOURCE.iterdir() if path.suffix in {".py", ".pyi", ".typed"}}
    entries |= {path.name for path in folders(SOURCE) if path.parent == SOURCE}
    assert len(entries - PYTHONS_OWN) <= MOST_ENTRIES, sorted(entries)


def test_every_folder_says_what_lives_in_it():
    silent = []
    for folder in [SOURCE, *folders(SOURCE)]:
        entry = folder / "__init__.py"
        docstring = ast.get_docstring(ast.parse(entry.read_text())) if entry.exists() else None
        if len((docstring or "").split()) < LEAST_WORDS:
            silent.append(folder.relative_to(SOURCE).as_posix())
    assert silent == []


def test_the_tests_mirror_the_tree():
    tests = {path.name for path in folders(ROOT / "tests") if path.parent == ROOT / "tests"}
    source = {path.name for path in folders(SOURCE) if path.parent == SOURCE}
    assert tests <= source | {"bad_input", "benchmarks", "browser", "examples", "mutations", "soak", "statistics"}


def kernel_classes():
    """The file of every class below ``Kernel``."""
    classes = [
        (node.name, place, {ast.unparse(base) for base in node.bases})
        for place, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    found = {"Kernel": "kernels/base.py"}
    while new := {name: place for name, place, bases in classes if bases & found.keys() and name not in found}:
        found |= new
    return found


def test_no_code_asks_which_kernel_it_has():
    """Kernels declare what others need to know of them; a user's kernel declares the same. ``Kernel`` itself is what
    arguments are checked against."""
    kernels = kernel_classes()
    assert {"SGLD", "SGHMC", "Push"} <= kernels.keys()
    del kernels["Kernel"]
    asking = [
        f"{place}:{call.lineno} {ast.unparse(call)}"
        for place, tree in modules()
        for call in calls(tree, "isinstance", "issubclass")
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name | ast.Attribute)
        and kernels.get(name.id if isinstance(name, ast.Name) else name.attr, place) != place
    ]
    assert asking == []


def test_contracts_are_declared_and_not_probed():
    """What an engine, a potential, a recorder or a kernel may have has a default in its base class."""
    probed = {
        call.args[1].value: f"{place}:{call.lineno}"
        for place, tree in modules()
        for call in calls(tree, "hasattr", "getattr")
        if isinstance(call.args[1], ast.Constant) and (call.func.id == "hasattr" or len(call.args) == 3)
    }
    own = {name: place for name, place in probed.items() if not name.startswith("__")}
    assert {name: place for name, place in own.items() if name not in PROBED} == {}
    assert PROBED.keys() <= own.keys(), "remove what is no longer looked for"
