"""Links that lie in a run's folder, which may have come from somebody else: ``report`` and ``plot`` follow none."""

import pytest

import stalegrad as sg
from stalegrad.testing import small_model

from .fake_stores import invoke, run_main


@pytest.fixture
def run(tmp_path):
    """The folder of a run, and a file of the user's that links may point to."""
    sg.sample(
        small_model(), sg.SGLD(step_size=0.002), steps=60, engine="inline", progress=False, store=tmp_path / "run"
    )
    mine = tmp_path / "mine"
    mine.write_text("precious")
    return tmp_path / "run", mine


@pytest.mark.long
def test_a_report_replaces_a_link_of_its_name(run):
    folder, mine = run
    (folder / "report.html").symlink_to(mine)
    assert invoke("report", folder)[0] == 0
    assert mine.read_text() == "precious"
    assert not (folder / "report.html").is_symlink()
    assert "<html" in (folder / "report.html").read_text()


@pytest.mark.long
def test_pictures_replace_links_of_their_names(run):
    folder, mine = run
    (folder / "plots").mkdir()
    (folder / "plots" / "overview.png").symlink_to(mine)
    assert invoke("plot", folder)[0] == 0
    assert mine.read_text() == "precious"
    assert (folder / "plots" / "overview.png").read_bytes().startswith(b"\x89PNG")
    assert not [path for path in (folder / "plots").iterdir() if path.suffix != ".png"]


@pytest.mark.long
def test_no_picture_is_put_where_a_link_leads(run, tmp_path, monkeypatch, capsys):
    folder, _ = run
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "plots").symlink_to(elsewhere)
    status, told = run_main(monkeypatch, capsys, "plot", folder)
    assert status == 1
    assert "is a link out of the run's folder. Delete it, or say where to: --out FOLDER" in told.err
    assert list(elsewhere.iterdir()) == []
    assert invoke("plot", folder, "--out", elsewhere)[0] == 0
    assert (elsewhere / "overview.png").exists()
