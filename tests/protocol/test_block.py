"""Updates in compiled blocks: the same bits as one after the other in Python, whatever the run is like."""

import dataclasses

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import GaussianMean, Linear, Logistic, Softmax
from stalegrad.potentials.wrappers.whitened import Whitened
from stalegrad.protocol import executor as inline

pytestmark = pytest.mark.long

_rng = np.random.default_rng(5)
X = _rng.normal(size=(60, 3))
MODELS = {
    "logistic": Logistic(X, _rng.integers(2, size=60), batch_size=7, intercept=True),
    "softmax": Softmax(X, _rng.integers(3, size=60), batch_size=7, dtype=np.float64),
    "linear": Linear(X, _rng.normal(size=60), batch_size=7),
    "gaussian": GaussianMean(X, batch_size=7, scheme="reshuffle"),
}
MODELS["whitened"] = Whitened(MODELS["linear"], np.array([0.3, 0.1, -0.2]), np.linalg.cholesky(9 * np.eye(3) + 1))
KERNELS = {
    "sgld": sg.SGLD(step_size=1e-3),
    "euler": sg.SGHMC(step_size=1e-2, friction=5.0),
    "splitting": sg.SGHMC(step_size=1e-2, friction=5.0, integrator="splitting"),
    "psgld": sg.PSGLD(step_size=1e-3),
    "baoab": sg.BAOAB(step_size=sg.schedules.Polynomial(2e-2, 1.0, 0.3), friction=5.0),
    "harmonic": sg.Harmonic(step_size=2e-2, friction=5.0, curvature=30.0),
    "ubu": sg.UBU(step_size=sg.schedules.Polynomial(2e-2, 1.0, 0.3), friction=5.0),
}


def both(monkeypatch, model, kernel, **settings):
    """The run without and with blocks."""
    settings = {"steps": 150, "workers": 3, "engine": "inline", "progress": False, "seed": 11} | settings
    plain = sg.sample(model, kernel, **settings)
    used = []
    real = inline.execute_block
    monkeypatch.setattr(inline, "execute_block", lambda *a: used.append(a[9].shape[0]) or real(*a))
    monkeypatch.setattr(inline, "WORTH_A_BLOCK", 1)
    if "store" in settings:
        settings["store"] = settings["store"].with_name("blocks")
    blocks = sg.sample(model, kernel, **settings)
    assert sum(used) >= settings["steps"]
    return plain, blocks


def assert_equal(plain, blocks):
    np.testing.assert_array_equal(blocks.draws, plain.draws)
    np.testing.assert_array_equal(blocks.stats.gradient_norm, plain.stats.gradient_norm)
    np.testing.assert_array_equal(blocks.stats.kinetic_temperature, plain.stats.kinetic_temperature)
    for ours, theirs in zip(blocks.trace.chains, plain.trace.chains, strict=True):
        np.testing.assert_array_equal(ours.step_size, theirs.step_size)


@pytest.mark.parametrize(
    ("model", "kernel"),
    [
        ("logistic", "sgld"),
        ("gaussian", "euler"),
        ("gaussian", "splitting"),
        ("gaussian", "psgld"),
        ("gaussian", "baoab"),
        ("gaussian", "ubu"),
        ("softmax", "sgld"),
        ("linear", "sgld"),
        ("whitened", "sgld"),
    ],
)
def test_models_and_kernels(monkeypatch, model, kernel):
    assert_equal(*both(monkeypatch, MODELS[model], KERNELS[kernel]))


@pytest.mark.parametrize(
    "settings",
    [
        {"burn_in": 13, "thin": 4},
        {"thin": 150},
        {"repeats": 3, "thin": 2},
        {"servers": 3, "workers": 1},
        {"workers": 5, "max_staleness": 2, "engine": sg.engines.Inline(compute=sg.Exponential(1.0))},
        {"kernel": sg.SGLD(step_size=sg.schedules.Polynomial(1e-3, 10.0, 0.4))},
        {"steps": 5000, "servers": 2, "thin": 9},
    ],
    ids=str,
)
def test_settings(monkeypatch, settings):
    kernel = settings.pop("kernel", KERNELS["sgld"])
    assert_equal(*both(monkeypatch, MODELS["logistic"], kernel, **settings))


def test_a_store(monkeypatch, tmp_path):
    monkeypatch.setattr("stalegrad.runs.store.arrays.CHUNK_BYTES", 400)  # blocks end where a chunk is full
    assert_equal(*both(monkeypatch, MODELS["logistic"], KERNELS["sgld"], store=tmp_path / "plain", thin=3))


@pytest.mark.parametrize("kernel", ["splitting", "ubu"])
def test_a_run_in_two_sessions_is_the_run_in_one(monkeypatch, tmp_path, kernel):
    """Noise, schedule, burn-in and thinning go on where the first session ended."""
    monkeypatch.setattr(inline, "WORTH_A_BLOCK", 1)
    model, settings = MODELS["gaussian"], {"burn_in": 23, "thin": 7, "workers": 1, "engine": "inline", "seed": 11}
    whole = sg.sample(model, KERNELS[kernel], steps=150, progress=False, **settings)
    for first in (31, 94):
        sg.sample(model, KERNELS[kernel], steps=first, progress=False, store=tmp_path / f"{first}", **settings)
        assert_equal(whole, sg.resume(tmp_path / f"{first}", model, KERNELS[kernel], steps=150, progress=False))


def test_replay(monkeypatch):
    kernel = sg.SGLD(step_size=sg.schedules.Polynomial(1e-3, 10.0, 0.4))
    plain, blocks = both(monkeypatch, MODELS["logistic"], kernel)
    assert_equal(plain, sg.replay(blocks.trace, MODELS["logistic"], sg.SGLD(step_size=1.0)))


def test_a_gradient_that_overflows_is_refused_where_it_happens(monkeypatch):
    kernel = sg.SGLD(step_size=1e6)
    told = []
    for worth in (10**9, 1):
        monkeypatch.setattr(inline, "WORTH_A_BLOCK", worth)
        with pytest.raises(sg.GradientError) as refusal:
            sg.sample(MODELS["gaussian"], kernel, steps=200, engine="inline", progress=False)
        told.append(str(refusal.value))
    assert told[0] == told[1]


def test_short_runs_and_kernels_without_a_compiled_update_go_one_by_one(monkeypatch):
    monkeypatch.setattr(inline, "execute_block", None)
    settings = {"engine": "inline", "progress": False}
    sg.sample(MODELS["logistic"], KERNELS["sgld"], steps=100, **settings)
    monkeypatch.setattr(inline, "WORTH_A_BLOCK", 1)
    sg.sample(MODELS["logistic"], sg.SGNHT(step_size=1e-3, noise=1.0), steps=100, **settings)


def test_shorter_runs_use_a_loop_that_was_compiled_before(monkeypatch):
    used, real = [], inline.execute_block
    monkeypatch.setattr(inline, "execute_block", _Counted(real, used))
    monkeypatch.setattr(inline, "WORTH_LOADING", 100)

    def run(steps):
        del used[:]
        sg.sample(MODELS["linear"], KERNELS["sgld"], steps=steps, engine="inline", progress=False)
        return sum(used)

    with monkeypatch.context() as patch:
        patch.setattr(inline, "is_compiled", lambda function, arguments: False)
        assert run(100) == 0
        patch.setattr(inline, "WORTH_A_BLOCK", 200)
        assert run(200) == 200
    assert run(100) == 100
    assert run(99) == 0


class _Counted:
    """A compiled function that notes how many updates each of its calls is for."""

    def __init__(self, function, used):
        self._function, self._used = function, used

    def __call__(self, *arguments):
        self._used.append(arguments[9].shape[0])
        return self._function(*arguments)

    def __getattr__(self, name):
        return getattr(self._function, name)


def test_recorded_step_sizes_of_any_precision_are_taken_as_they_are(monkeypatch):
    run = sg.sample(MODELS["linear"], KERNELS["sgld"], steps=60, engine="inline", progress=False)
    chain = run.trace.chains[0]
    steps = np.linspace(1e-3, 2e-3, 60, dtype=np.float32)
    trace = dataclasses.replace(run.trace, chains=(dataclasses.replace(chain, step_size=steps),))
    plain = sg.replay(trace, MODELS["linear"], KERNELS["sgld"])
    monkeypatch.setattr(inline, "WORTH_A_BLOCK", 1)
    blocks = sg.replay(trace, MODELS["linear"], KERNELS["sgld"])
    assert_equal(plain, blocks)
    np.testing.assert_array_equal(blocks.trace.chains[0].step_size, steps.astype(np.float64))
