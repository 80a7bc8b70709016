"""``stalegrad plan``: what it prints, what it writes and how it fails."""

import json
import re
import shlex
import sys

import pytest
from typer.testing import CliRunner

from stalegrad import cli
from stalegrad.cli.common import console
from stalegrad.engines import available_cores

JOB = """
steps = 2000
burn_in = 100
workers = 2

[model]
function = "stalegrad.datasets.models:gaussian"
[model.arguments]
n_data = 100

[kernel]
name = "SGLD"
step_size = 1e-4
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def invoke(*arguments, columns=140):
    console.width = columns  # rich looks at COLUMNS when a console is made, which is long ago
    result = CliRunner().invoke(cli.app, ["plan", *map(str, arguments)], env={"COLUMNS": str(columns)})
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def test_a_table_a_recommendation_and_files(file, tmp_path):
    out = tmp_path / "out"
    status, output = invoke(file, "--seconds", 0.2, "--max-workers", 6, "--price", 0.05, "--out", out)
    assert status == 0, output
    begun = [re.match(r"(?:→ )?(\d+) +[\d.]+ ", line.strip()) for line in output.splitlines()]
    assert [int(row[1]) for row in begun if row] == [1, 2, 4, 6]
    for word in ("round trip", "price", "Workers: W =", "Step size:", "Chains: S = 1", "Cost:", "Minibatches:"):
        assert word in output
    assert f"wrote {out / 'plan.json'}" in output
    numbers = json.loads((out / "plan.json").read_text())
    assert numbers["calibration"]["engine"] == "threads"
    assert len(numbers["predictions"]) == 4
    assert (out / "scaling.png").is_file()


@pytest.mark.parametrize("columns", [80, 120])
def test_machines_that_are_named(file, columns):
    """Which layout, why, how long, how much memory, and what to type; on 80 columns nothing is lost."""
    arguments = ("--seconds", 0.2, "--machines", 4, "--cores", 8, "--link", "10G", "--memory", "64G")
    status, output = invoke(file, *arguments, columns=columns)
    assert status == 0, output
    begun = [re.match(r"(?:→ )?(\d+) +(\d+) +[\d.]+ ", line.strip()) for line in output.splitlines()]
    assert [(int(row[1]), int(row[2])) for row in begun if row] == [(1, 31), (2, 15), (4, 7), (8, 3), (32, 1)]
    assert output.count("→") == 1
    read = output.replace(" \\\n      ", " ")  # as a shell reads it
    for word in ("variance off", "bottleneck", "Memory:", "mpiexec -n", "srun -N 4", "--engine ray --address"):
        assert word in read
    assert max(len(line) for line in output.splitlines() if str(file) not in line) <= columns
    typed = shlex.split(read[read.index("\nsrun\n") :].split("\n\n")[0])
    assert typed[1:3] == ["srun", "-N"]
    assert str(file) in typed


@pytest.mark.long
def test_this_machine_is_run_on_not_simulated(file, tmp_path):
    """Every layout of its cores is run for a moment, one chain with a worker on each core among them."""
    cores = available_cores()
    out = tmp_path / "out"
    status, output = invoke(file, "--seconds", 0.2, "--machines", 1, "--cores", cores, "--out", out, columns=80)
    assert status == 0, output
    assert f"1 machine of {cores} cores, from short runs here" in output
    assert "\nthis machine\n  stalegrad run " in output
    rows = json.loads((out / "plan.json").read_text())["layouts"]
    assert {(row["servers"], row["workers"]) for row in rows} >= {(1, cores), (cores, 1)}
    assert all(row["measured"] for row in rows)
    assert [row["recommended"] for row in rows].count(True) == 1
    elsewhere = invoke(file, "--seconds", 0.2, "--machines", 1, "--cores", cores + 1)[1]
    assert f"1 machine of {cores + 1} cores, predicted" in elsewhere


def test_machines_need_cores_and_sizes_need_units(file):
    assert invoke(file, "--machines", 4)[0] == 2
    assert invoke(file, "--cores", 4, "--link", "fast")[0] == 2


@pytest.mark.long
def test_a_step_size_that_is_to_be_found(file):
    file.write_text(JOB.replace("1e-4", '"auto"'))
    out = file.parent / "plan"
    status, text = invoke(file, "--seconds", 1, "--max-workers", 4, "--out", out)
    assert status == 0, text
    numbers = json.loads((out / "plan.json").read_text())
    assert numbers["step_size"] is None
    assert len(numbers["predictions"]) == 3
    assert "the warm-up of a run finds it" in " ".join(text.split())


def test_a_virtual_engine_is_refused(file, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stalegrad", "plan", str(file), "--engine", "inline"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert "error: engine='inline': has no times to measure" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [("--seconds", 0, "seconds=0"), ("--error", 0, "error=0"), ("--bandwidth", -1, "bandwidth=-1")],
)
def test_numbers_that_cannot_be(file, monkeypatch, capsys, option, value, complaint):
    monkeypatch.setattr(sys, "argv", ["stalegrad", "plan", str(file), option, str(value)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert complaint in capsys.readouterr().err
