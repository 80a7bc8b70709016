"""Verdicts on defects are kept from one run to the next, and known for what they are when the code has changed."""

import json
from dataclasses import replace

import pytest

from .defects import Defect
from .verdicts import Verdicts

DEFECT = Defect(area="protocol", file="a.py", before="1", after="2", harm="", tests=("tests/test_a.py",))
CAUGHT = {"outcome": "caught", "by": "tests/test_a.py::test_a", "seconds": 3.0, "stages": 0, "quickly": True}


@pytest.fixture
def tree(tmp_path):
    for name in ("src/stalegrad/a.py", "src/stalegrad/b.py", "tests/test_a.py", "tests/test_b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def verdicts(tree, **options):
    return Verdicts(tree / "verdicts.json", tree, **options)


def test_a_verdict_is_there_in_the_next_run_on_a_line_of_its_own(tree):
    first = verdicts(tree)
    first.put(DEFECT, CAUGHT)
    first.put(replace(DEFECT, number=2), {"outcome": "survived", "by": "", "stages": 2})
    again = verdicts(tree)
    assert again.of(DEFECT)["by"] == "tests/test_a.py::test_a"
    assert again.is_settled(DEFECT)
    assert again.outcome(replace(DEFECT, number=2)) == "survived"
    assert not again.is_settled(replace(DEFECT, number=2))
    lines = (tree / "verdicts.json").read_text().splitlines()
    assert [line.startswith('"a#') for line in lines] == [False, True, True, False]
    assert "seconds" not in json.loads((tree / "verdicts.json").read_text())["a#1"]  # they differ every time


def test_a_verdict_on_another_change_is_none(tree):
    verdicts(tree).put(DEFECT, CAUGHT)
    assert verdicts(tree).outcome(replace(DEFECT, after="3")) == "not tried"
    assert verdicts(tree, fresh=True).outcome(DEFECT) == "not tried"


@pytest.mark.parametrize(
    ("changed", "older"),
    [
        ("src/stalegrad/a.py", True),
        ("tests/test_a.py", True),
        ("src/stalegrad/b.py", False),
        ("tests/test_b.py", False),
    ],
)
def test_a_verdict_is_of_older_code_once_its_file_or_its_test_has_changed(tree, changed, older):
    verdicts(tree).put(DEFECT, CAUGHT)
    (tree / changed).write_text("x = 2\n")
    assert verdicts(tree).is_older(DEFECT) is older
    assert verdicts(tree).is_settled(DEFECT) is not older


def test_what_is_begun_goes_on_where_it_was_and_is_no_verdict(tree):
    verdicts(tree).put(DEFECT, {"outcome": "not tried", "by": "", "stages": 1})
    assert verdicts(tree).stages(DEFECT) == 1
    assert not verdicts(tree).is_older(DEFECT)
    assert verdicts(tree).outcome(DEFECT) == "not tried"
