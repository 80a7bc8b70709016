"""Commands that look at runs in folders: show, list, plot, report; and how all of them explain themselves.

The runs are stand-ins, as in test_runs.
"""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stalegrad.runs.divergence import with_remedy

from .fake_stores import invoke, run_main


class TestShow:
    def test_all_of_it(self, kept):
        status, output, _ = invoke("show", "runs/job")
        assert status == 0
        rows = [line.split() for line in output.splitlines()]
        mean = f"{(0 + 1 + 2 * 198) / 200:.2f}"  # τ is W − 1 once all workers are under way
        assert ["0", "200", "100%", "200", "0", mean, "2"] in rows
        assert [row[0] for row in rows if row and row[0].startswith("theta")] == ["theta[0]", "theta[1]", "theta[2]"]
        assert "begun 3 h ago · 1:05 in 1 session" in output
        assert "on disk  12.3 MB" in output
        assert "no findings in 7 checks" in output
        assert "Of all 3 parameters the largest R-hat is" in output

    @pytest.mark.parametrize("columns", [60, 80, 120])
    def test_it_fits_on_the_terminal(self, kept, columns):
        _, output, _ = invoke("show", "runs/job", columns=columns)
        assert max(map(len, output.splitlines())) <= columns
        for word in ("parameter", "R-hat", "ESS", "dropped", "max τ"):
            assert word in output

    def test_with_the_model_of_the_job_there_are_more_checks(self, kept):
        assert "no findings in 9 checks" in invoke("show", "runs/job", "--model", "job")[1]

    def test_a_diverged_run_says_how_to_go_on(self, kept):
        info = kept.infos[Path("runs/job").resolve()]
        info.state, info.failure = "diverged", with_remedy("chain 0 has diverged", 0.003)
        _, output, _ = invoke("show", "runs/job", columns=80)
        assert "stalegrad resume runs/job --step-size 0.003\n" in output
        assert "stalegrad rm runs/job\n" in output
        info.draws = [0, 0]
        assert "There are no draws: it has diverged before the first." in invoke("show", "runs/job")[1]

    def test_numbers_for_programs(self, kept):
        status, output, _ = invoke("show", "runs/job", "--json")
        assert status == 0
        numbers = json.loads(output)
        assert (numbers["path"], numbers["state"], numbers["updates"]) == ("runs/job", "finished", [200, 200])
        assert numbers["record"]["kernels"][0]["friction"] == 5.0
        assert [p["name"] for p in numbers["summary"]["parameters"]] == ["theta[0]", "theta[1]", "theta[2]"]
        assert numbers["diagnosis"] == {"ok": True}

    def test_runs_of_other_kinds(self, kept):
        """Resumed elsewhere, failed, not described by a file, with a kernel of the user's own."""
        info = kept.infos[Path("runs/job").resolve()]
        info.state, info.failure = "failed", "all workers of chain 1 failed"
        info.job = {"note": "mine"}
        info.record = replace(
            info.record,
            settings=replace(info.record.settings, max_staleness=9),
            engine={"opaque": "Own"},
            kernels=({"opaque": "Own(h=[red]0.1)"}, {"name": "SGLD", "step_size": 0.1}),
        )
        info.sessions.append({"engine": {"name": "processes"}, "workers": 1, "started": "2026-01-01T10:02:00+00:00"})
        _, output, _ = invoke("show", "runs/job")
        assert "runs/job  failed\nall workers of chain 1 failed\n" in output
        assert "model    GaussianMean · " in output
        assert "kernel   Own(h=[red]0.1) · SGLD(step_size=0.1)" in output
        assert "staleness at most 9 (drop) · engine Own" in output
        assert "1:05 in 1 session and 1 session that was killed, on inline" in output.replace("\n         ", " ")

    def test_a_run_that_has_hardly_begun(self, kept):
        path = Path("runs/job").resolve()
        run = kept.runs[path]
        chains = tuple(chain.head(0) for chain in run.trace.chains)
        draws = tuple(d[:0] for d in run.chain_draws)
        empty = replace(run, draws=run.draws[:, :0], chain_draws=draws, trace=replace(run.trace, chains=chains))
        kept.runs[path] = empty
        kept.infos[path].draws, kept.infos[path].updates = [0, 0], [0, 0]
        status, output, _ = invoke("show", "runs/job")
        assert status == 0
        assert "parameter " not in output
        assert "There are no draws of all chains yet" in output
        _, output, error = invoke("plot", "runs/job")
        assert "no draws of all chains" in f"{output}{error}"
        assert json.loads(invoke("show", "runs/job", "--json")[1])["summary"]["chains"][0]["mean_staleness"] is None

    def test_a_run_that_goes_on_has_lasted_until_now(self, kept):
        info = kept.infos[Path("runs/job").resolve()]
        info.state = "running"
        begun = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
        info.sessions[:] = [{"engine": {"name": "threads"}, "workers": 1, "started": begun}]
        _, output, _ = invoke("show", "runs/job")
        assert " · 1:3" in output
        assert "in 1 session" in output

    def test_no_run(self, stores, monkeypatch, capsys):
        assert run_main(monkeypatch, capsys, "show", "runs/none")[1].err == "error: runs/none holds no run\n"


class TestList:
    def test_a_line_for_each(self, kept, tmp_path):
        (tmp_path / "runs" / "holiday pictures [2016]").mkdir()
        (tmp_path / "runs" / ".hidden").mkdir()
        (tmp_path / "runs" / "notes.txt").touch()
        status, output, _ = invoke("list")
        assert status == 0
        assert [line.split() for line in output.splitlines()] == [
            ["run", "state", "model", "kernel", "done", "size", "age"],
            ["holiday", "pictures", "[2016]", "unreadable"],
            ["job", "finished", "gaussian", "SGHMC", "100%", "12.3", "MB", "3", "h"],
            ["holiday", "pictures", "[2016]:", "runs/holiday", "pictures", "[2016]", "holds", "no", "run"],
        ]

    def test_whatever_a_damaged_run_raises(self, kept, monkeypatch):
        def broken(path):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

        monkeypatch.setattr(sys.modules["stalegrad.runs.store"], "inspect", broken)
        status, output, _ = invoke("list")
        assert status == 0
        assert "job  unreadable" in output
        assert "invalid start byte" in output

    @pytest.mark.parametrize("columns", [60, 80, 120])
    def test_it_fits_on_the_terminal(self, kept, columns):
        invoke("run", "job.toml", "--no-progress", "--store", f"runs/{'long-name-' * 5}", "--steps", 5)
        _, output, _ = invoke("list", columns=columns)
        assert max(map(len, output.splitlines())) <= columns
        assert ("SGHMC" in output) == (columns >= 80)

    def test_numbers_for_programs(self, kept, tmp_path):
        (tmp_path / "runs" / "other").mkdir()
        job, other = json.loads(invoke("list", "runs", "--json")[1])
        assert (job["name"], job["state"], job["done"], job["bytes"]) == ("job", "finished", 1.0, 12_345_678)
        assert (other["state"], other["problem"]) == ("unreadable", "runs/other holds no run")

    def test_nothing_there(self, stores, monkeypatch, capsys, tmp_path):
        (tmp_path / "empty").mkdir()
        assert invoke("list", "empty")[:2] == (0, "no runs in empty yet\n")
        assert json.loads(invoke("list", "empty", "--json")[1]) == []
        told = "error: there is no folder runs. Runs are put there by: stalegrad run FILE.toml\n"
        assert run_main(monkeypatch, capsys, "list")[1].err == told


class TestPicturesAndPages:
    def test_they_go_into_the_run_unless_told_otherwise(self, kept, tmp_path):
        assert invoke("plot", "runs/job")[:2] == (0, "wrote runs/job/plots/overview.png\n")
        assert (tmp_path / "runs" / "job" / "plots").is_dir()
        assert invoke("plot", "runs/job", "--out", "new/place")[:2] == (0, "wrote new/place/overview.png\n")
        assert invoke("report", "runs/job")[:2] == (0, "wrote runs/job/job-finished.html\n")
        assert invoke("report", "runs/job", "--out", "new")[:2] == (0, "wrote new/job-finished.html\n")

    @pytest.mark.parametrize("command", ["plot", "report"])
    def test_no_run_leaves_no_folder(self, stores, monkeypatch, capsys, command, tmp_path):
        assert run_main(monkeypatch, capsys, command, "runs/none")[0] == 1
        assert not (tmp_path / "runs").exists()


class TestUsage:
    @pytest.mark.parametrize(
        ("command", "words"),
        [
            (["run"], ["FILE.toml", "--engine", "--address", "--workers", "--servers", "--steps", "--store", "130"]),
            (["resume"], ["RUN", "--engine", "--workers", "--steps", "--model", "--no-progress", "130"]),
            (["show"], ["RUN", "--json"]),
            (["list"], ["FOLDER", "--json"]),
            (["plot"], ["RUN", "--out"]),
            (["report"], ["RUN", "--out"]),
        ],
    )
    def test_every_command_explains_itself(self, command, words):
        status, output, _ = invoke(*command, "--help")
        assert status == 0
        for word in words:
            assert word in output

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["run"], "Missing argument 'FILE.toml'"),
            (["run", "job.toml", "--engine", "smp"], "is not one of 'threads', 'processes', 'mpi', 'ray', 'inline'"),
            (["run", "job.toml", "--workers", "0"], "'--workers'"),
            (["run", "job.toml", "--steps", "many"], "'--steps'"),
            (["run", "job.toml", "--store", __file__], "is a file"),
            (["resume"], "Missing argument 'RUN'"),
            (["show"], "Missing argument 'RUN'"),
            (["plot", "runs/job", "--out", __file__], "is a file"),
        ],
    )
    def test_bad_options_are_usage_errors(self, stores, arguments, complaint):
        status, output, _ = invoke(*arguments)
        assert status == 2
        assert complaint in output


def test_looking_at_the_help_loads_nothing_heavy(fresh_python):
    code = """
import sys
import stalegrad.cli
heavy = {"torch", "jax", "matplotlib", "zarr", "arviz_stats", "sklearn"}
print(*sorted({name.partition(".")[0] for name in sys.modules} & heavy))
"""
    done = fresh_python("-c", code)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
