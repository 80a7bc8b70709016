"""What a run shows while it goes on, and the honest line at its end."""

import io
import time

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.estimates import estimate
from stalegrad.engines import Timing
from stalegrad.kernels.schedules import Polynomial
from stalegrad.protocol.draws import Thinning
from stalegrad.protocol.server import ChainStatus
from stalegrad.runs import progress
from stalegrad.runs.progress import Progress, RunningAverages, verdict
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


def averages_of(draws, kernels, thinning, functions):
    """Of draws that are all there at once, each of one number."""
    columns = [np.array(chain, float)[:, None] for chain in draws]
    averages = RunningAverages(functions, lambda chain, ended: (0, columns[chain]), kernels, thinning)
    with averages:
        pass
    return averages


def test_running_averages_weigh_draws_by_step_sizes_and_chains_by_times():
    draws = [[1.0, 2.0, 4.0, 8.0, 16.0], [-3.0, 5.0, 7.0, 1.0]]
    schedule = Polynomial(a=0.1, b=1.0, gamma=0.5)
    kernels = [sg.SGLD(step_size=schedule), sg.SGLD(step_size=0.3)]
    averages = averages_of(draws, kernels, Thinning(3, 2), {"x": lambda t: t[0], "x²": lambda t: t[0] ** 2})
    steps = [[schedule(4 + 2 * k) for k in range(5)], [0.3] * 4]
    for name, power in (("x", 1), ("x²", 2)):
        values = [np.array(chain) ** power for chain in draws]
        assert averages.values[name] == pytest.approx(float(estimate(values, step_sizes=steps)), rel=1e-12)
    assert averages.evaluated == 9


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_shown_in_the_end_is_the_estimate_of_the_run(monkeypatch, tmp_path, stored):
    shown, kept = [], RunningAverages.__init__

    def watched(self, *arguments):
        kept(self, *arguments)
        shown.append(self)

    monkeypatch.setattr(RunningAverages, "__init__", watched)
    kernels = [sg.SGLD(step_size=0.002), sg.SGLD(step_size=Polynomial(a=0.004, b=1.0, gamma=0.4))]
    run = sg.sample(
        small_model(), kernels, steps=300, servers=2, workers=2, burn_in=20, thin=2,
        functions={"first": lambda theta: theta[0]}, store=tmp_path / "run" if stored else None,
    )  # fmt: skip
    assert shown[0].evaluated == 280
    assert shown[0].values["first"] == pytest.approx(float(run.estimate(lambda theta: theta[0])), rel=1e-10)


def test_the_display_says_of_how_many_draws_an_average_is():
    averages = averages_of([[1.0, 2.0]], [KERNEL], Thinning(), {"x": lambda t: t[0]})
    line = Progress([status(accepted=3000)], steps=5000, averages=averages, file=io.StringIO()).line()
    assert line.endswith("x = 1.5 (2 of 3,000 draws)")


def test_a_slow_test_function_is_evaluated_all_over_the_run(monkeypatch):
    monkeypatch.setattr(progress, "_CATCH_UP", 0.2)
    seen = []
    averages_of([range(1000)], [KERNEL], Thinning(), {"x": lambda t: time.sleep(0.02) or seen.append(t[0]) or t[0]})
    assert 3 <= len(seen) <= 20
    assert min(np.diff(sorted({-1.0, *seen, 1000.0}))) > 50


def test_draws_that_have_left_memory_are_passed_over_and_none_is_taken_twice():
    order, given = progress._SpreadOrder(), []
    for first, end in ((0, 5), (0, 12), (10, 30), (25, 33), (33, 33)):
        given += iter(lambda first=first, end=end: order.next(first, end), None)
    assert sorted(given) == list(range(33))
    late = progress._SpreadOrder()
    assert sorted(iter(lambda: late.next(100, 110), None)) == list(range(100, 110))


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


def test_the_share_of_busy_servers_is_of_all_of_them():
    """Four servers, busy 15 s together in 9.4 s by the clock."""
    timing = Timing(wall=9.4, gradients=36, waiting=4, updates=15.0, count=1000)
    assert "4 servers were busy, on average, 40% of 0:09" in verdict(timing, servers=4, workers=1, cores=4)


def test_rates_and_times_left_are_those_of_this_session(monkeypatch):
    """A session that begins with 50 updates of 100, and makes 10 in 2 s."""
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    clock, chain = [0.0], status()
    display = Progress([chain], steps=100, file=io.StringIO())
    told = "0 gradients/s · time left ? (no gradient yet: workers start, and code is compiled where it is new)"
    assert told in display.line()
    assert "no gradient yet" in str(display.table().caption)
    clock[0] = 2.0
    for _ in range(10):
        chain.count(1, True)
    assert " 60%" in display.line()
    assert "· 5 gradients/s · time left 0:08" in display.line()
    assert display.table().caption is None
