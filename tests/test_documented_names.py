"""Every name of the package that documents and docstrings mention exists."""

import ast
import importlib
import re
from pathlib import Path

import pytest
import typer

from stalegrad import cli

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "stalegrad").rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAME = re.compile(r"(?<![\w./-])((?:stalegrad|sg)(?:\.[A-Za-z_]\w*)+)")


def strings(source):
    """Docstrings, those below attributes too, and comments."""
    text = source.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    yield from re.findall(r"#.*", text)


def mentions(paths, texts):
    for path in paths:
        for text in texts(path):
            for name in NAME.findall(text):
                yield str(path.relative_to(ROOT)), re.sub(r"^sg\b", "stalegrad", name)


def resolves(name):
    """Whether some part of the name is a module that has the rest; a function may have the name of its module."""
    parts = name.split(".")
    return any(has(".".join(parts[:length]), parts[length:]) for length in range(len(parts), 0, -1))


def has(module, attributes):
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    for attribute in attributes:
        if attribute in getattr(found, "__annotations__", {}):
            return True  # a field, perhaps without a default
        if not hasattr(found, attribute):
            return False
        found = getattr(found, attribute)
    return True


@pytest.mark.parametrize(
    ("paths", "texts"),
    [(DOCUMENTS, lambda path: [path.read_text()]), (SOURCES, strings)],
    ids=["documents", "docstrings"],
)
def test_every_name_that_is_mentioned_exists(paths, texts):
    found = set(mentions(paths, texts))
    assert len(found) > 50
    assert sorted(mention for mention in found if not resolves(mention[1])) == []


def code_of(document):
    """Its fenced blocks, its indented lines and what stands between backquotes."""
    text = document.read_text()
    return "\n".join(re.findall(r"(?s:```.*?```)|(?m:^ {4}.*$)|`stalegrad [^`]+`", re.sub(r"\s# .*", "", text)))


def test_every_command_and_option_that_is_shown_exists():
    shown = [
        found
        for document in DOCUMENTS
        for found in re.findall(r"(?<!import )(?<!from )(?<![\w/.'-])stalegrad (\w+)([^`'\n#]*)", code_of(document))
    ]
    assert len(shown) > 20
    commands = typer.main.get_command(cli.app).commands
    for name, rest in shown:
        options = {option for parameter in commands[name].params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= options, (name, rest)


def test_every_file_that_is_mentioned_exists():
    pattern = re.compile(r"(?<![\w/])(?:src|tests|benchmarks|examples|docs)/[\w/-]+(?:\.\w+)?")
    texts = {document: [document.read_text()] for document in DOCUMENTS if document.name != "architecture.md"}
    texts |= {source: strings(source) for source in SOURCES}
    for place, mentioned in texts.items():
        for path in pattern.findall("\n".join(mentioned)):
            assert (ROOT / path).exists() or (place.parent / path).exists(), (place.name, path)
