"""What can be seen of a run in a folder: with its model and without, and how it came along."""

from math import isnan

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.observers.model_at_hand import ModelAtHand
from stalegrad.runs.observers.moments import Moments
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.observers.stored import StoredSource
from stalegrad.runs.watch.content import Content


def model(n_data=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_data, 3))
    return sg.potentials.Linear(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n_data), batch_size=50, dtype=np.float64)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "linear"
    sg.sample(
        model(), sg.SGLD(step_size=5e-6), steps=3000, workers=4, servers=2, thin=10, store=folder, progress=False
    )  # fmt: skip
    return folder


def looked_at(source):
    sampler = Sampler(source)
    return sampler, sampler.look()


def test_without_its_model_the_page_is_told_why(store):
    sampler, snapshot = looked_at(StoredSource(store))
    assert isnan(snapshot.loss)
    assert isnan(snapshot.delay)
    why = sampler.source.why_not()
    assert "--model job" in why["loss"]
    assert "no warm-up" in why["delay"]
    assert "--model job" in Content(sampler).sections(False)[1]["head"]


def test_with_its_model_loss_and_stability_are_there(store):
    sampler, snapshot = looked_at(StoredSource(store, model()))
    X = model()
    draw = np.asarray(sg.load(store).draws[0, -1])
    every = X.minibatch_loss(draw, np.arange(400))
    assert abs(snapshot.loss - every) < 1.0
    assert not sampler.source.why_not()
    curvature = np.linalg.eigvalsh(hessian(X))[-1]
    tau = np.mean([chain.mean_staleness for chain in snapshot.chains])
    assert snapshot.delay == pytest.approx(5e-6 * curvature * (tau + 0.5), rel=0.05)
    assert snapshot.delay < snapshot.delay_limit


def hessian(potential):
    origin = potential.full_gradient(np.zeros(3))
    return np.array([potential.full_gradient(row) - origin for row in np.eye(3)])


def test_another_model_is_refused(store):
    with pytest.raises(sg.ArgumentError, match="n_data is 300, and was 400"):
        StoredSource(store, model(300))


def test_a_model_that_does_not_say_its_loss(tmp_path):
    silent = sg.potentials.from_gradient(lambda theta, indices: theta, size=2, n_data=10, dtype=np.float64)
    folder = tmp_path / "silent"
    sg.sample(silent, sg.SGLD(step_size=0.1), steps=200, store=folder, progress=False)
    sampler, snapshot = looked_at(StoredSource(folder, silent))
    assert isnan(snapshot.loss)
    assert sampler.source.why_not() == {"loss": "The model does not say its loss."}
    assert snapshot.delay == pytest.approx(0.1 * 1.0 * 0.5)


def test_how_a_run_came_along(store):
    """A finished run has its history at the first look: of the loss, the stability and the estimates."""
    sampler, snapshot = looked_at(StoredSource(store, model()))
    seconds, updates, loss, delay, limit = sampler.histories["progress"].columns()
    assert len(seconds) > 30
    assert seconds == sorted(seconds)
    assert updates[-1] == snapshot.updates == 6000
    assert loss[0] > 2 * loss[-1]  # from the origin to the posterior
    assert all(a < b for a, b in zip(delay, limit, strict=True))
    functions = sampler.histories["functions"].columns()
    assert len(functions) == 2 + 4 * len(snapshot.functions)
    assert functions[2][-1] == pytest.approx(snapshot.functions[0].value, rel=1e-6)
    before = len(seconds)
    sampler.look()
    assert len(sampler.histories["progress"].columns()[0]) == before  # nothing has changed on disk


def test_speed_between_checkpoints_is_that_of_the_run(store):
    source = StoredSource(store)
    source.state, source.saved_ago = lambda: "running", lambda: 3.0
    sampler, first = looked_at(source)
    assert first.gradients_per_second == pytest.approx(6000 / source.seconds(), rel=0.05)
    assert sampler.look().gradients_per_second == first.gradients_per_second


def test_moments_are_bounded_and_add_up():
    moments = Moments()
    from stalegrad.engines.simulation import Exponential, simulate

    trace = simulate(workers=5, steps=70_000, compute=Exponential(1.0), seed=1).chains[0]
    for first in range(0, len(trace), 777):
        moments.add(trace.part(slice(first, first + 777)))
    assert moments.last.gradients == len(trace)
    assert moments.last.updates == trace.steps
    assert moments.last.staleness == trace.staleness[trace.accepted].sum()
    assert moments.largest == trace.staleness[trace.accepted].max()
    half = moments.at(0.5)
    assert abs(half.gradients - len(trace) / 2) < len(trace) / 100
    assert half.seconds == trace.time[half.gradients - 1]
    assert half.staleness == trace.staleness[: half.gradients][trace.accepted[: half.gradients]].sum()
    assert len(moments._kept) <= 512


def test_curvature_in_the_coordinates_of_the_run(tmp_path):
    """Where a warm-up has found coordinates, λ is that of the run, about 1."""
    folder = tmp_path / "warm"
    sg.sample(model(), steps=400, store=folder, progress=False)
    source = StoredSource(folder, model())
    found = source._model.curvature(np.asarray(sg.load(folder).draws[0, -1]))
    assert found == pytest.approx(source._curvature, rel=0.3)
    assert isinstance(source._model, ModelAtHand)
