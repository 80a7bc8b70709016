"""Averages while draws come: those of the draws themselves, whatever is kept, stored, resumed and replayed."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.protocol import executor
from stalegrad.runs.averages import Averages
from stalegrad.runs.observers.values import figures

RNG = np.random.Generator(np.random.Philox(3))
X, Y = RNG.normal(size=(120, 3)), RNG.integers(0, 2, 120)
MODEL = sg.potentials.Logistic(X, Y, batch_size=20)
KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)
CYCLES = KERNEL.in_cycles(40, explore=0.5, floor=1e-3)
PREDICT = MODEL.predictive(X[:30])
AVERAGES = {"test": (PREDICT, Y[:30]), "size": lambda theta: float(theta @ theta), "two": lambda theta: theta[:2]}
OPTIONS = {"workers": 2, "servers": 2, "seed": 1, "progress": False, "averages": AVERAGES}


def agree(run, replayed):
    """The averages of a run are what its draws, made again from the trace, give."""
    expected = replayed.predict(PREDICT)
    found = run.averages["test"]
    assert found.count == replayed.draws.shape[0] * replayed.draws.shape[1]
    np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-10)
    np.testing.assert_allclose(found.spread, expected.spread, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.mutual_information, expected.mutual_information, rtol=1e-6, atol=1e-12)
    for name in ("size", "two"):
        value = replayed.estimate(AVERAGES[name])
        np.testing.assert_allclose(run.averages[name].value, value.value, rtol=1e-10)
        np.testing.assert_allclose(run.averages[name].standard_error, value.standard_error, rtol=1e-8)


@pytest.mark.parametrize("kernel", [KERNEL, CYCLES], ids=["plain", "cycles"])
@pytest.mark.parametrize("keep", ["all", "last", "none"])
@pytest.mark.parametrize("engine", ["inline", "threads"])
def test_they_are_those_of_all_draws_whatever_is_kept(keep, engine, kernel):
    run = sg.sample(MODEL, kernel, steps=600, thin=3, engine=engine, keep=keep, **OPTIONS)
    replayed = sg.replay(run.trace, MODEL)
    agree(run, replayed)
    kept = {"all": slice(None), "last": slice(-1, None), "none": slice(0, 0)}[keep]
    np.testing.assert_array_equal(run.draws, replayed.draws[:, kept])
    np.testing.assert_array_equal(run.step_sizes, replayed.step_sizes[:, kept])
    np.testing.assert_array_equal(run.stats.gradient_norm, replayed.stats.gradient_norm[:, kept])


@pytest.mark.parametrize("keep", ["all", "last", "none"])
def test_a_stored_run_goes_on_with_them(tmp_path, keep):
    options = OPTIONS | {"engine": "inline"}
    sg.sample(MODEL, CYCLES, steps=310, store=tmp_path / "run", keep=keep, **options)
    run = sg.resume(tmp_path / "run", MODEL, steps=600, progress=False, averages=AVERAGES)
    replayed = sg.replay(run.trace, MODEL)
    agree(run, replayed)
    loaded = sg.load(tmp_path / "run", MODEL)
    agree(loaded, replayed)
    assert loaded.draws.shape[1] == {"all": 300, "last": 1, "none": 0}[keep]
    if keep == "last":
        np.testing.assert_array_equal(loaded.draws, replayed.draws[:, -1:])
    with pytest.raises(sg.ArgumentError, match="same functions under the same names"):
        sg.resume(tmp_path / "run", MODEL, steps=700, progress=False)
    with pytest.raises(sg.ArgumentError, match="same functions under the same names"):
        sg.resume(tmp_path / "run", MODEL, steps=700, progress=False, averages={"other": PREDICT})


def test_a_store_that_keeps_no_draws_does_not_hold_any(tmp_path):
    sizes = {}
    for keep in ("all", "none"):
        options = {"engine": "inline", "averages": {"size": AVERAGES["size"]}}
        sg.sample(MODEL, KERNEL, steps=3000, store=tmp_path / keep, keep=keep, **OPTIONS | options)
        sizes[keep] = sum(path.stat().st_size for path in (tmp_path / keep).rglob("draws/**/*") if path.is_file())
    assert sizes["none"] < sizes["all"] / 20


def test_chains_start_from_a_run_that_kept_the_last_draws_alone():
    first = sg.sample(MODEL, KERNEL, steps=30, keep="last", servers=2, engine="inline", progress=False)
    run = sg.sample(MODEL, KERNEL, steps=4, servers=2, initial=first, engine="inline", progress=False)
    np.testing.assert_array_equal(run.trace.initial, first.draws[:, 0])


@pytest.mark.long
def test_coordinates_of_a_warm_up_are_no_matter():
    run = sg.sample(MODEL, steps=400, keep="none", engine="inline", **OPTIONS | {"servers": 1})
    assert run.trace.coordinates is not None
    agree(run, sg.replay(run.trace, MODEL))


@pytest.mark.long
def test_compiled_blocks_fill_the_same_blocks(monkeypatch):
    monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
    run = sg.sample(MODEL, CYCLES, steps=3000, keep="none", engine="inline", **OPTIONS)
    agree(run, sg.replay(run.trace, MODEL))


@pytest.mark.parametrize("engine", ["inline", "threads"])
def test_a_function_that_fails_ends_the_run_and_says_which(engine):
    def broken(theta):
        raise ZeroDivisionError("no")

    with pytest.raises(sg.RunFailed, match=r"averages\['bad'\] failed at draw 0 .* ZeroDivisionError: no"):
        sg.sample(MODEL, KERNEL, steps=5000, engine=engine, averages={"bad": broken}, progress=False)


def test_what_onlookers_are_shown():
    averages = Averages(AVERAGES, [KERNEL, KERNEL], sg.protocol.draws.Thinning())
    draws = RNG.normal(size=(2, 40, 3))
    for chain in range(2):
        averages.add(chain, 0, draws[chain])
    shown = averages.values
    assert shown["size"] == pytest.approx(np.square(draws).sum(-1).mean())
    assert shown["test NLL"] == pytest.approx(averages.results()["test"].scores(Y[:30]).nll)
    found = {each.name: each for each in figures(averages.names, averages.spaced)}
    assert set(found) == {"test NLL of a draw", "size", "two[0]", "two[1]"}
    assert found["size"].value == pytest.approx(shown["size"])
    assert found["size"].error > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"averages": [PREDICT]}, "not a mapping"),
        ({"averages": {"x": 3}}, "neither a function nor a pair"),
        ({"averages": AVERAGES, "repeats": 2}, "repeats"),
        ({"keep": "some"}, "keep"),
        ({"keep": "none", "repeats": 2}, "repeats"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(sg.ArgumentError, match=words):
        sg.sample(MODEL, KERNEL, steps=10, progress=False, **options)


def test_a_function_of_too_many_numbers_is_refused_with_what_to_give():
    with pytest.raises(sg.RunFailed, match="give probabilities"):
        sg.sample(MODEL, KERNEL, steps=10, averages={"x": lambda theta: np.zeros(1000)}, progress=False)
