"""The command line: help, tables, files, and how it fails."""

import json
import re
import sys

import pytest
from typer.testing import CliRunner

import stalegrad
from stalegrad import cli
from stalegrad.experiments import fig1

PNG = b"\x89PNG\r\n\x1a\n"


def invoke(*arguments):
    """Through typer, whose usage errors and results are all that is looked at."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def run_main(monkeypatch, capsys, *arguments):
    """Through the entry point, which turns our own errors into a line and a status."""
    monkeypatch.setattr(sys, "argv", ["stalegrad", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code, capsys.readouterr()


@pytest.fixture
def quick_fig1(monkeypatch):
    """Figure 1 with constants that take no time; --runs and --seed still come from the command line."""
    small = {
        "tau": (1, 2), "n_data": 50, "steps_per_tau": 20, "mixing_tau": (0, 1), "mixing_steps": 300,
        "mixing_burn_in": 100, "mixing_runs": 20,
    }  # fmt: skip
    settings = fig1.Settings
    monkeypatch.setattr(fig1, "Settings", lambda **given: settings(**small | given))


class TestHelp:
    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ([], ["simulate", "reproduce", "--version"]),
            (["reproduce"], ["fig1"]),
            (["reproduce", "fig1"], ["--out", "--runs", "--seed", "Repetitions", "bias and variance"]),
            (["plan"], ["--seconds", "--latency", "--price", "--within", "recommend S, W"]),
            (["simulate"], ["--max-workers", "--compute", "--law", "--stragglers", "--bandwidth", "--policy", "--out"]),
        ],
    )
    @pytest.mark.parametrize("flag", ["--help", "-h"])
    def test_every_command_explains_itself(self, command, words, flag):
        status, output = invoke(*command, flag)
        assert status == 0
        for word in ["Usage", *words]:
            assert word in output

    def test_version(self):
        assert invoke("--version") == (0, f"stalegrad {stalegrad.__version__}\n")

    def test_nothing_at_all_is_a_question_for_help(self):
        status, output = invoke()
        assert status == 2
        assert "Usage" in output


class TestFig1:
    def test_it_prints_a_table_and_writes_numbers_and_a_picture(self, quick_fig1, tmp_path):
        status, output = invoke("reproduce", "fig1", "--out", tmp_path / "new" / "folder", "--runs", 5, "--seed", 3)
        assert status == 0, output
        assert "Figure 1, 5 runs" in output
        assert "largest / smallest end point" in output
        written = tmp_path / "new" / "folder"
        assert f"wrote {written / 'fig1.json'}" in output
        numbers = json.loads((written / "fig1.json").read_text())
        assert (numbers["runs"], numbers["seed"], numbers["tau"]) == (5, 3, [1, 2])
        assert len(numbers["end_mse"]) == len(numbers["curves"]) == 2
        for tau, curve, end in zip(numbers["tau"], numbers["curves"], numbers["end_mse"], strict=True):
            assert curve["iteration"][-1] == 20 * tau
            assert curve["mse"][-1] == end > 0
        assert set(numbers["mixing"]) == {
            "tau", "bias", "bias_error", "variance", "variance_error", "exact_bias", "exact_variance",
        }  # fmt: skip
        picture = (written / "fig1.png").read_bytes()
        assert picture.startswith(PNG)
        assert len(picture) > 10_000

    @pytest.mark.long
    def test_a_budget_leaves_the_rest_for_the_next_call(self, quick_fig1, tmp_path):
        command = ("reproduce", "fig1", "--out", tmp_path, "--runs", 5)
        status, output = invoke(*command, "--budget", 0)
        assert status == 0
        assert "The same command goes on" in output
        assert not (tmp_path / "fig1.json").exists()
        assert invoke(*command)[0] == 0
        assert "wrote" in invoke(*command, "--budget", 0)[1]  # all parts are there

    @pytest.mark.long
    def test_the_same_seed_gives_the_same_numbers(self, quick_fig1, tmp_path):
        found = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            assert invoke("reproduce", "fig1", "--out", tmp_path / name, "--runs", 3, "--seed", seed)[0] == 0
            found.append(json.loads((tmp_path / name / "fig1.json").read_text())["curves"])
        assert found[0] == found[1] != found[2]

    def test_a_folder_that_cannot_be_made_costs_no_sampling(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setattr(fig1, "reproduce", lambda settings: pytest.fail("sampled before looking at --out"))
        (tmp_path / "file").touch()
        status, output = run_main(monkeypatch, capsys, "reproduce", "fig1", "--out", tmp_path / "file" / "below")
        assert status == 1
        assert output.err.splitlines() == [f"error: [Errno 20] Not a directory: '{tmp_path / 'file' / 'below'}'"]


class TestSimulate:
    quick = ("simulate", "--max-workers", 6, "--steps", 300)

    def test_it_prints_a_row_for_every_number_of_workers(self):
        status, output = invoke(*self.quick, "--law", "constant")
        assert status == 0
        rows = [line.split() for line in output.splitlines() if line.strip()[:1].isdigit()]
        assert [int(row[0]) for row in rows] == [1, 2, 4, 6]
        assert [row[1] for row in rows] == ["0.0", "1.0", "3.0", "5.0"]
        assert [row[-1] for row in rows] == ["gradients"] * 4
        assert "Up to 6 workers gradients take the time" in output
        assert "wrote" not in output

    def test_it_writes_what_it_printed(self, tmp_path):
        folder = tmp_path / "with [brackets]"
        status, output = invoke(*self.quick, "--out", folder, "--stragglers", 0.3, "--max-staleness", 4, "--seed", 9)
        assert status == 0, output
        assert f"wrote {folder / 'scaling.json'}" in output
        numbers = json.loads((folder / "scaling.json").read_text())
        assert [row["workers"] for row in numbers["predictions"]] == [1, 2, 4, 6]
        assert numbers["predictions"][-1]["dropped"] > 0
        assert numbers["predictions"][-1]["max_staleness"] <= 4
        assert (numbers["settings"]["stragglers"], numbers["settings"]["seed"]) == (0.3, 9)
        assert (folder / "scaling.png").read_bytes().startswith(PNG)

    @pytest.mark.parametrize("law", ["constant", "exponential", "lognormal"])
    @pytest.mark.parametrize("policy", ["drop", "wait"])
    def test_all_laws_and_policies(self, law, policy):
        assert invoke(*self.quick, "--law", law, "--policy", policy, "--max-staleness", 8)[0] == 0


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["nonsense"], "No such command"),
            (["reproduce", "fig99"], "No such command"),
            (["reproduce", "fig1"], "Missing option '--out'"),
            (["reproduce", "fig1", "--out", "x", "--runs", "2"], "'--runs'"),
            (["reproduce", "fig1", "--out", "x", "--runs", "many"], "'--runs'"),
            (["reproduce", "fig1", "--out", "x", "--seed", "-1"], "'--seed'"),
            (["reproduce", "fig1", "--out", __file__], "is a file"),
            (["simulate", "--max-workers", "0"], "'--max-workers'"),
            (["simulate", "--max-workers", "65537"], "'--max-workers'"),
            (["simulate", "--law", "cauchy"], "'--law'"),
            (["simulate", "--policy", "forget"], "'--policy'"),
            (["simulate", "--stragglers", "1.5"], "'--stragglers'"),
            (["simulate", "--compute", "-1"], "'--compute'"),
            (["simulate", "--steps", "5"], "'--steps'"),
            (["simulate", "--workers", "5"], "No such option"),
        ],
    )
    def test_bad_options_are_usage_errors(self, arguments, complaint):
        status, output = invoke(*arguments)
        assert status == 2
        assert "Usage" in output
        assert complaint in output

    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (["--bandwidth", 0], "error: bandwidth=0.0: is out of range. Give a finite number > 0."),
            (["--policy", "wait"], "error: max_staleness=None: leaves policy='wait' nothing to hold. Give a bound, or"),
            (["--stragglers", 1, "--straggler-factor", -2], "error: factors=-2.0: is out of range. Give a finite"),
            (["--seed", 2**64], f"error: seed={2**64}: is out of range. Give a whole number from 0 to {2**64 - 1}."),
            (["--law", "constant", "--compute", 0, "--update", 0, "--latency", 0, "--bandwidth", "inf"],
             "error: compute=0.0: takes no time, so there is no rate. Give the seconds of a gradient > 0."),
        ],
    )  # fmt: skip
    def test_our_own_errors_are_one_line_and_status_1(self, monkeypatch, capsys, arguments, line):
        status, output = run_main(monkeypatch, capsys, "simulate", "--max-workers", 2, "--steps", 100, *arguments)
        assert status == 1
        assert output.out == ""
        assert output.err.count("\n") == 1
        assert output.err.startswith(line)

    @pytest.mark.parametrize(
        ("name", "value", "coloured"), [("TERM", "xterm", True), ("TERM", "dumb", False), ("NO_COLOR", "1", False)]
    )
    def test_on_a_terminal_they_are_broken_between_words(self, monkeypatch, capsys, name, value, coloured):
        """In colour where that is wanted; commands to copy stay whole, and in a pipe all is as it was written."""
        long, command = "word " * 40 + "end", "  stalegrad resume " + "x" * 90

        def fail():
            raise stalegrad.StalegradError(f"{long}\n{command}")

        for each, other in {"TERM": "xterm", name: value}.items():
            monkeypatch.setenv(each, other)
        monkeypatch.setattr(cli, "app", fail)
        with pytest.raises(SystemExit):
            cli.main()
        assert capsys.readouterr().err == f"error: {long}\n{command}\n"
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit):
            cli.main()
        told = capsys.readouterr().err
        assert ("\x1b[" in told) == coloured
        lines = re.sub(r"\x1b\[[0-9;]*m", "", told).splitlines()
        assert lines[-1] == command
        assert max(map(len, lines[:-1])) <= 80
        assert " ".join(lines[:-1]) == f"error: {long}"

    def test_brackets_in_a_message_are_not_markup(self, monkeypatch, capsys):
        def failing():
            raise stalegrad.StalegradError("the folder [/red] and [bold]this")

        monkeypatch.setattr(cli, "app", failing)
        assert run_main(monkeypatch, capsys)[1].err == "error: the folder [/red] and [bold]this\n"

    def test_other_exceptions_are_bugs_and_show_where(self, monkeypatch):
        def failing():
            raise ZeroDivisionError

        monkeypatch.setattr(cli, "app", failing)
        with pytest.raises(ZeroDivisionError):
            cli.main()


class TestProgram:
    """``python -m stalegrad`` in a process of its own."""

    @pytest.mark.long
    def test_it_works_from_anywhere(self, fresh_python, tmp_path):
        arguments = ["simulate", "--max-workers", 2, "--steps", 100, "--law", "constant", "--out", "out"]
        done = fresh_python("-m", "stalegrad", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "updates/s" in done.stdout
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["scaling.json", "scaling.png"]

    def test_its_errors_go_to_standard_error(self, fresh_python):
        done = fresh_python("-m", "stalegrad", "simulate", "--bandwidth", -1)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "error: bandwidth=-1.0: is out of range. Give a finite number > 0.\n"
