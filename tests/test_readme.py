"""The README: its example works as it stands, its commands exist, its links lead somewhere, and it is short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.long
def test_the_example_works_as_it_stands(fresh_python, tmp_path):
    (example,) = blocks("python")
    script = tmp_path / "example.py"
    script.write_text(example)
    done = fresh_python(script)
    assert done.returncode == 0, done.stderr
    assert re.search(r"theta\[0\] +[-−](0\.9|1\.0)", done.stdout), done.stdout
    assert "no findings in" in done.stdout


def test_every_command_exists():
    (commands,) = blocks("console")
    shown = re.findall(r"^make ([a-z-]+)", commands, re.MULTILINE) + re.findall(r"`make ([a-z-]+)`", README)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "docs"} <= set(shown) <= set(targets)
    assert all(line.startswith("make ") for line in commands.splitlines())


def test_every_link_leads_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_extras_that_are_named_exist():
    project = (ROOT / "pyproject.toml").read_text()
    for extras in re.findall(r"pip install '\.\[([a-z,]+)\]'", README):
        assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras.split(","))


def test_it_is_one_screen_and_a_half():
    assert len(README.splitlines()) <= 75
