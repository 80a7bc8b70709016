"""The examples run as they stand, and show what they say they show."""

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def output_of(fresh_python):
    def run(name):
        done = fresh_python(EXAMPLES / name)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_no_example_is_left_out():
    tested = {"equinox_module.py", "flax_module.py", "logistic.py", "topics.py"}  # logistic.py by tests/jobs
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_equinox_module(output_of):
    shown = output_of("equinox_module.py")
    assert "354 parameters: layers.0.weight, layers.0.bias" in shown
    assert float(re.search(r"average: accuracy ([\d.]+)", shown)[1]) > 0.93


def test_flax_module(output_of):
    shown = output_of("flax_module.py")
    assert "97 parameters: hidden.bias" in shown
    spreads = re.findall(r"± ([\d.]+), (seen|not seen)", shown)
    seen, not_seen = ([float(number) for number, w in spreads if w == where] for where in ("seen", "not seen"))
    assert min(not_seen) > 1.5 * max(seen)


def test_topics(output_of):
    """Topics in which all words are equally likely would be at 0.6 from the truth, all three at their mean at 0.3."""
    shown = output_of("topics.py")
    distances = [float(number) for number in re.findall(r"total variation ([\d.]+)", shown)]
    assert len(distances) == 3
    assert max(distances) < 0.1
    assert float(re.search(r"([\d.]+) updates old", shown)[1]) > 1
