"""Commands for runs that are kept in folders: run, resume, show, list, plot, report.

The store, the pictures, the report and the diagnosis have tests of their own. Here they are stand-ins that do as little
as they can, so that what is tested is the commands.
"""

import json
import re
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stalegrad as sg
import stalegrad.plots
import stalegrad.report
import stalegrad.run
import stalegrad.store
from stalegrad import cli
from stalegrad.cli.common import console
from stalegrad.engines import Processes, Ray, Threads, engine_table
from stalegrad.kernels import kernel_table
from stalegrad.result import Run, RunFailed

JOB = """
steps = 200
servers = 2
workers = 3
engine = "inline"
seed = 4

[model]
function = "stalegrad.examples:gaussian"
arguments = {n_data = 40, dimensions = 3, batch_size = 4}

[kernel]
name = "SGHMC"
step_size = 0.02
friction = 5.0

[engines.processes]
threads = 2
"""


def invoke(*arguments, columns=120):
    console.width = columns  # rich looks at COLUMNS when a console is made, which is long ago
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output), result.exception


def run_main(monkeypatch, capsys, *arguments):
    """Through the entry point, which turns our own errors into a line and a status."""
    monkeypatch.setattr(sys, "argv", ["stalegrad", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code, capsys.readouterr()


@dataclass
class Info:
    """As stalegrad.store has it."""

    path: Path
    configuration: dict
    updates: list
    draws: list
    state: str = "finished"
    failure: str | None = None
    created: str = field(default_factory=lambda: (datetime.now(UTC) - timedelta(hours=3, minutes=5)).isoformat())
    sessions: list = field(default_factory=list)

    @property
    def steps(self):
        return self.configuration["steps"]

    def bytes_on_disk(self):
        return 12_345_678


@dataclass
class Diagnosis:
    potential: object

    def as_dict(self):
        return {"ok": True}

    def __str__(self):
        return "no findings in 7 checks" if self.potential is None else "no findings in 9 checks"


class Shelf:
    """Keeps runs in memory under the names of their folders."""

    def __init__(self):
        self.infos, self.runs, self.calls = {}, {}, []
        self.spoil = lambda run: run

    def sample(self, potential, kernel, *, store, job, checkpoint_every, on_store_error, engine, **arguments):
        self.calls.append({**arguments, "engine": engine, "store": store})
        if Path(store).exists():
            raise sg.StalegradError(f"{store} holds a run already")
        run = sg.sample(potential, kernel, engine=engine, **arguments)
        self.keep(store, run, potential, kernel, engine, job, arguments)
        return self.spoil(run)

    def keep(self, store, run, potential, kernel, engine, job, arguments):
        names = ("steps", "servers", "workers", "burn_in", "thin", "max_staleness", "policy", "seed")
        kernels = [kernel] * len(run.trace) if not isinstance(kernel, list) else kernel
        configuration = {
            **{name: arguments[name] for name in names},
            "kernels": [kernel_table(k) for k in kernels],
            "engine": engine_table(engine),
            "model": {
                "type": type(potential).__name__,
                "size": potential.size,
                "dtype": potential.dtype.name,
                "n_data": potential.n_data,
                "batch_size": potential.batch_size,
            },
            "job": job,
        }
        session = {"engine": type(engine).__name__, "workers": arguments["workers"]}
        session |= {"started": "2026-01-01T10:00:00+00:00", "ended": "2026-01-01T10:01:05+00:00"}
        updates = [chain.steps for chain in run.trace.chains]
        info = Info(Path(store), configuration, updates, [len(d) for d in run.chain_draws], sessions=[session])
        Path(store).mkdir(parents=True)
        self.infos[Path(store).resolve()], self.runs[Path(store).resolve()] = info, run

    def inspect(self, path):
        if Path(path).resolve() not in self.infos:
            raise sg.StalegradError(f"{path} holds no run")
        return replace(self.infos[Path(path).resolve()], path=Path(path))

    def load(self, path):
        return self.runs[self.inspect(path).path.resolve()]

    def resume(self, path, potential=None, **settings):
        self.calls.append({"path": path, "potential": potential, **settings})
        return self.load(path)


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    """A stand-in for the store and all that looks at runs, in an empty current folder."""
    shelf = Shelf()
    monkeypatch.setattr(stalegrad.store, "inspect", shelf.inspect)
    monkeypatch.setattr(stalegrad.plots, "plot_run", lambda run, out: [out / "overview.png"])
    page = "{title}-{about[state]}.html"
    monkeypatch.setattr(stalegrad.report, "write_report", lambda run, out, **words: out / page.format(**words))
    monkeypatch.setattr(stalegrad.run, "sample", shelf.sample)
    monkeypatch.setattr(sg, "load", shelf.load, raising=False)
    monkeypatch.setattr(sg, "resume", shelf.resume, raising=False)
    monkeypatch.setattr(Run, "diagnose", lambda run, potential: Diagnosis(potential), raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    return shelf


class TestRun:
    def test_it_samples_sums_up_and_says_where_it_is(self, shelf):
        status, output, _ = invoke("run", "job.toml", "--no-progress")
        assert status == 0
        assert "runs/job  finished" in output
        assert "stalegrad.examples:gaussian(n_data=40, dimensions=3, batch_size=4) · 3 parameters, float32" in output
        assert "SGHMC(step_size=0.02, friction=5.0)" in output
        assert "2 chains of 3 workers · no bound on staleness · engine inline" in output
        assert "theta[2]" in output
        assert "no findings in 9 checks" in output  # the model is at hand
        assert "The run is in runs/job. Next:" in output
        for command in ("show", "plot", "report", "resume"):
            assert re.search(rf"stalegrad {command} +runs/job ", output)
        assert shelf.load("runs/job").draws.shape == (2, 200, 3)

    def test_options_override_the_file(self, shelf):
        options = ("--engine", "processes", "--workers", 2, "--servers", 1, "--steps", 30, "--seed", 8)
        assert invoke("run", "job.toml", "--no-progress", *options, "--store", "kept/here")[0] == 0
        (call,) = shelf.calls
        assert call["engine"] == Processes(threads=2)
        assert (call["workers"], call["servers"], call["steps"], call["seed"]) == (2, 1, 30, 8)
        assert call["store"] == Path("kept/here")
        assert call["progress"] is False
        assert shelf.infos[Path("kept/here").resolve()].configuration["job"]["steps"] == 30

    def test_the_same_job_again_is_another_run(self, shelf):
        for place in ("runs/job", "runs/job-2", "runs/job-3"):
            assert f"The run is in {place}." in invoke("run", "job.toml", "--no-progress", "--steps", 5)[1]

    def test_a_store_in_the_file_is_relative_to_it_and_never_renamed(self, shelf, tmp_path):
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "job.toml").write_text('store = "runs/mine"\n' + JOB)
        assert "The run is in deep/runs/mine." in invoke("run", "deep/job.toml", "--no-progress")[1]
        status, _, problem = invoke("run", "deep/job.toml", "--no-progress")
        assert status == 1
        assert str(problem).endswith("deep/runs/mine holds a run already")

    def test_an_interrupted_run_ends_with_status_130(self, shelf):
        shelf.spoil = lambda run: replace(run, interrupted=True)
        status, output, _ = invoke("run", "job.toml", "--no-progress")
        assert status == 130
        assert "stalegrad resume runs/job" in output

    @pytest.mark.parametrize(
        "failure", [lambda run: RunFailed("no worker is left", run), lambda run: sg.GradientError("?")]
    )
    def test_a_failed_run_ends_with_status_1_and_says_where_it_is(self, shelf, monkeypatch, capsys, failure):
        def spoil(run):
            raise failure(run)

        shelf.spoil = spoil
        status, output = run_main(monkeypatch, capsys, "run", "job.toml", "--no-progress")
        assert status == 1
        assert output.err.startswith("What was sampled until then is in runs/job: stalegrad show runs/job\nerror: ")

    def test_mistakes_in_the_file_are_one_line(self, shelf, monkeypatch, capsys, tmp_path):
        (tmp_path / "bad [file].toml").write_text(JOB.replace("friction = 5.0", "friction = -5.0"))
        status, output = run_main(monkeypatch, capsys, "run", "bad [file].toml")
        assert (status, output.out) == (1, "")
        line = "error: bad [file].toml: kernel.friction=-5.0: is out of range. Give a finite number > 0.\n"
        assert output.err == line
        assert not shelf.calls

    def test_what_the_users_model_raises_is_shown_with_its_traceback(self, shelf, monkeypatch, tmp_path):
        (tmp_path / "job_module_that_fails.py").write_text("def model(): return {}['no such column']")
        (tmp_path / "own.toml").write_text(
            'model = "job_module_that_fails:model"\nsteps = 5\nkernel = {name = "SGLD", step_size = 1}'
        )
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(KeyError, match="no such column"):
            run_main(monkeypatch, None, "run", "own.toml")
        del sys.modules["job_module_that_fails"]


@pytest.fixture
def kept(shelf):
    """A run in runs/job."""
    assert invoke("run", "job.toml", "--no-progress")[0] == 0
    shelf.calls.clear()
    return shelf


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
                "progress": False,
            }
        ]
        assert "The run is in runs/job." in output

    def test_options_take_the_place_of_what_it_remembers(self, kept):
        arguments = ("--engine", "processes", "--workers", 5, "--steps", 900, "--model", "stalegrad.examples:gaussian")
        assert invoke("resume", "runs/job", *arguments)[0] == 0
        (call,) = kept.calls
        assert call["engine"] == Processes(threads=2)  # with the settings that the file has for it
        assert (call["workers"], call["steps"], call["progress"]) == (5, 900, True)
        assert (call["potential"].n_data, call["potential"].size) == (40, 3)  # and with the arguments

    def test_a_run_that_no_file_described(self, kept):
        kept.infos[Path("runs/job").resolve()].configuration["job"] = None
        model = ("--model", "stalegrad.examples:gaussian")
        assert invoke("resume", "runs/job", "--engine", "threads", *model)[0] == 0
        (call,) = kept.calls
        assert (call["engine"], call["potential"].n_data) == (Threads(), 1000)

    def test_the_address_of_a_cluster(self, kept):
        at = ("--address", "127.0.0.1:6379")
        assert invoke("resume", "runs/job", "--engine", "ray", *at)[0] == 0
        kept.infos[Path("runs/job").resolve()].configuration["job"] = None
        assert invoke("resume", "runs/job", *at, "--model", "stalegrad.examples:gaussian")[0] == 0
        assert [call["engine"] for call in kept.calls] == [Ray(address="127.0.0.1:6379")] * 2

    def test_interruption(self, kept):
        path = Path("runs/job").resolve()
        kept.runs[path] = replace(kept.runs[path], interrupted=True)
        assert invoke("resume", "runs/job")[0] == 130


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

    def test_numbers_for_programs(self, kept):
        status, output, _ = invoke("show", "runs/job", "--json")
        assert status == 0
        numbers = json.loads(output)
        assert (numbers["path"], numbers["state"], numbers["updates"]) == ("runs/job", "finished", [200, 200])
        assert numbers["configuration"]["kernels"][0]["friction"] == 5.0
        assert [p["name"] for p in numbers["summary"]["parameters"]] == ["theta[0]", "theta[1]", "theta[2]"]
        assert numbers["diagnosis"] == {"ok": True}

    def test_runs_of_other_kinds(self, kept):
        """Resumed elsewhere, failed, not described by a file, with a kernel of the user's own."""
        info = kept.infos[Path("runs/job").resolve()]
        info.state, info.failure = "failed", "all workers of chain 1 failed"
        info.configuration |= {"job": {"note": "mine"}, "max_staleness": 9, "engine": "Own"}
        info.configuration["kernels"] = [{"opaque": "Own(h=[red]0.1)"}, {"name": "SGLD", "step_size": 0.1}]
        info.sessions.append({"engine": "Processes", "workers": 1, "started": "2026-01-01T10:02:00+00:00"})
        _, output, _ = invoke("show", "runs/job")
        assert "runs/job  failed\nall workers of chain 1 failed\n" in output
        assert "model    GaussianMean · " in output
        assert "kernel   Own(h=[red]0.1) · SGLD(step_size=0.1)" in output
        assert "staleness at most 9 (drop) · engine Own" in output
        assert "1:05 in 2 sessions, on inline with 3 workers, then processes with 1 worker" in output

    def test_a_run_that_has_hardly_begun(self, kept):
        path = Path("runs/job").resolve()
        run = kept.runs[path]
        chains = tuple(chain.head(0) for chain in run.trace.chains)
        draws = tuple(d[:0] for d in run.chain_draws)
        empty = replace(run, draws=run.draws[:, :0], chain_draws=draws, trace=replace(run.trace, chains=chains))
        kept.runs[path] = empty
        status, output, _ = invoke("show", "runs/job")
        assert status == 0
        assert "parameter " not in output
        assert json.loads(invoke("show", "runs/job", "--json")[1])["summary"]["chains"][0]["mean_staleness"] is None

    def test_no_run(self, shelf, monkeypatch, capsys):
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
            ["job", "finished", "stalegrad.examples:gaussian", "SGHMC", "100%", "12.3", "MB", "3", "h"],
            ["holiday", "pictures", "[2016]:", "runs/holiday", "pictures", "[2016]", "holds", "no", "run"],
        ]

    def test_whatever_a_damaged_run_raises(self, kept, monkeypatch):
        def broken(path):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

        monkeypatch.setattr(sys.modules["stalegrad.store"], "inspect", broken)
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

    def test_nothing_there(self, shelf, monkeypatch, capsys, tmp_path):
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
    def test_no_run_leaves_no_folder(self, shelf, monkeypatch, capsys, command, tmp_path):
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
    def test_bad_options_are_usage_errors(self, shelf, arguments, complaint):
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
