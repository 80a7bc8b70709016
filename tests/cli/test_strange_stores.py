"""Folders of runs that are damaged, or that somebody has filled with strange names: nothing here is a stand-in."""

import json

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.datasets.models import gaussian
from stalegrad.protocol.architectures import StaleGradients

from .fake_stores import invoke, run_main

OWN_ARCHITECTURE = """
from dataclasses import dataclass
from stalegrad.protocol.architectures import StaleGradients

@dataclass(frozen=True)
class Own(StaleGradients):
    knob: int = 0
"""
STRANGE = "\x1b]0;title\x07\x1b[2J$x{$ [/red]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder runs/ with two runs in it, good and other."""
    monkeypatch.chdir(tmp_path)
    for name in ("good", "other"):
        sg.sample(
            gaussian(n_data=20, dimensions=2), sg.SGLD(step_size=0.01), steps=12, workers=2, engine="inline",
            progress=False, store=f"runs/{name}",
        )  # fmt: skip
    return tmp_path / "runs"


def change(path, change):
    table = json.loads(path.read_text())
    change(table)
    path.write_text(json.dumps(table))


def test_a_run_without_kernels_does_not_hide_the_others(folder):
    change(folder / "other" / "run.json", lambda run: run["record"].update(kernels=[]))
    status, output, _ = invoke("list")
    assert status == 0
    assert "good" in output
    assert "finished" in output
    assert "record.kernels=[]: has 0 tables for 1 chains" in " ".join(output.split())


def test_whatever_goes_wrong_with_one_run_the_others_are_listed(folder, monkeypatch):
    def size(info):
        if info.path.name == "other":
            raise ZeroDivisionError
        return 1

    monkeypatch.setattr("stalegrad.runs.store.folder.Info.bytes_on_disk", size)
    status, output, _ = invoke("list")
    assert status == 0
    assert "other: ZeroDivisionError" in output


def test_looking_at_a_run_imports_nothing_that_it_names(folder, tmp_path, monkeypatch):
    """An architecture of somebody's own is imported when the run goes on, or is replayed, and not before."""
    (tmp_path / "planted.py").write_text("from pathlib import Path\nPath('executed').touch()\n" + OWN_ARCHITECTURE)
    monkeypatch.syspath_prepend(tmp_path)
    table = {"name": "planted:Own", "knob": 3}
    change(folder / "good" / "run.json", lambda run: run["record"]["settings"].update(architecture=table))
    for command in (["list"], ["show", folder / "good"], ["report", folder / "good"]):
        assert invoke(*command)[0] == 0
    run = sg.load(folder / "good")
    run.trace.save(tmp_path / "trace.npz")
    trace = sg.Trace.load(tmp_path / "trace.npz")
    assert trace.record.table() == run.trace.record.table()
    assert trace.record.table()["settings"]["architecture"] == table
    assert not (tmp_path / "executed").exists()
    again = sg.replay(trace, gaussian(n_data=20, dimensions=2), sg.SGLD(step_size=0.01))
    assert (tmp_path / "executed").exists()
    assert type(again.trace.architecture).__name__ == "Own"
    np.testing.assert_array_equal(again.draws, run.draws)
    more = sg.resume(folder / "good", gaussian(n_data=20, dimensions=2), steps=24, progress=False)
    assert more.trace.architecture == again.trace.architecture
    assert more.draws.shape[1] == 24


def test_an_architecture_that_cannot_be_imported_is_named_where_it_is_needed(folder):
    table = {"name": "gone_by_now:Own"}
    change(folder / "good" / "run.json", lambda run: run["record"]["settings"].update(architecture=table))
    run = sg.load(folder / "good")
    told = r"architecture='gone_by_now:Own': is one of your own.*No module named 'gone_by_now'.*Put its module on"
    with pytest.raises(sg.ArgumentError, match=told):
        sg.replay(run.trace, gaussian(n_data=20, dimensions=2), sg.SGLD(step_size=0.01))
    with pytest.raises(sg.ArgumentError, match=told):
        sg.resume(folder / "good", gaussian(n_data=20, dimensions=2), steps=24)
    plain = StaleGradients()
    again = sg.replay(run.trace, gaussian(n_data=20, dimensions=2), sg.SGLD(step_size=0.01), architecture=plain)
    np.testing.assert_array_equal(again.draws, run.draws)


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("run.json", lambda run: run.pop("created"), "created=None: is not text"),
        ("run.json", lambda run: run.update(version=3), "version=3: is not text"),
        ("run.json", lambda run: run.pop("record"), "record=None: is not a table"),
        ("run.json", lambda run: run["record"]["model"].update(size="x"), "record.model.size='x': is not a whole"),
        ("run.json", lambda run: run["record"]["model"].update(layout={"x": [1]}), "has 1 entries, and the model"),
        ("status.json", lambda status: status.pop("state"), "state=None: is not known"),
        ("status.json", lambda status: status["sessions"][0].pop("steps"), "sessions[0].steps=None"),
        ("status.json", lambda status: status.update(sessions=3), "sessions=3: is not a list"),
        ("chain-0/checkpoint.json", lambda commit: commit.update(state="../../x.npz"), "is not the checkpoint's file"),
        ("chain-0/checkpoint.json", lambda commit: commit.update(draws=1000), "is not between 1000 draws and"),
        ("chain-0/checkpoint.json", lambda commit: commit.pop("rows"), "rows=None: is not a whole number"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_one_line_with_its_name(folder, monkeypatch, capsys, file, damage, words):
    change(folder / "good" / file, damage)
    status, told = run_main(monkeypatch, capsys, "show", "runs/good")
    assert status == 1
    assert told.err.startswith(f"error: runs/good/{file} is damaged: ")
    assert words in told.err
    assert told.err.count("\n") == 1


def test_brackets_without_end(folder, monkeypatch, capsys):
    (folder / "good" / "status.json").write_text("[" * 100_000)
    status, told = run_main(monkeypatch, capsys, "show", "runs/good")
    assert status == 1
    assert told.err.startswith("error: runs/good/status.json is damaged: ")


def test_arrays_of_another_shape(folder, monkeypatch, capsys):
    change(folder / "good" / "chain-0" / "draws" / "zarr.json", lambda array: array.update(shape=[12, 3]))
    status, told = run_main(monkeypatch, capsys, "show", "runs/good")
    assert status == 1
    assert "the array runs/good/chain-0/draws is damaged: it holds float32 in rows of (3,)" in told.err


def test_a_rule_of_thinning_that_the_draws_do_not_follow(folder, monkeypatch, capsys):
    change(folder / "good" / "run.json", lambda run: run["record"]["settings"].update(thin=3))
    status, told = run_main(monkeypatch, capsys, "show", "runs/good")
    assert status == 1
    assert "does not go with runs/good/run.json: 12 updates make 4 draws, and 12 are kept" in told.err


@pytest.mark.long
def test_escape_sequences_are_written_out_and_dollars_are_no_mathematics(folder, monkeypatch, capsys):
    """In names of parameters, of classes, of folders, in failures: on the screen, in pictures and on the page."""
    change(folder / "good" / "run.json", lambda run: run["record"]["model"].update(layout={STRANGE: [2]}, type=STRANGE))
    change(folder / "good" / "status.json", lambda status: status.update(state="failed", failure=f"no: {STRANGE}"))
    event = {"time": 1.0, "chain": 0, "worker": 0, "kind": STRANGE, "details": STRANGE}
    (folder / "good" / "chain-0" / "events.json").write_text(json.dumps([event]))
    (folder / "good").rename(folder / "\x1b[2J$")
    (folder / "\x1b[31mbroken").mkdir()
    for command in (["list"], ["show", "runs/\x1b[2J$"], ["plot", "runs/\x1b[2J$"], ["report", "runs/\x1b[2J$"]):
        status, told = run_main(monkeypatch, capsys, *command)
        assert status == 0, told.err
        assert "\x1b" not in told.out + told.err
        assert "\\x1b" in told.out
    status, told = run_main(monkeypatch, capsys, "show", "runs/\x1b[31mbroken")
    assert status == 1
    assert told.err.startswith("error: runs/\\x1b[31mbroken holds no run")
