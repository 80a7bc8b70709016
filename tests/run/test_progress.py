"""What a run shows while it goes on, and the honest line at its end."""

import io
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad import progress
from stalegrad.engines import Timing
from stalegrad.progress import Progress, RunningAverages, verdict
from stalegrad.server import ChainStatus
from stalegrad.testing import small_model

KERNEL = sg.SGLD(step_size=0.002)


def status(accepted=50, dropped=5, staleness_sum=100, staleness_max=7):
    return ChainStatus(accepted, dropped, 0, staleness_sum, staleness_max)


def test_a_line_for_logs_tells_everything():
    line = Progress([status(), status(accepted=80, staleness_max=9)], steps=100, file=io.StringIO()).line()
    for part in (" 50%", "130 updates of 2 chains", "10 dropped", "staleness 1.5 (max 9)", "gradients/s", "time left"):
        assert part in line


def test_the_table_has_a_row_a_chain_and_pulls_from_the_status():
    chains = [status(), status()]
    display = Progress(chains, steps=100, file=io.StringIO())
    assert display.table().row_count == 2
    before = display.line()
    chains[0].count(3, True)
    chains[1].count(30, False)
    assert "131" not in before
    assert "101 updates" in display.line()
    assert "11 dropped" in display.line()


def test_plain_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(progress, "_LINE", 0.05)
    out = io.StringIO()
    with Progress([status()], steps=100, file=out):
        time.sleep(0.2)
    lines = out.getvalue().splitlines()
    assert len(lines) >= 2
    assert "\x1b" not in out.getvalue()


def test_test_functions_are_averaged_beside_the_run_and_their_errors_do_not_end_it(capsys):
    seen = []
    run = sg.sample(
        small_model(), KERNEL, steps=2000, workers=2, functions={"first": lambda theta: seen.append(1) or theta[0]}
    )
    assert run.draws.shape == (1, 2000, 5)
    assert seen
    again = sg.sample(small_model(), KERNEL, steps=500, workers=2, functions={"bad": lambda theta: 1 / 0})
    assert again.draws.shape == (1, 500, 5)
    assert "workers spent" in capsys.readouterr().err


def test_running_averages_are_the_averages_of_what_was_seen():
    draws = iter([(1, np.array([1.0])), (2, np.array([3.0]))])
    current = [next(draws)]
    averages = RunningAverages({"x": lambda theta: theta[0]}, lambda chain: current[0], chains=1)
    deadline = time.monotonic() + 5
    while averages.values != {"x": 1.0} and time.monotonic() < deadline:
        time.sleep(0.01)
    current[0] = next(draws)
    while averages.values != {"x": 2.0} and time.monotonic() < deadline:
        time.sleep(0.01)
    averages.close()
    assert averages.values == {"x": 2.0}


def test_progress_false_is_silent(capsys):
    sg.sample(small_model(), KERNEL, steps=50, workers=2, progress=False)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


@pytest.mark.parametrize("functions", [[1], {"x": 3}, "loss"])
def test_functions_must_be_a_mapping_of_functions(functions):
    with pytest.raises(sg.ArgumentError, match="functions="):
        sg.sample(small_model(), KERNEL, steps=5, functions=functions)


def test_the_verdict_advises_fewer_workers_only_where_asynchrony_does_not_pay():
    pays = Timing(wall=10, gradients=36, waiting=4, updates=2, count=1000)
    assert "does not pay" not in verdict(pays, servers=1, workers=4, cores=4)
    assert "90% of their time in gradients (36.0 ms each)" in verdict(pays, servers=1, workers=4, cores=4)
    lost = Timing(wall=10, gradients=8, waiting=32, updates=9, count=100_000)
    assert "does not pay here: use about 1 worker a server" in verdict(lost, servers=1, workers=4, cores=4)
    crowded = Timing(wall=10, gradients=18, waiting=42, updates=2, count=1000)
    assert "6 workers for 2 cores" in verdict(crowded, servers=2, workers=3, cores=2)
    alone = Timing(wall=10, gradients=1, waiting=9, updates=2, count=1000)
    assert "does not pay" not in verdict(alone, servers=1, workers=1, cores=4)
