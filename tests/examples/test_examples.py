"""The examples run as they stand, and show what they say they show."""

import importlib
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.jobs import JobFile
from stalegrad.testing import check_engine

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SHOWN = {
    "fine_tuning.py": r"(?s)40 images, N\(θ₀, 0\.[25]²\): test loss (0\.[89]|1\.[01])\d+.*it was: test loss 1\.[3-6]",
    "last_layer.py": r"(?s)330 parameters .*computed once: what 'head' is given of 1,297 data.*90°: mean entropy \d",
    "lora.py": r"(?s)[\d,]+ of [\d,]+ parameters are sampled\nbefore: \d\.\d+ nats.*averaged: \d\.\d+ nats",
    "local_learning_coefficient.py": r"(?s)regular: (1\.0|0\.9).*singular: 0\.[34]\d.*regular, exactly: 0\.99\d",
    "modes_and_ensembles.py": r"(?s)one chain .* modes found: 1\n.*cycles .* modes found: 4",
    "uncertain_images.py": r"(?s)16 draws, none kept: 0 in memory.*noise: AUROC 0\.[89]\d\d",
    "chains_or_workers.py": r"staleness compensated, far away, few draws: [12] chains",
    "free_staleness.py": r"server owns A = 1 .* 16:\s+1\.0\d",
    "hierarchical_model.py": r"mu: \d\.\d\d ± 0\.\d\d",
    "kill_and_resume.py": r"replayed bit for bit: True",
    "real_data_classifier.py": r"posterior average  accuracy 0\.9\d\d",
    "simulated_cluster.py": r"64 workers: +\d+ updates/s, staleness +6\d\.\d",
    "trust_a_run.py": r"(?s)no findings.*step size.*staleness: gradients were 15\.0.*funnel:",
}
"""Examples of the gallery, and what each must have printed at the size of tests."""


@pytest.fixture(autouse=True)
def without_windows(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.fixture
def output_of(fresh_python):
    def run(name):
        done = fresh_python(EXAMPLES / name)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_no_example_is_left_out():
    tested = {
        "equinox_module.py",
        "flax_module.py",
        "logistic.py",
        "own_architecture.py",
        "own_engine.py",
        "own_kernel.py",
        "own_potential.py",
        "topics.py",
    }  # logistic.py by tests/runs/jobs
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested | SHOWN.keys()


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_the_gallery_shows_what_it_says(name, output_of, monkeypatch):
    monkeypatch.setenv("STALEGRAD_EXAMPLES", "small")
    assert re.search(SHOWN[name], output_of(name))


def test_equinox_module(output_of):
    shown = output_of("equinox_module.py")
    assert "354 parameters: layers.0.weight, layers.0.bias" in shown
    assert float(re.search(r"average: accuracy ([\d.]+)", shown)[1]) > 0.93


def test_flax_module(output_of):
    shown = output_of("flax_module.py")
    assert "97 parameters: hidden.bias" in shown
    spreads = re.findall(r"± ([\d.]+), (seen|not seen)", shown)
    seen, not_seen = ([float(number) for number, w in spreads if w == where] for where in ("seen", "not seen"))
    assert min(not_seen) > 1.5 * max(seen)


def test_own_potential(output_of):
    shown = output_of("own_potential.py")
    found = [float(x) for x in re.findall(r"-?[\d.]+", shown.partition("coefficients: [")[2].partition("]")[0])]
    assert np.abs(np.array(found) - [0.5, -0.3, 0.1]).max() < 0.1


def test_own_kernel(output_of):
    shown = output_of("own_kernel.py")
    assert "replayed bit for bit: True" in shown
    ratios = [float(x) for x in re.findall(r"[\d.]+", shown.partition("posterior: [")[2])]
    assert len(ratios) == 5
    assert 0.7 < min(ratios) <= max(ratios) < 1.4


def test_own_architecture(output_of):
    assert "replayed bit for bit: True" in output_of("own_architecture.py")


@pytest.mark.parametrize("engine", ["inline", "threads", "processes"])
def test_parts_of_a_users_own_are_stored_resumed_and_replayed(engine, monkeypatch, tmp_path):
    """A kernel, a model and an architecture from a user's files, by the names that a store keeps of them."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    kernel = importlib.import_module("own_kernel").ExactFriction(step_size=1e-3)
    architecture = importlib.import_module("own_architecture").ClippedGradients(most=1e4)
    module = importlib.import_module("own_potential")
    model = module.PoissonRegression(*module.made_up(200))
    settings = {"workers": 2, "engine": engine, "architecture": architecture, "progress": False}
    sg.sample(model, kernel, steps=50, store=tmp_path / "run", **settings)
    run = sg.resume(tmp_path / "run", model, steps=100, progress=False)  # kernel and architecture from the store
    assert run.trace.architecture == architecture
    again = sg.replay(sg.load(tmp_path / "run").trace, model, kernel)
    np.testing.assert_array_equal(again.draws, np.asarray(run.draws[:]))


def test_own_engine(output_of):
    assert "replayed bit for bit: True" in output_of("own_engine.py")


@pytest.mark.usefixtures("compiled")
def test_an_engine_of_a_users_own_keeps_every_promise(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before = threading.active_count()
    check_engine(importlib.import_module("own_engine").Sockets())
    assert threading.active_count() < before + 10  # workers and readers end with their connections


def test_topics(output_of):
    """Topics in which all words are equally likely would be at 0.6 from the truth, all three at their mean at 0.3."""
    shown = output_of("topics.py")
    distances = [float(number) for number in re.findall(r"total variation ([\d.]+)", shown)]
    assert len(distances) == 3
    assert max(distances) < 0.1
    assert float(re.search(r"([\d.]+) updates old", shown)[1]) > 1


def test_job_files_name_parts_of_a_users_own(tmp_path, monkeypatch):
    """Classes in files beside the job file; what cannot be imported elsewhere does not keep a store from being read."""
    for name in ("own_kernel.py", "own_architecture.py", "own_engine.py"):
        (tmp_path / f"job_{name}").write_text((EXAMPLES / name).read_text())
    (tmp_path / "job.toml").write_text(
        'steps = 30\nworkers = 2\nmodel = "stalegrad.testing:small_model"\nengine = "job_own_engine:Sockets"\n'
        'store = "run"\n[kernel]\nname = "job_own_kernel:ExactFriction"\nstep_size = 0.004\n'
        '[architecture]\nname = "job_own_architecture:ClippedGradients"\nmost = 100.0\n'
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    job = JobFile.read(tmp_path / "job.toml")
    potential = job.potential()
    run = sg.sample(potential, progress=False, **job.arguments(potential))
    again = sg.replay(run.trace, potential, job.kernels(potential.n_data))
    np.testing.assert_array_equal(again.draws, np.asarray(run.draws[:]))
    for name in ("job_own_kernel", "job_own_architecture", "job_own_engine"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    stored = sg.load(tmp_path / "run")
    assert stored.draws.shape == run.draws.shape
    with pytest.raises(sg.ArgumentError, match="Put its module on Python's path"):
        sg.replay(stored.trace, potential, sg.SGLD(step_size=0.004))
