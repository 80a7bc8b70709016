"""What findings look like: to people, to programs, and as a sequence."""

import io
import json
from math import inf

import pytest
from rich.console import Console

from stalegrad.analysis.diagnostics import Finding, Findings, Measurement

HOT = Measurement("kinetic temperature", 0.4, 0.1, "the kinetic temperature is 40.0% above what it should be")
BLOWN = Measurement("step size", inf, 0.2, "a Gaussian of the same curvature would blow up")
FINE = Measurement("R-hat", 1.01, 1.05, "R-hat of parameter 3 is 1.01 over 2 chains")


@pytest.fixture
def found():
    first = Finding(BLOWN, "serious", "Too long a step.", "Set step_size=0.1.")
    second = Finding(HOT, "warning", "Too hot.", "Set step_size=0.2.")
    return Findings((first, second), (HOT, BLOWN, FINE), {"gradient noise": "needs the model: give potential="})


def test_a_sequence(found):
    assert len(found) == 2
    assert not found.ok
    assert [finding.name for finding in found] == list(found.names) == ["step size", "kinetic temperature"]
    assert found[-1].figure == 0.4
    assert found[:1] == (found[0],)
    assert Findings((), (FINE,)).ok
    assert not Findings((), (FINE,))


def test_text_names_figure_reason_and_remedy(found):
    lines = str(found).splitlines()
    assert lines[0].startswith("serious: step size: a Gaussian")
    assert lines[1] == (
        "warning: kinetic temperature: the kinetic temperature is 40.0% above what it should be. Too hot. "
        "Set step_size=0.2."
    )
    assert str(Findings((), (FINE, HOT))) == "no findings in 2 checks"


def test_plain_json(found):
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert read["ok"] is False
    assert read["findings"][0] == {
        "name": "step size", "figure": None, "limit": 0.2, "what": BLOWN.what, "severity": "serious",
        "why": "Too long a step.", "remedy": "Set step_size=0.1.",
    }  # fmt: skip
    assert [m["name"] for m in read["measurements"]] == ["kinetic temperature", "step size", "R-hat"]
    assert read["skipped"] == {"gradient noise": "needs the model: give potential="}


def test_rich_shows_every_check_and_then_the_remedies(found):
    out = io.StringIO()
    Console(file=out, width=200).print(found)
    text = out.getvalue()
    for part in ("R-hat", "1.01", "ok", "inf", "serious", "not checked: needs the model", "Set step_size=0.2."):
        assert part in text
    assert "\x1b" not in text
