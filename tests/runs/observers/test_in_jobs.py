"""Observers of job files and of the command line."""

import json

import pytest
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad.runs.jobs import JobFile

JOB = """
steps = 60
engine = "inline"
store = "x"
[model]
function = "stalegrad.datasets.models:gaussian"
[kernel]
name = "SGLD"
step_size = 1e-4
[[observers]]
name = "json"
path = "{path}"
every = 0.1
"""


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(path=tmp_path / "own.jsonl"))
    return path


def last(path):
    return json.loads(path.read_text().splitlines()[-1])


def test_those_of_the_file_and_of_the_command(job, tmp_path):
    more = tmp_path / "more.prom"
    result = CliRunner().invoke(cli.app, ["run", str(job), "--no-progress", "--observe", f"prometheus:{more}"])
    assert result.exit_code == 0, result.output
    assert last(tmp_path / "own.jsonl") | {"seconds": 0} == {"what": "end", "state": "finished", "seconds": 0}
    assert 'stalegrad_updates_total{run="x",chain="0"} 60' in more.read_text()
    result = CliRunner().invoke(cli.app, ["resume", str(tmp_path / "x"), "--steps", "90", "--no-progress"])
    assert result.exit_code == 0, result.output
    snapshots = [json.loads(line) for line in (tmp_path / "own.jsonl").read_text().splitlines()]
    assert [each for each in snapshots if each["what"] == "snapshot"][-1]["chains"][0]["updates"] == 90


def test_the_table_keeps_them(job):
    read = JobFile.read(job)
    assert JobFile.from_table(read.table()).observers == read.observers
    (observer,) = read.observer_objects()
    assert observer.every == 0.1


@pytest.mark.parametrize(
    ("line", "message"),
    [('name = "paper"', "paper"), ('name = "json"\nwhere = "x"', "where"), ('path = "x"', "names")],
)
def test_what_cannot_be(tmp_path, line, message):
    path = tmp_path / "job.toml"
    path.write_text(JOB.partition("[[observers]]")[0] + f"[[observers]]\n{line}\n")
    with pytest.raises(sg.StalegradError, match=message):
        JobFile.read(path).observer_objects()
