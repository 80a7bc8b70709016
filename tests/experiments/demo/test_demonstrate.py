"""The demonstration from beginning to end, killed processes and all."""

import json

import pytest

import stalegrad as sg
from stalegrad.experiments.demo import Settings, demonstrate
from stalegrad.experiments.demo.task import model

pytestmark = pytest.mark.long


def test_everything_is_written_and_true(tmp_path, capsys):
    out = tmp_path / "demo"
    numbers = demonstrate(Settings(steps=20_000), out)
    assert json.loads((out / "summary.json").read_text())["survival"] == numbers["survival"]
    for name in ("report.html", "speed.png", "staleness.png", "survival.png", "trace.npz"):
        assert (out / name).stat().st_size > 1000
    survived = numbers["survival"]
    assert survived["replayed"]
    assert survived["worker_killed"]
    assert "died" in survived["events"]
    assert not survived["run_killed"] or (survived["sessions"] == 2 and survived["kept"] > 0)
    stale = numbers["staleness"]["variance"]
    assert stale["as they are"] > 1.15
    assert abs(stale["compensated"] - 1) < 0.12
    assert sg.load(out / "run").trace.chains[0].steps == 10_000
    assert "All of it on one page" in capsys.readouterr().out
    assert sg.Trace.load(out / "trace.npz").architecture.linear == 1.0
    assert model().size == 60
