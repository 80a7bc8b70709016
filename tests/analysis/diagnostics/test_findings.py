"""What findings look like: to people, to programs, and as a sequence."""

import io
import json
from dataclasses import replace
from math import inf

import pytest
from rich.console import Console

import stalegrad as sg
from stalegrad.analysis.diagnostics import Finding, Findings, Measurement, Recommendation

HOT = Measurement("kinetic temperature", 0.4, 0.1, "the kinetic temperature is 40.0% above what it should be")
BLOWN = Measurement("step size", inf, 0.2, "a Gaussian of the same curvature would blow up")
FINE = Measurement("R-hat", 1.01, 1.05, "R-hat of parameter 3 is 1.01 over 2 chains")


@pytest.fixture
def found():
    first = Finding(BLOWN, "serious", "Too long a step.", "A shorter step.")
    second = Finding(HOT, "warning", "Too hot.", "A shorter step.")
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
    assert " ".join(line.strip() for line in lines[2:4]) == (
        "warning: kinetic temperature: the kinetic temperature is 40.0% above what it should be. Too hot. "
        "A shorter step."
    )
    assert max(map(len, lines)) <= 80
    assert str(Findings((), (FINE, HOT))) == "no findings in 2 checks"


def test_what_was_not_checked_is_named_with_its_reason(found):
    assert "not checked: gradient noise (needs the model: give potential=)" in str(found)
    together = Findings(
        (), (FINE,), {"step size": "no model", "staleness": "no staleness", "gradient noise": "no model"}
    )
    assert str(together) == (
        "no findings in 1 check\nnot checked: step size, gradient noise (no model); staleness (no staleness)"
    )


def test_the_recommendation_comes_last(found):
    advised = replace(
        found, recommendation=Recommendation({"steps": 20_000}, (sg.SGLD(step_size=1e-3),), batch_size=64)
    )
    assert str(advised).endswith(
        "What to do about all of it together:\n  make the potential with batch_size=64, then\n"
        "  sg.sample(potential, sg.SGLD(step_size=0.001), steps=20_000)"
    )
    read = json.loads(json.dumps(advised.as_dict(), allow_nan=False))["recommendation"]
    assert read["call"] == "sg.sample(potential, sg.SGLD(step_size=0.001), steps=20_000)"
    assert read["kernels"] == [{"name": "SGLD", "step_size": 0.001, "temperature": 1.0}]
    out = io.StringIO()
    Console(file=out, width=200).print(advised)
    assert "sg.sample(potential, sg.SGLD(step_size=0.001), steps=20_000)" in out.getvalue()


def test_plain_json(found):
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert read["ok"] is False
    assert read["findings"][0] == {
        "name": "step size", "figure": None, "limit": 0.2, "what": BLOWN.what, "severity": "serious",
        "why": "Too long a step.", "remedy": "A shorter step.",
    }  # fmt: skip
    assert [m["name"] for m in read["measurements"]] == ["kinetic temperature", "step size", "R-hat"]
    assert read["skipped"] == {"gradient noise": "needs the model: give potential="}


def test_rich_shows_every_check_and_then_the_remedies(found):
    out = io.StringIO()
    Console(file=out, width=200).print(found)
    text = out.getvalue()
    for part in ("R-hat", "1.01", "ok", "inf", "serious", "not checked: needs the model", "A shorter step."):
        assert part in text
    assert "\x1b" not in text
