"""The classic posteriors: what counts as right, and that models and references belong together."""

import json

import numpy as np
import pytest


@pytest.fixture
def accuracy(benchmark_module):
    return benchmark_module("classics.accuracy")


@pytest.fixture
def Summary(benchmark_module):
    return benchmark_module("classics.summary").Summary


@pytest.fixture
def catalogue(benchmark_module):
    return benchmark_module("classics.catalogue")


@pytest.fixture
def reference(benchmark_module):
    return benchmark_module("classics.reference")


def summary(Summary, mean, sd, ess=1e6, size=2):
    """Of ``size`` quantities, the last of which has this mean and standard deviation; the others 0 and 1."""
    means, sds = np.zeros(size), np.ones(size)
    means[-1], sds[-1] = mean, sd
    return {"x": Summary(means, sds, sds / np.sqrt(ess), sds / np.sqrt(2 * ess), np.full(size, ess), np.ones(size))}


@pytest.mark.parametrize(
    ("mean", "sd", "ess", "serious", "verdict"),
    [
        (0.09, 1.08, 1e6, False, "right"),
        (0.12, 1.0, 1e6, False, "WRONG AND SILENT"),
        (-0.12, 1.0, 1e6, True, "warned"),
        (0.0, 1.13, 1e6, False, "WRONG AND SILENT"),
        (0.0, 0.88, 1e6, True, "warned"),
        (0.0, 1.0, 1e6, True, "right, but warned"),
        (0.12, 1.0, 400, False, "right"),  # a standard error of 0.05 explains it
        (0.4, 1.0, 400, False, "WRONG AND SILENT"),
        (0.4, 1.0, 50, False, "imprecise"),  # explained, and too few draws to say that it is right
        (0.4, 1.0, 50, True, "warned"),
        (np.nan, 1.0, 1e6, False, "WRONG AND SILENT"),
    ],
)
def test_verdicts(accuracy, Summary, mean, sd, ess, serious, verdict):
    judged = accuracy.compare(summary(Summary, mean, sd, ess), summary(Summary, 0.0, 1.0))
    assert judged.verdict(serious) == verdict


def test_the_worst_is_named_after_errors_have_been_allowed_for(accuracy, Summary):
    ours = summary(Summary, 0.3, 1.0)
    ours["noisy"] = Summary(*(np.array([each]) for each in (0.5, 1.0, 0.4, 0.3, 6.0, 1.2)))
    exact = summary(Summary, 0.0, 1.0) | {"noisy": Summary(*(np.array([each]) for each in (0.0, 1.0, 0, 0, 1e6, 1)))}
    judged = accuracy.compare(ours, exact)
    assert (judged.mean.name, judged.mean.off, judged.mean.within) == ("x[1]", pytest.approx(0.3), False)
    assert (judged.ess, judged.rhat, judged.precise) == (6.0, 1.2, False)
    assert judged.sd.within


def test_a_chain_that_never_moved_is_wrong(accuracy, benchmark_module, Summary):
    summarise = benchmark_module("classics.summary").summarise
    stuck = summarise({"x": np.zeros((2, 100, 2))})
    judged = accuracy.compare(stuck, summary(Summary, 0.0, 1.0))
    assert judged.verdict(False) == accuracy.SILENT


def test_a_run_of_other_quantities_is_refused(accuracy, Summary):
    ours = {"y": summary(Summary, 0.0, 1.0)["x"]}
    with pytest.raises(ValueError, match="its reference"):
        accuracy.compare(ours, summary(Summary, 0.0, 1.0))


def test_chance_alone_condemns_one_run_in_a_thousand(accuracy, Summary):
    """Means that are off by exactly 0.1, known with an error of 0.05: of 4,000 runs of 50 quantities each, of which 2
    are expected to be condemned at most, as the tolerance has two sides and k allows for both, over 16 has probability
    1e-9 or less."""
    rng, size = np.random.default_rng(0), 50
    exact = Summary(np.zeros(size), np.ones(size), *([np.zeros(size)] * 2), np.full(size, 1e9), np.ones(size))
    condemned = 0
    for _ in range(4000):
        means = 0.1 + 0.05 * rng.normal(size=size)
        ours = Summary(means, np.ones(size), np.full(size, 0.05), np.zeros(size), np.full(size, 400.0), np.ones(size))
        condemned += not accuracy.compare({"x": ours}, {"x": exact}).mean.within
    assert condemned <= 16


def test_summaries_know_their_errors(benchmark_module):
    """Of an autoregression with coefficient 0.5: a third as many effective draws. The estimate of them has a standard
    error below 4 % with 40,000 draws; 25 % is beyond 5 of them."""
    summarise = benchmark_module("classics.summary").summarise
    rng = np.random.default_rng(1)
    values = np.empty((4, 10_000, 1))
    state = rng.normal(size=4)
    for draw in range(10_000):
        state = 0.5 * state + np.sqrt(0.75) * rng.normal(size=4)
        values[:, draw, 0] = 3 + 2 * state
    found = summarise({"x": values})["x"]
    assert found.ess[0] == pytest.approx(40_000 / 3, rel=0.25)
    assert found.mean_error[0] == pytest.approx(found.sd[0] / np.sqrt(found.ess[0]))
    assert abs(found.mean[0] - 3) < 6 * found.mean_error[0]
    assert abs(found.sd[0] - 2) < 6 * found.sd_error[0]
    assert found.rhat[0] < 1.01


def test_every_reference_is_of_a_posterior_and_was_sampled_well(catalogue, reference):
    files = {path.stem for path in reference.FOLDER.glob("*.json")}
    assert files == set(catalogue.with_reference()), "a reference without its model"
    assert len(files) >= 14
    for name in files:
        document = json.loads((reference.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        assert document["name"] == catalogue.NAMES[name]
        assert document["worst_rhat"] < 1.01, name
        assert document["worst_ess"] >= 400, f"{name}: its own error is above 0.05 standard deviations"
        for site in reference.read(name).values():
            assert (site.sd > 0).all()
            assert np.isfinite(np.concatenate(site)).all()


def test_references_come_back_as_they_were_written(reference, Summary, tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    found = summary(Summary, 0.123456789, 2.0)
    reference.write("Some name, 2", found, {"seconds": 1.0})
    assert (tmp_path / "some_name_2.json").exists()
    back = reference.read("Some name, 2")
    for ours, theirs in zip(found["x"], back["x"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["groups_centred", "linear_collinear", "logistic", "mixture_unordered"])
def test_sites_of_the_model_are_those_of_the_reference(catalogue, reference, name):
    classic = catalogue.make(name)
    potential, wanted = classic.potential(), reference.read(name)
    draws = np.random.default_rng(0).normal(0, 0.1, (2, 5, potential.size))
    judged = classic.judged(potential, draws)
    assert {site: each.shape for site, each in judged.items()} == {
        site: (2, 5, len(each.mean)) for site, each in wanted.items()
    }
    np.testing.assert_array_equal(np.concatenate(list(judged.values()), axis=-1), draws)


@pytest.mark.long
@pytest.mark.parametrize("name", ["groups_non_centred", "ordinal", "student_t"])
def test_the_potential_rises_away_from_the_reference(catalogue, reference, name):
    """Four standard deviations from the reference's mean, along any axis, the slope points back. A reference of other
    data or of another model would have its mean elsewhere."""
    classic = catalogue.make(name)
    potential, wanted = classic.potential(), reference.read(name)
    mean = np.concatenate([wanted[site].mean for site in potential.layout])
    sd = np.concatenate([wanted[site].sd for site in potential.layout])
    for axis in range(potential.size):
        step = np.zeros(potential.size)
        step[axis] = 4 * sd[axis]
        outward = [float(sign * step @ potential.full_gradient(mean + sign * step)) for sign in (1, -1)]
        assert min(outward) > 0, f"{name}, parameter {axis}: U falls away from the reference"


@pytest.mark.long
def test_a_network_is_judged_by_its_predictions(catalogue):
    classic = catalogue.make("network")
    potential = classic.potential()
    draws = np.random.default_rng(0).normal(0, 0.5, (2, 3, potential.size)).astype(np.float32)
    swapped = {site: np.array(part) for site, part in potential.unravel(draws[0, 0]).items()}
    for site in ("in_weights", "in_bias", "out_weights"):  # units that change places predict the same
        swapped[site] = swapped[site][::-1]
    draws[0, 1] = np.concatenate([swapped[site].ravel() for site in potential.layout])
    judged = classic.judged(potential, draws)["predictions"]
    assert judged.shape[:2] == (2, 3)
    np.testing.assert_allclose(judged[0, 0], judged[0, 1], rtol=1e-5, atol=1e-6)
    assert np.abs(judged[0, 0] - judged[0, 2]).max() > 0.01
