"""kill -9 at every step of writing: never a torn load, nothing committed is lost, and the run goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("compiled")]


@pytest.fixture(scope="module")
def kills(tmp_path_factory):
    program = [sys.executable, str(Path(__file__).with_name("kill_children.py")), str(tmp_path_factory.mktemp("kills"))]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_place_was_reached_and_killed(kills):
    assert len(kills) >= 100
    assert [k for k in kills if not k["killed"]] == []


def test_whatever_is_left_loads_resumes_and_replays_bit_for_bit(kills):
    assert [k for k in kills if not k["sound"]] == []


def test_kills_came_before_in_and_after_checkpoints(kills):
    assert {k["left"] for k in kills} == {"nothing", "killed"}
    assert len({k["updates"] for k in kills}) > 3
