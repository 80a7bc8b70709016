"""A stored run that has diverged is no dead end: it goes on with a smaller step, makes room for another, or goes."""

import os

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels.schedules import Polynomial
from stalegrad.runs import divergence
from stalegrad.runs.failures import Diverged, RunFailed
from stalegrad.runs.going_on import lost_chains
from stalegrad.runs.store import folder as stores
from stalegrad.runs.store import inspect


def model():
    return sg.potentials.GaussianMean(np.random.default_rng(0).normal(size=(40, 5)), batch_size=10)


def diverging(place, kernel, **settings):
    settings = {"steps": 800, "workers": 2, "engine": "inline", "checkpoint_every": 1e-9, "progress": False, **settings}
    with pytest.raises(Diverged) as caught:
        sg.sample(model(), kernel, store=place, **settings)
    return caught.value


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
def test_one_message_says_what_to_do(tmp_path, caplog, engine):
    error = diverging(tmp_path / "x", sg.SGLD(step_size=1.0), engine=engine)
    assert isinstance(error, RunFailed)
    assert isinstance(error, sg.GradientError)
    assert error.__cause__ is None  # one traceback, not two
    message = str(error)
    assert message.startswith("chain 0 has diverged after ")
    assert "step_size=0.0009)" in message  # λ is 41, gradients are an update old, and hλ(τ + ½) is to be below 0.1
    assert "overwrite=True" in message
    assert len(caplog.records) <= 2  # and not one a refused gradient: each worker may have had a good one under way
    assert inspect(tmp_path / "x").state == "diverged"


def test_the_step_that_is_recommended_is_worked_out_once(tmp_path, monkeypatch):
    """It takes gradients; what is said and what the store remembers are the same step."""
    asked = []
    found = divergence.largest_curvature
    monkeypatch.setattr(
        divergence, "largest_curvature", lambda *given, **options: asked.append(1) or found(*given, **options)
    )
    error = diverging(tmp_path / "x", sg.SGLD(step_size=1.0))
    assert asked == [1]
    assert divergence.remembered_step(inspect(tmp_path / "x").failure) == error.smaller


@pytest.mark.parametrize("engine", ["inline", "threads"])
@pytest.mark.parametrize("integrator", ["euler", "splitting"])
def test_it_goes_on_from_its_last_good_checkpoint(tmp_path, engine, integrator):
    """The whole of it still replays bit for bit, the change of step size included."""
    place = tmp_path / "x"
    kernel = sg.SGHMC(step_size=2e-3, friction=0.1, integrator=integrator)
    sg.sample(model(), kernel, steps=300, store=place, engine="inline", progress=False)
    with pytest.raises(Diverged):
        sg.resume(place, model(), step_size=10.0, steps=800, engine=engine, progress=False)
    assert inspect(place).updates == [300]
    assert lost_chains(inspect(place)) == ()
    run = sg.resume(place, model(), step_size=1e-3, engine=engine, progress=False)
    used = run.trace.chains[0].step_size
    assert len(used) == 800
    assert np.all(used[301:] == 1e-3)
    assert np.isfinite(run.draws).all()
    np.testing.assert_array_equal(sg.replay(run.trace, model()).draws, run.draws)
    assert inspect(place).state == "finished"
    again = sg.resume(place, model(), steps=900, progress=False)  # and goes on like any other run
    np.testing.assert_array_equal(sg.replay(again.trace, model()).draws, again.draws)


def test_a_chain_that_ran_away_from_the_first_begins_again(tmp_path, capsys):
    place = tmp_path / "x"
    error = diverging(place, sg.SGLD(step_size=1.0))
    run = sg.resume(place, model(), step_size=error.smaller)  # the remedy that is printed
    assert np.isfinite(run.draws).all()
    assert run.draws.shape == (1, 800, 5)
    assert "from its start" in capsys.readouterr().err
    np.testing.assert_array_equal(sg.replay(run.trace, model()).draws, run.draws)


@pytest.mark.parametrize(
    "kernel",
    [sg.SGLD(step_size=30.0), sg.SGHMC(step_size=4.0, friction=0.4), sg.BAOAB(step_size=9.0, friction=1.0)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_the_step_that_is_recommended_holds(tmp_path, kernel):
    """At once, and with a variance that is right: along the stiffest direction, 10 % at most by the curvature."""
    error = diverging(tmp_path / "x", kernel, workers=4)
    assert error.smaller < kernel.schedule(0) / 10
    run = sg.resume(tmp_path / "x", model(), step_size=error.smaller, progress=False)
    assert np.isfinite(run.draws).all()
    findings = run.diagnose(model())
    assert not {"step size", "staleness"} & {found.name for found in findings}


def test_a_model_without_a_curvature_gets_a_tenth_of_its_step(tmp_path):
    """No step is short enough for a potential that curves downwards."""

    def downhill(theta, indices):
        with np.errstate(over="ignore"):
            return -1e3 * theta

    hill = sg.potentials.from_gradient(downhill, size=2, n_data=1)
    with pytest.raises(Diverged) as caught:
        sg.sample(
            hill, sg.SGLD(step_size=0.4), steps=3000, initial=np.ones(2), engine="inline", store=tmp_path / "x",
            progress=False,
        )  # fmt: skip
    assert caught.value.smaller == 0.04


@pytest.mark.long
def test_only_the_chains_that_are_lost_go_back(tmp_path):
    place = tmp_path / "x"
    diverging(place, [sg.SGLD(step_size=1e-3), sg.SGLD(step_size=0.08)], servers=2, steps=4000)
    lost, before = lost_chains(inspect(place)), inspect(place).updates
    assert lost == (1,)
    assert before[0] > 0
    run = sg.resume(place, model(), step_size=1e-3, progress=False)
    assert [chain.steps for chain in run.trace.chains] == [4000, 4000]
    np.testing.assert_array_equal(sg.replay(run.trace, model()).draws, run.draws)


def test_as_it_was_it_would_diverge_again(tmp_path):
    place = tmp_path / "x"
    diverging(place, sg.SGLD(step_size=1.0))
    with pytest.raises(sg.StoreError, match=r"(?s)diverged at step_size=1, and would again.*--step-size"):
        sg.resume(place, model(), progress=False)
    with pytest.raises(sg.StoreError, match=r"another step size is resume's own argument, step_size="):
        sg.resume(_healthy(tmp_path / "y"), model(), sg.SGLD(step_size=0.002), progress=False)


def _healthy(place, **settings):
    sg.sample(model(), sg.SGLD(step_size=1e-3), steps=50, store=place, progress=False, engine="inline", **settings)
    return place


def test_any_run_may_go_on_with_another_step(tmp_path):
    run = sg.resume(_healthy(tmp_path / "x"), model(), step_size=5e-4, steps=80, progress=False)
    assert run.trace.chains[0].step_size.tolist() == [1e-3] * 51 + [5e-4] * 29
    np.testing.assert_array_equal(sg.replay(run.trace, model()).draws, run.draws)
    schedule = Polynomial(a=1e-3)
    run = sg.resume(tmp_path / "x", model(), step_size=schedule, steps=90, progress=False)
    assert run.trace.chains[0].step_size[81:].tolist() == [schedule(update) for update in range(81, 90)]
    np.testing.assert_array_equal(sg.replay(run.trace, model()).draws, run.draws)


def test_another_run_in_its_place(tmp_path):
    place = _healthy(tmp_path / "x")
    with pytest.raises(sg.StoreError, match="overwrite=True, --overwrite"):
        _healthy(place)
    (place / "chain-0" / "draws" / "notes").write_text("old")
    _healthy(place, overwrite=True)
    assert not (place / "chain-0" / "draws" / "notes").exists()
    assert os.listdir(tmp_path) == ["x"]


def test_nothing_but_a_run_is_written_over_or_deleted(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(sg.StoreError, match="is not a run"):
        _healthy(tmp_path / "mine", overwrite=True)
    with pytest.raises(sg.StoreError, match="holds no run"):
        stores.remove(tmp_path / "mine")
    place = _healthy(tmp_path / "x")
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(sg.StoreError, match="is a link"):
        stores.remove(tmp_path / "link")
    lock = stores.Lock(place)
    try:
        with pytest.raises(sg.StoreError, match="is being written"):
            stores.remove(place)
        with pytest.raises(sg.StoreError, match="is being written"):
            _healthy(place, overwrite=True)
    finally:
        lock.release()
    stores.remove(place)
    assert sorted(os.listdir(tmp_path)) == ["link", "mine"]
