"""Write the constraints of `make test-lowest`: the lowest version of every dependency that pyproject.toml allows.

    python tests/lowest.py GROUP …

The dependencies are those of the package and of the optional groups that are named. Groups for examples and the site
want newer versions of what they share with others, and are left out. Of what two groups ask for, the higher of the two
lowest versions counts. torch stays where constraints.txt has it: any other version brings gigabytes of CUDA libraries.
Tools that check the source are not installed at all.
"""

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AS_PINNED = ("torch",)
_AT_LEAST = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)")


def lowest(project, groups):
    """The lowest version of each package by name, from the table [project] of pyproject.toml and groups of it."""
    versions = {}
    for requirement in chain(project["dependencies"], *(project["optional-dependencies"][group] for group in groups)):
        if match := _AT_LEAST.match(requirement):
            name, version = match.groups()
            versions[name] = max(versions.get(name, "0"), version, key=lambda v: tuple(map(int, v.split("."))))
    return versions


def constraints(groups):
    """The lines of a constraints file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    versions = lowest(project, groups) | {name: pinned[name] for name in AS_PINNED}
    return [f"{name}=={version}" for name, version in sorted(versions.items())]


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints(sys.argv[1:])) + "\n")
