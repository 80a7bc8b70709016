"""Runs for the tests of commands."""

import pytest

import stalegrad as sg
import stalegrad.plots
import stalegrad.report
import stalegrad.run
import stalegrad.store
from stalegrad.result import Run

from .runs_on_a_shelf import JOB, Diagnosis, Shelf, invoke


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


@pytest.fixture
def kept(shelf):
    """A run in runs/job."""
    assert invoke("run", "job.toml", "--no-progress")[0] == 0
    shelf.calls.clear()
    return shelf
