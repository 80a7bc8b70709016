"""Job files: what they say becomes the arguments of sample, on every engine, and survives in a stored table."""

import inspect
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Inline, Processes, Ray, Threads
from stalegrad.engines.simulation import LogNormal
from stalegrad.kernels.schedules import Inverse
from stalegrad.protocol.settings import CHOSEN, Settings
from stalegrad.runs.jobs import JobFile, ModelFunction

pytestmark = pytest.mark.usefixtures("compiled")

ROOT = Path(__file__).resolve().parents[3]

SMALL = """
model = "stalegrad.datasets.models:gaussian"
steps = 40
kernel = {name = "SGLD", step_size = 1e-4}
"""

FULL = """
steps = 400
servers = 2
workers = 3
max_staleness = 16
policy = "wait"
burn_in = 100
thin = 3
seed = 5
engine = "inline"
store = "runs/first"
checkpoint_every = 5
on_store_error = "continue"
messages = "bfloat16"

[model]
function = "stalegrad.datasets.models:gaussian"
arguments = {n_data = 50, dimensions = 3, batch_size = 5}

[kernel]
name = "SGHMC"
friction = 10
step_size = {name = "Inverse", base = 1e-2, gamma = 1e-3}

[engines.inline]
compute = {name = "LogNormal", mean = 0.02}

[engines.processes]
threads = 2
"""


def arguments_of(job):
    return job.arguments(job.potential())


def test_little_need_be_said(write_job):
    job = JobFile.read(write_job(SMALL, "tiny.toml"))
    assert (job.name, job.folder) == ("tiny", write_job(SMALL).parent)
    arguments = arguments_of(job)
    assert arguments == {
        "kernel": sg.SGLD(step_size=1e-4), "engine": Threads(), "steps": 40, "servers": 1, "workers": 1,
        "max_staleness": None, "policy": "drop", "seed": 0, "burn_in": None, "thin": 1,
        "warmup": "auto", "architecture": None, "messages": "float32", "checkpoint_every": 60.0,
        "on_store_error": "stop",
        "keep": "all",
    }  # fmt: skip


def test_all_can_be_said(write_job):
    path = write_job(FULL)
    job = JobFile.read(path)
    potential = job.potential()
    assert (potential.n_data, potential.size, potential.batch_size) == (50, 3, 5)
    arguments = job.arguments(potential)
    assert arguments.pop("job") == job.table()
    assert arguments == {
        "kernel": sg.SGHMC(friction=10, step_size=Inverse(1e-2, 1e-3)), "engine": Inline(compute=LogNormal(0.02)),
        "steps": 400, "servers": 2, "workers": 3, "max_staleness": 16, "policy": "wait", "seed": 5, "burn_in": 100,
        "thin": 3, "warmup": "auto", "architecture": None, "store": path.parent / "runs" / "first",
        "messages": "bfloat16", "checkpoint_every": 5, "on_store_error": "continue",
        "keep": "all",
    }  # fmt: skip


def test_defaults_are_those_of_sample():
    theirs = inspect.signature(sg.sample).parameters
    ours = {f.name: f.default for f in fields(Settings) if f.name in CHOSEN}
    # the first has none; to sample None is StaleGradients(), and a burn-in that is chosen
    del ours["steps"], ours["architecture"], ours["burn_in"]
    assert ours == {name: theirs[name].default for name in ours}
    assert set(CHOSEN) <= set(theirs)
    assert JobFile.engine == "threads"


def test_one_kernel_for_each_server(write_job):
    text = """
        model = "stalegrad.datasets.models:gaussian"
        steps = 10
        servers = 2
        [[kernel]]
        name = "SGLD"
        step_size = 1e-4
        [[kernel]]
        name = "SGLD"
        step_size = 2e-4
    """
    job = JobFile.read(write_job(text))
    assert arguments_of(job)["kernel"] == [sg.SGLD(step_size=1e-4), sg.SGLD(step_size=2e-4)]
    assert JobFile.from_table(json.loads(json.dumps(job.table()))) == job


def test_the_units_of_sgd_take_the_number_of_data_from_the_model(write_job):
    text = SMALL.replace('{name = "SGLD", step_size = 1e-4}', '{name = "SGHMC", sgd = {lr = 0.1, momentum = 0.9}}')
    assert arguments_of(JobFile.read(write_job(text)))["kernel"] == sg.SGHMC.from_sgd(0.1, 0.9, n_data=1000)


@pytest.mark.parametrize("text", [SMALL, FULL], ids=["small", "full"])
def test_a_stored_table_is_enough(write_job, text):
    path = write_job(text)
    job = JobFile.read(path)
    path.unlink()
    again = JobFile.from_table(json.loads(json.dumps(job.table(), allow_nan=False)))
    assert again == job.changed() if job.store is None else again.changed(store=job.store) == job
    assert np.array_equal(again.potential().posterior()[0], job.potential().posterior()[0])


def test_the_address_of_a_cluster_goes_to_the_engine(write_job):
    job = JobFile.read(write_job(SMALL)).changed(engine="ray", engines={"ray": {"cpus_per_worker": 0.5}})
    assert job.at("127.0.0.1:6379").engine_object() == Ray(address="127.0.0.1:6379", cpus_per_worker=0.5)
    with pytest.raises(sg.ArgumentError, match=r"engines\.threads\.address.*is not known"):
        job.changed(engine="threads").at("127.0.0.1:6379")


def test_changes_are_checked_like_the_file(write_job):
    job = JobFile.read(write_job(FULL))
    changed = job.changed(engine="processes", workers=7, servers=None, steps=800, seed=9, store=Path("elsewhere"))
    settings = changed.settings
    assert (settings.workers, settings.servers, settings.steps, settings.seed) == (7, 2, 800, 9)
    assert changed.store == Path("elsewhere")
    assert changed.engine_object() == Processes(threads=2)
    assert changed.engine_object("threads") == Threads()
    with pytest.raises(sg.ArgumentError, match="burn_in=100: and thin=3 leave no draw of 50 steps"):
        job.changed(steps=50)
    with pytest.raises(sg.ArgumentError, match="engine='smp': is not known"):
        job.changed(engine="smp")


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
def test_the_same_file_serves_every_engine(write_module, write_job, engine):
    """The module lies beside the file; worker processes, which start elsewhere, find it as well."""
    name = write_module(
        """
import stalegrad as sg


class Own(sg.potentials.GaussianMean):
    pass


def model(n):
    return Own([float(i) for i in range(n)], batch_size=2)
"""
    )
    text = FULL.replace("stalegrad.datasets.models:gaussian", f"{name}:model").replace("policy", "# policy")
    text = text.replace("{n_data = 50, dimensions = 3, batch_size = 5}", "{n = 20}").replace("store =", "# store =")
    job = JobFile.read(write_job(text)).changed(engine=engine)
    potential = job.potential()
    assert type(potential).__name__ == "Own"
    run = sg.sample(potential, progress=False, **job.arguments(potential))
    assert run.draws.shape == (2, 100, 1)
    assert run.trace.record.engine["name"] == engine
    again = sg.replay(run.trace, potential, job.kernels(potential.n_data))
    assert np.array_equal(again.draws, run.draws)


class TestModelFunctions:
    def test_the_files_folder_comes_first(self, write_module, tmp_path, monkeypatch):
        made = "import stalegrad as sg\ndef model(): return sg.potentials.GaussianMean([{}])"
        name = write_module(made.format(1.0), tmp_path / "elsewhere")
        write_module(made.format("1.0, 2.0"), tmp_path / "beside", name)
        monkeypatch.syspath_prepend(tmp_path / "elsewhere")
        assert ModelFunction(f"{name}:model").potential(tmp_path / "beside").n_data == 2

    def test_then_where_python_looks(self, write_module, tmp_path, monkeypatch):
        name = write_module("import stalegrad as sg\ndef model(): return sg.potentials.GaussianMean([1.0])")
        (tmp_path / "empty").mkdir()
        monkeypatch.syspath_prepend(tmp_path)
        assert ModelFunction(f"{name}:model").potential(tmp_path / "empty").n_data == 1

    def test_the_current_folder_counts_too(self, write_module, write_job, tmp_path, monkeypatch):
        name = write_module("import stalegrad as sg\ndef model(): return sg.potentials.GaussianMean([1.0])")
        path = write_job(SMALL.replace("stalegrad.datasets.models:gaussian", f"{name}:model"), "jobs/small.toml")
        monkeypatch.chdir(tmp_path)
        assert JobFile.read(path).potential().n_data == 1

    @pytest.mark.parametrize("init", [True, False], ids=["package", "folder"])
    def test_modules_in_packages_and_functions_in_classes(self, write_module, tmp_path, init):
        text = "import stalegrad as sg\nclass Models:\n    one = lambda: sg.potentials.GaussianMean([1.0])"
        name = write_module(text, name=f"job_package_{init}.inner.models".lower())
        if init:
            for folder in ("job_package_true", "job_package_true/inner"):
                (tmp_path / folder / "__init__.py").touch()
        assert ModelFunction(f"{name}:Models.one").potential(tmp_path).n_data == 1

    def test_a_class_will_do(self):
        model = ModelFunction("stalegrad.potentials:Linear", {"X": [[1.0], [2.0]], "y": [1, 2], "intercept": True})
        assert model.potential().size == 2

    def test_a_name_that_is_taken_is_not_used_by_mistake(self, write_module, tmp_path):
        write_module("def model(): pass", name="json")
        with pytest.raises(sg.StalegradError, match=r"has a module json, but .*json/__init__\.py has the same name"):
            ModelFunction("json:model").potential(tmp_path)

    @pytest.mark.parametrize(
        ("text", "function", "arguments", "message"),
        [
            ("", "nothing_of_the_kind:model", {},
             "nothing_of_the_kind:model: there is no module nothing_of_the_kind. It was looked for in {folder}, "),
            ("", "{name}.below:model", {}, "{name}.below:model: there is no module {name}.below. It was looked"),
            ("import nothing_here", "{name}:model", {},
             "{name}:model cannot be imported: No module named 'nothing_here'"),
            ("def models(): pass", "{name}:model", {},
             "{name}:model: {folder}/{name}.py has no model. Did you mean 'models'?"),
            ("model = 3", "{name}:model", {}, "{name}:model is a int, not a function that gives a model"),
            ("def model(): return 3", "{name}:model", {}, "{name}:model gave a int, not a Potential. Return one of"),
            ("def model(): pass", "{name}:model", {"n": 3},
             "model.arguments: n is not known. {name}:model takes: no arguments"),
            ("def model(batch_size, *, dtype='float32'): pass", "{name}:model", {"batchsize": 3},
             "model.arguments: batchsize is not known. Did you mean 'batch_size'? {name}:model takes: batch_size, "),
            ("def model(batch_size): pass", "{name}:model", {},
             "model.arguments: missing a required argument: 'batch_size'. {name}:model takes: batch_size"),
        ],
    )  # fmt: skip
    def test_what_can_be_wrong(self, write_module, tmp_path, text, function, arguments, message):
        names = {"name": write_module(text), "folder": tmp_path}
        with pytest.raises(sg.StalegradError) as caught:
            ModelFunction(function.format(**names), arguments).potential(tmp_path)
        assert str(caught.value).startswith(message.format(**names))

    def test_what_goes_wrong_inside_is_the_users_to_see(self, write_module, tmp_path):
        name = write_module("def model(): return {}['missing']\ndef other(): import nothing_here")
        with pytest.raises(
            sg.JobError, match=rf"{name}:model\(\) raised KeyError: 'missing', in {name}.py at line 1"
        ) as e:
            ModelFunction(f"{name}:model").potential(tmp_path)
        assert isinstance(e.value.__cause__, KeyError)
        with pytest.raises(sg.JobError, match=r"raised ModuleNotFoundError: .*nothing_here.*at line 2"):
            ModelFunction(f"{name}:other").potential(tmp_path)


class TestExamples:
    def test_the_example_runs(self, restored_sys_path, tmp_path):
        """As it is, only shorter, and on a simulated cluster."""
        job = JobFile.read(ROOT / "examples" / "logistic.toml").changed(engine="inline", steps=4000)
        potential = job.potential()
        run = sg.sample(potential, progress=False, **job.arguments(potential))
        assert run.draws.shape == (1, 40, 20)
        mean = run.estimate(lambda theta: theta)
        assert np.abs(mean.value - np.linspace(-1, 1, 20)).max() < 0.15  # six standard deviations of the posterior
        assert run.trace.chains[0].staleness.max() > 1  # workers overtake each other

    @pytest.mark.parametrize(
        ("name", "arguments", "shape"),
        [
            ("gaussian", {}, (1000, 2, 10)),
            ("gaussian", {"n_data": 20, "dimensions": 5, "batch_size": 20, "seed": 3}, (20, 5, 20)),
            ("logistic", {}, (1000, 10, 50)),
            ("logistic", {"n_data": 30, "dimensions": 2, "batch_size": 4, "seed": 1}, (30, 2, 4)),
            ("digits", {"batch_size": 64}, (1297, 650, 64)),
        ],
    )
    def test_models_to_try(self, name, arguments, shape):
        potential = ModelFunction(f"stalegrad.datasets.models:{name}", arguments).potential()
        assert (potential.n_data, potential.size, potential.batch_size) == shape
        theta = potential.initial()
        assert np.isfinite(potential.full_gradient(theta)).all()

    def test_a9a_has_an_intercept(self, monkeypatch):
        """On a stand-in for the data, which would have to be downloaded."""
        from stalegrad.datasets import models as examples

        data = sg.datasets.Dataset("a9a", np.eye(6, 123), np.array([1, -1] * 3), None, None, ("no", "yes"), "")
        monkeypatch.setattr(examples, "a9a_data", lambda: data)
        potential = ModelFunction("stalegrad.datasets.models:a9a", {"batch_size": 2}).potential()
        assert (potential.n_data, potential.size, potential.batch_size) == (6, 124, 2)

    def test_simulated_labels_follow_their_law(self):
        """x·w > 0 where w is large makes label 1 likely: the mode lies near the weights that made the data."""
        potential = ModelFunction("stalegrad.datasets.models:logistic", {"n_data": 5000, "dimensions": 3}).potential()
        run = sg.sample(potential, sg.SGLD(step_size=1e-4), steps=3000, burn_in=1000, engine="inline", progress=False)
        assert np.abs(run.estimate(lambda theta: theta).value - [1, 0, -1]).max() < 0.3  # some six deviations


def test_a_kernel_need_not_be_named_and_the_warm_up_can_be_steered(write_job):
    text = SMALL.replace('kernel = {name = "SGLD", step_size = 1e-4}', "") + "\n[warmup]\nbias = 0.02\n"
    job = JobFile.read(write_job(text))
    arguments = arguments_of(job)
    assert (arguments["kernel"], arguments["burn_in"]) == (None, None)
    assert arguments["warmup"] == sg.Warmup(bias=0.02)
    assert JobFile.from_table(json.loads(json.dumps(job.table()))) == job


def test_a_burn_in_of_zero_is_a_burn_in_that_was_given(write_job):
    job = JobFile.read(write_job("burn_in = 0\nwarmup = false\n" + SMALL))
    again = JobFile.from_table(json.loads(json.dumps(job.table())))
    assert arguments_of(again)["burn_in"] == 0
    assert arguments_of(again)["warmup"] is None
