"""Every public name of the package has a docstring that says something its name does not."""

import ast
import inspect
import re
from pathlib import Path

import stalegrad

SOURCE = Path(__file__).parents[1] / "src" / "stalegrad"
LEAST_WORDS = 5


def public(name):
    return not name.startswith("_")


def documented(node, path):
    """(name, node) of a module and of all that is public in it; methods that override inherit their docstrings."""
    yield path, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and public(child.name):
            decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in child.decorator_list}
            if decorators & {"override", "overload", "setter"}:
                continue
            if isinstance(child, ast.ClassDef):
                yield from documented(child, f"{path}.{child.name}")
            else:
                yield f"{path}.{child.name}", child


def words(text):
    return re.findall(r"[\w'’-]*\w[\w'’-]*", text)


def poor(name, docstring):
    """Whether a docstring is missing, has fewer than five words, or only the words of the name."""
    said = [word.lower() for word in words(docstring)]
    spoken = set(re.findall(r"[a-z0-9]+", re.sub(r"([A-Z])", r" \1", name.rpartition(".")[2]).lower()))
    return len(said) < LEAST_WORDS or not set(said) - spoken - {"a", "an", "the", "of", "is", "it", "to"}


def test_every_public_docstring_says_something():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        parts = [part for part in place.removesuffix(".py").split("/") if part != "__init__"]
        if not all(map(public, parts)):
            continue
        for name, node in documented(ast.parse(path.read_text()), ".".join(["stalegrad", *parts])):
            if poor(name, ast.get_docstring(node) or ""):
                found.append(f"{name}: {ast.get_docstring(node)}")
    assert found == []


def test_every_name_of_the_package_has_an_example_that_runs():
    """Doctests are run with the tests; here it is seen that each public name has one."""
    without = [
        name
        for name in stalegrad.__all__
        if not inspect.ismodule(value := getattr(stalegrad, name)) and ">>>" not in (value.__doc__ or "")
    ]
    assert without == []
