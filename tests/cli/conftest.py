"""Runs for the tests of commands."""

import pytest

import stalegrad as sg
import stalegrad.analysis.plots
import stalegrad.analysis.report
import stalegrad.runs.sample
import stalegrad.runs.store
from stalegrad.runs.result import Run

from .fake_stores import JOB, Diagnosis, FakeStores, invoke


@pytest.fixture
def stores(monkeypatch, tmp_path):
    """A stand-in for the store and all that looks at runs, in an empty current folder."""
    stores = FakeStores()
    monkeypatch.setattr(stalegrad.runs.store, "inspect", stores.inspect)
    monkeypatch.setattr(stalegrad.analysis.plots, "plot_run", lambda run, out: [out / "overview.png"])
    page = "{title}-{about[state]}.html"
    monkeypatch.setattr(stalegrad.analysis.report, "write_report", lambda run, out, **words: out / page.format(**words))
    monkeypatch.setattr(stalegrad.runs.sample, "sample", stores.sample)
    monkeypatch.setattr(sg, "load", stores.load, raising=False)
    monkeypatch.setattr(sg, "resume", stores.resume, raising=False)
    monkeypatch.setattr(Run, "diagnose", lambda run, potential: Diagnosis(potential), raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    return stores


@pytest.fixture
def kept(stores):
    """A run in runs/job."""
    assert invoke("run", "job.toml", "--no-progress")[0] == 0
    stores.calls.clear()
    return stores
