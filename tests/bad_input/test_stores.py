"""Folders of runs in which one file is not as it should be: shown and resumed, or refused with the name of the file."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stalegrad as sg
from stalegrad import cli
from stalegrad.cli import screens
from stalegrad.runs.store import inspect
from stalegrad.runs.summary import summarise

from .conftest import KERNEL, cases, taken_or_refused
from .mutations import damaged, json_files

EVENTS = [{"time": 0.5, "chain": 0, "worker": 1, "kind": "raised", "details": "Traceback (most recent call last)"}]


@pytest.fixture(scope="session")
def folder(run):
    (run.store / "chain-0" / "events.json").write_text(json.dumps(EVENTS))
    return run.store


@st.composite
def damage(draw, folder):
    """A file of a store and what is in it now; None if it is gone."""
    names = sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "lock"
    )
    described = [name for name in names if name.endswith(".json")]
    name = draw(st.sampled_from(described * 3 + ["run.json", "status.json"] * 6 + names))
    content = (folder / name).read_bytes()
    if draw(st.integers(0, 30)) == 0:
        return name, None
    return name, draw(json_files(json.loads(content)) if name.endswith(".json") else damaged(content))


def put(folder, name, content):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)


@cases(0.25)
@given(data=st.data())
def test_looking_at_a_store(data, folder):
    name, content = data.draw(damage(folder))
    before = (folder / name).read_bytes()
    put(folder, name, content)
    try:
        with taken_or_refused(folder):
            info, run = inspect(folder), sg.load(folder)
            np.asarray(run.draws)
            json.dumps({**screens.plain_info(info), **summarise(run).table()})
            with cli.common.console.capture() as shown:
                screens.show(cli.common.console, info, summarise(run), str(run.diagnose()))
            assert "\x1b]" not in shown.get()
        with cli.common.console.capture():
            screens.show_list(cli.common.console, [screens.listed(folder)])
    finally:
        (folder / name).write_bytes(before)


@cases(0.05)
@given(data=st.data())
def test_going_on_with_a_store(data, folder, model, tmp_path_factory):
    """Settings that would only make the run longer are given anew."""
    name, content = data.draw(damage(folder))
    copy = tmp_path_factory.getbasetemp() / "resumed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    put(copy, name, content)
    with taken_or_refused(copy, "steps", "workers", "kernel", "architecture", "max_staleness", "initial"):
        run = sg.resume(copy, model, KERNEL, steps=30, workers=3, engine="inline", progress=False)
        assert [chain.steps for chain in run.trace.chains] == [30, 30]
