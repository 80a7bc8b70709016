"""Command lines: done, refused by the parser with status 2, or refused in words."""

import importlib
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from stalegrad import cli
from stalegrad.analysis import plots

from .conftest import MODEL, cases, taken_or_refused
from .mutations import NUMBERS, SHORT_TEXT, toml

JOB = {
    "steps": 20,
    "workers": 2,
    "engine": "inline",
    "model": {"function": "stalegrad.datasets.models:gaussian", "arguments": MODEL},
    "kernel": {"name": "SGLD", "step_size": 0.01},
}
WORDS = st.one_of(SHORT_TEXT, NUMBERS.filter(lambda n: not 1000 < n < 1e18).map(str))
SMALL = st.sampled_from(["1", "2", "3", "0", "-1", "", "x", "1.5", "1e9999", "nan", "9" * 30, "２"])
PLACES = st.sampled_from(
    ["good", "", ".", "nowhere", "job.toml", "/dev/null", "\x1b[2J", "a\x00b", "x" * 300, "good/run.json"]
)
ENGINES = st.sampled_from(["inline", "threads", "", "Inline", "no.such:Engine"])
MODELS = st.sampled_from(
    ["stalegrad.datasets.models:gaussian", "x", "x:y", "stalegrad.datasets.models:no", ":", "os:sep"]
)
FOLDERS = {"--out": st.sampled_from(["out", "job.toml/x", "/dev/null", "good/run.json", "\x00", "new/deep"])}
STEPS = {"--steps": st.sampled_from(["21", "30", "0", "-3", "x", "1e3"]), "--workers": SMALL, "--engine": ENGINES}
COMMANDS = {
    "run": (["job.toml"], {**STEPS, "--servers": SMALL, "--seed": SMALL, "--store": PLACES}, ["--no-progress"]),
    "resume": (["good"], {**STEPS, "--model": MODELS}, ["--no-progress"]),
    "show": (["good"], {}, ["--json"]),
    "list": (["."], {}, ["--json"]),
    "plot": (["good"], FOLDERS, []),
    "report": (["good"], FOLDERS, []),
    "simulate": (
        [],
        {
            "--max-workers": SMALL, "--compute": WORDS, "--law": SHORT_TEXT, "--variation": WORDS,
            "--stragglers": WORDS, "--straggler-factor": WORDS, "--update": WORDS, "--latency": WORDS,
            "--bandwidth": WORDS, "--parameters": WORDS, "--max-staleness": SMALL,
            "--policy": st.sampled_from(["drop", "wait", "x"]), "--seed": SMALL, **FOLDERS,
        },
        ["--steps=100"],
    ),
    "plan": (
        ["job.toml"],
        {
            "--seconds": st.sampled_from(["0", "-1", "nan", "x"]), "--error": WORDS, "--price": WORDS,
            "--engine": ENGINES,
        },
        ["--max-workers=2", "--within=-1"],
    ),
    "reproduce": (["fig1"], {"--runs": st.sampled_from(["0", "x", "2"]), "--seed": SMALL}, []),
}  # fmt: skip


@st.composite
def command_lines(draw):
    """A command with arguments and options, most of them its own."""
    command = draw(st.sampled_from(["run", "resume", "show", "list", "simulate", *COMMANDS]))
    arguments, options, always = COMMANDS[command]
    line = [*arguments, *always]
    if line and draw(st.integers(0, 3)) == 0:
        line[0] = draw(PLACES)
    for name in draw(st.lists(st.sampled_from(sorted(options)), max_size=3, unique=True)) if options else ():
        line += [f"{name}={draw(options[name])}"]
    if draw(st.integers(0, 9)) == 0:
        line.insert(draw(st.integers(0, len(line))), draw(WORDS | st.just("--no-such-option")))
    return [command, *line]


@pytest.fixture
def place(run, tmp_path_factory, monkeypatch):
    """A folder with a run and a job, made anew for every case by the function that this gives."""
    home = tmp_path_factory.getbasetemp() / "command-lines"

    def fresh():
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(run.store, home / "good")
        (home / "job.toml").write_text(toml(JOB))
        monkeypatch.chdir(home)

    return fresh


@pytest.fixture
def drawn_once(monkeypatch):
    """Draw a picture of each size and colour once, and take it from memory where the next command line wants it.

    All command lines look at the same run, and matplotlib would take most of the time of this file.
    """
    kept = {}

    def png(figure):
        look = (*figure.get_size_inches(), *figure.get_facecolor())
        if look not in kept:
            kept[look] = plots.png(figure)
        return kept[look]

    for module in ("plots.pictures", "report.report"):
        monkeypatch.setattr(importlib.import_module(f"stalegrad.analysis.{module}"), "png", png)


@pytest.mark.long
@pytest.mark.usefixtures("drawn_once")
@cases(0.1)
@given(line=command_lines())
def test_command_lines(line, place):
    place()
    result = None
    with taken_or_refused():
        result = CliRunner().invoke(cli.app, line)
        if result.exception is not None and not isinstance(result.exception, SystemExit | OSError):
            raise result.exception
    if result is not None and isinstance(result.exception, SystemExit):
        assert result.exit_code in (0, 1, 2, 130)
