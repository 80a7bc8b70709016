"""Commands for runs that are kept in folders: run, resume.

The store, the pictures, the report and the diagnosis have tests of their own. Here they are stand-ins that do as little
as they can, so that what is tested is the commands.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import stalegrad as sg
import stalegrad.analysis.plots
import stalegrad.analysis.report
import stalegrad.runs.sample
import stalegrad.runs.store
from stalegrad.engines import Processes, Ray, Threads
from stalegrad.runs.failures import RunFailed

from .fake_stores import JOB, invoke, run_main


class TestRun:
    def test_it_samples_sums_up_and_says_where_it_is(self, stores):
        status, output, _ = invoke("run", "job.toml", "--no-progress")
        assert status == 0
        assert "runs/job  finished" in output
        assert (
            "stalegrad.datasets.models:gaussian(n_data=40, dimensions=3, batch_size=4) · 3 parameters, float32"
            in output
        )
        assert "SGHMC(step_size=0.02, friction=5.0)" in output
        assert "2 chains of 3 workers · no bound on staleness · engine inline" in output
        assert "theta[2]" in output
        assert "no findings in 9 checks" in output  # the model is at hand
        assert "The run is in runs/job. Next:" in output
        for command in ("show", "plot", "report", "resume"):
            assert re.search(rf"stalegrad {command} +runs/job ", output)
        assert stores.load("runs/job").draws.shape == (2, 200, 3)

    def test_options_override_the_file(self, stores):
        options = ("--engine", "processes", "--workers", 2, "--servers", 1, "--steps", 30, "--seed", 8)
        assert invoke("run", "job.toml", "--no-progress", *options, "--store", "kept/here")[0] == 0
        (call,) = stores.calls
        assert call["engine"] == Processes(threads=2)
        assert (call["workers"], call["servers"], call["steps"], call["seed"]) == (2, 1, 30, 8)
        assert call["store"] == Path("kept/here")
        assert call["progress"] is False
        assert stores.infos[Path("kept/here").resolve()].job["steps"] == 30

    def test_the_same_job_again_is_another_run(self, stores):
        for place in ("runs/job", "runs/job-2", "runs/job-3"):
            assert f"The run is in {place}." in invoke("run", "job.toml", "--no-progress", "--steps", 5)[1]

    def test_a_store_in_the_file_is_relative_to_it_and_never_renamed(self, stores, tmp_path):
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "job.toml").write_text('store = "runs/mine"\n' + JOB)
        assert "The run is in deep/runs/mine." in invoke("run", "deep/job.toml", "--no-progress")[1]
        status, _, problem = invoke("run", "deep/job.toml", "--no-progress")
        assert status == 1
        assert str(problem).endswith("deep/runs/mine holds a run already")

    def test_an_interrupted_run_ends_with_status_130(self, stores):
        stores.spoil = lambda run: replace(run, interrupted=True)
        status, output, _ = invoke("run", "job.toml", "--no-progress")
        assert status == 130
        assert "stalegrad resume runs/job" in output

    def test_a_run_that_was_interrupted_in_its_burn_in_says_so(self, stores):
        """There is nothing to diagnose, and that is no error."""

        def spoil(run):
            stores.infos[Path("runs/job").resolve()].draws = [0, 0]
            return replace(run, interrupted=True)

        stores.spoil = spoil
        status, output, _ = invoke("run", "job.toml", "--no-progress")
        assert status == 130
        assert "There are no draws" in output
        assert "checks" not in output

    @pytest.mark.parametrize(
        "failure", [lambda run: RunFailed("no worker is left", run), lambda run: sg.GradientError("?")]
    )
    def test_a_failed_run_ends_with_status_1_and_says_where_it_is(self, stores, monkeypatch, capsys, failure):
        def spoil(run):
            raise failure(run)

        stores.spoil = spoil
        status, output = run_main(monkeypatch, capsys, "run", "job.toml", "--no-progress")
        assert status == 1
        assert output.err.startswith("What was sampled until then is in runs/job: stalegrad show runs/job\nerror: ")

    def test_mistakes_in_the_file_are_one_line(self, stores, monkeypatch, capsys, tmp_path):
        (tmp_path / "bad [file].toml").write_text(JOB.replace("friction = 5.0", "friction = -5.0"))
        status, output = run_main(monkeypatch, capsys, "run", "bad [file].toml")
        assert (status, output.out) == (1, "")
        line = "error: bad [file].toml: kernel.friction=-5.0: is out of range. Give a finite number > 0.\n"
        assert output.err == line
        assert not stores.calls

    def test_what_the_users_model_raises_is_one_line_that_says_where(self, stores, monkeypatch, capsys, tmp_path):
        (tmp_path / "job_module_that_fails.py").write_text("def model(): return {}['no such column']")
        (tmp_path / "own.toml").write_text(
            'model = "job_module_that_fails:model"\nsteps = 5\nkernel = {name = "SGLD", step_size = 1}'
        )
        monkeypatch.setattr(sys, "path", list(sys.path))
        _, said = run_main(monkeypatch, capsys, "run", "own.toml")
        assert said.err == (
            "error: job_module_that_fails:model() raised KeyError: 'no such column', in job_module_that_fails.py at "
            "line 1: def model(): return {}['no such column']\n"
        )
        del sys.modules["job_module_that_fails"]


class TestResume:
    def test_the_run_remembers_everything(self, kept):
        status, output, _ = invoke("resume", "runs/job", "--no-progress")
        assert status == 0
        assert kept.calls == [
            {
                "path": Path("runs/job"),
                "potential": None,
                "engine": None,
                "workers": None,
                "steps": None,
                "step_size": None,
                "progress": False,
            }
        ]
        assert "The run is in runs/job." in output

    def test_options_take_the_place_of_what_it_remembers(self, kept):
        arguments = (
            "--engine",
            "processes",
            "--workers",
            5,
            "--steps",
            900,
            "--model",
            "stalegrad.datasets.models:gaussian",
        )
        assert invoke("resume", "runs/job", *arguments)[0] == 0
        (call,) = kept.calls
        assert call["engine"] == Processes(threads=2)  # with the settings that the file has for it
        assert (call["workers"], call["steps"], call["progress"]) == (5, 900, True)
        assert (call["potential"].n_data, call["potential"].size) == (40, 3)  # and with the arguments

    def test_a_run_that_no_file_described(self, kept):
        kept.infos[Path("runs/job").resolve()].job = None
        model = ("--model", "stalegrad.datasets.models:gaussian")
        assert invoke("resume", "runs/job", "--engine", "threads", *model)[0] == 0
        (call,) = kept.calls
        assert (call["engine"], call["potential"].n_data) == (Threads(), 1000)

    def test_a_run_that_no_file_described_says_what_to_type(self, kept):
        kept.infos[Path("runs/job").resolve()].job = None
        status, _, error = invoke("resume", "runs/job")
        assert status == 1
        assert "\n  stalegrad resume runs/job --model module:function\n" in str(error)
        assert not kept.calls

    def test_the_address_of_a_cluster(self, kept):
        at = ("--address", "127.0.0.1:6379")
        assert invoke("resume", "runs/job", "--engine", "ray", *at)[0] == 0
        kept.infos[Path("runs/job").resolve()].job = None
        assert invoke("resume", "runs/job", *at, "--model", "stalegrad.datasets.models:gaussian")[0] == 0
        assert [call["engine"] for call in kept.calls] == [Ray(address="127.0.0.1:6379")] * 2

    def test_interruption(self, kept):
        path = Path("runs/job").resolve()
        kept.runs[path] = replace(kept.runs[path], interrupted=True)
        assert invoke("resume", "runs/job")[0] == 130


@pytest.mark.long
def test_a_run_from_its_file_to_its_report(monkeypatch, capsys, tmp_path):
    """Nothing is a stand-in here: the reader's walk through the commands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    walk = [
        ("run", "job.toml", "--no-progress"),
        ("resume", "runs/job", "--steps", 400, "--engine", "threads", "--workers", 2, "--no-progress"),
        ("list",),
        ("show", "runs/job"),
        ("plot", "runs/job"),
        ("report", "runs/job"),
    ]
    said = {}
    for command in walk:
        status, told = run_main(monkeypatch, capsys, *command)
        assert status == 0, told.err
        said[command[0]] = told.out
    assert sg.store.inspect("runs/job").updates == [400, 400]
    assert "finished" in said["list"]
    assert "400  100%" in said["show"]
    pictures = [line.removeprefix("wrote ") for line in said["plot"].splitlines()]
    assert len(pictures) > 3
    assert all(Path(picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)
    page = Path(said["report"].removeprefix("wrote ").strip())
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
