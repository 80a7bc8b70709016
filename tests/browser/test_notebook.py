"""Notebooks: progress that is replaced in place, and what objects show of themselves, run by nbclient."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "browser-output"
CELLS = [
    """
import sys, logging
sys.path.insert(0, {source!r})
import numpy as np
import stalegrad as sg
X = np.random.default_rng(0).normal(size=(500, 3))
y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
model = sg.potentials.Logistic(X, y, batch_size=20)
import time
class Slow(sg.potentials.Potential):
    layout = {{"<b>w</b>": (3,)}}
    def __init__(self):
        super().__init__(3, model.minibatches, model.dtype)
    def gradient(self, theta, indices):
        time.sleep(0.002)
        return model.gradient(theta, indices)
""",
    """
shape = {{"steps": 600, "workers": 2, "servers": 2}}
run = sg.sample(Slow(), sg.SGLD(step_size=1e-3), **shape, functions={{"first": lambda t: t[0]}})
""",
    "run",
    "run.trace",
    "run.diagnose()",
    "run.estimate(lambda theta: theta)",
    """
from pathlib import Path
from stalegrad.planning import forecast
from stalegrad.runs.jobs import JobFile
import tempfile
place = Path(tempfile.mkdtemp())
lines = ['steps = 500', 'workers = 2', '[model]', 'function = "stalegrad.datasets.models:logistic"', '[kernel]']
(place / "job.toml").write_text("\\n".join([*lines, 'name = "SGLD"', 'step_size = 1e-4']))
plan = forecast(JobFile.read(place / "job.toml"), max_workers=4, seconds=2.0)
plan
""",
]


@pytest.fixture(scope="module")
def notebook():
    cells = [nbformat.v4.new_code_cell(cell.format(source=str(ROOT / "src"))) for cell in CELLS]
    made = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(made, timeout=300, kernel_name="python3")
    updates = []
    process = client.process_message

    def counted(message, cell, index):
        if message["header"]["msg_type"] == "update_display_data":
            updates.append(message["content"]["data"].get("text/html", ""))
        return process(message, cell, index)

    client.process_message = counted
    client.execute()
    return made, updates


def html(cell):
    return [out["data"]["text/html"] for out in cell.outputs if "text/html" in out.get("data", {})]


def test_progress_is_one_card_that_is_replaced_in_place(notebook):
    made, updates = notebook
    shown = html(made.cells[1])
    assert len(shown) == 2  # the progress, replaced again and again, and what the run's own diagnosis says
    assert len(updates) >= 2
    assert "sampling" in updates[0]
    assert "sampled" in shown[0]
    assert "100%" in shown[0]
    assert "first = " in shown[0]
    assert "Diagnosis" in shown[1]


def test_objects_show_themselves(notebook):
    made, _ = notebook
    titles = ("Run", "Trace", "Diagnosis", "Estimate", "Plan")
    for cell, title in zip(made.cells[2:], titles, strict=True):
        (shown,) = html(cell)
        assert f'<span class="sg-title">{title}</span>' in shown
        assert "<script" not in shown
    (run,) = html(made.cells[2])
    assert "&lt;b&gt;w&lt;/b&gt;[0]" in run
    assert "<b>w</b>" not in run


def test_how_it_looks(notebook, open_browser):
    """For people: a picture of all of it."""
    made, _ = notebook
    SHOTS.mkdir(exist_ok=True)
    body = "".join(piece for cell in made.cells for piece in html(cell))
    page = SHOTS / "notebook.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{body}</body>", encoding="utf-8")
    browser = open_browser(1000, 1900)
    browser.get(page.as_uri())
    browser.save_screenshot(str(SHOTS / "notebook.png"))
    assert browser.execute_script("return document.querySelectorAll('.sg-card').length") == 7
