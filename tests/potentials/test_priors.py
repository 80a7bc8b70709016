"""Priors: densities against SciPy, gradients against differences of the densities, laws by name."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials.priors import Centred, FlatPrior, Laplace, Normal, SharedScale, StudentT

CASES = [
    (Normal(0.7), scipy.stats.norm(scale=0.7)),
    (Laplace(0.7), scipy.stats.laplace(scale=0.7)),
    (StudentT(df=3.5, scale=0.7), scipy.stats.t(df=3.5, scale=0.7)),
]
POINTS = np.array([-30.0, -1.3, -0.02, 0.4, 1.0, 7.0])
LAYOUT = {"a.weight": (2, 3), "a.bias": (), "b.weight": (4,), "b.bias": (0,), "c": (1, 2)}
LAWS = {"*.bias": StudentT(df=2.0, scale=3.0), "a.*": Laplace(0.3), "c": 0.1, "*": Normal(2.0)}


@pytest.mark.parametrize(("prior", "reference"), CASES)
def test_densities_are_those_of_scipy(prior, reference):
    assert_allclose(prior.log_density(POINTS), reference.logpdf(POINTS), rtol=1e-12)


@pytest.mark.parametrize(("prior", "reference"), CASES)
def test_gradients_are_slopes_of_the_densities(prior, reference):
    slope = (prior.log_density(POINTS + 1e-6) - prior.log_density(POINTS - 1e-6)) / 2e-6
    assert_allclose(prior.gradient(POINTS), -slope, rtol=1e-7)


def test_each_piece_gets_the_first_law_that_fits():
    prior = FlatPrior(LAWS, LAYOUT)
    assert prior.of == {
        "a.weight": Laplace(0.3),
        "a.bias": StudentT(df=2.0, scale=3.0),
        "b.weight": Normal(2.0),
        "b.bias": StudentT(df=2.0, scale=3.0),
        "c": Normal(0.1),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_compiled_pass_is_the_laws_of_the_pieces(dtype):
    prior = FlatPrior(LAWS, LAYOUT, dtype)
    theta = np.random.default_rng(3).normal(size=13).astype(dtype)
    pieces = np.split(theta, [6, 7, 11, 11])
    expected = [law.gradient(piece) for law, piece in zip(prior.of.values(), pieces, strict=True)]
    out = np.full_like(theta, np.nan)
    assert prior.gradient(theta, out) is out
    assert_allclose(out, np.concatenate(expected), rtol=10 * np.finfo(dtype).eps)
    assert prior.gradient(theta).tobytes() == out.tobytes()
    densities = [law.log_density(piece).sum() for law, piece in zip(prior.of.values(), pieces, strict=True)]
    assert prior.log_density(theta) == pytest.approx(sum(densities), rel=1e-12)


def test_a_number_is_the_scale_of_a_normal_for_all():
    theta = np.arange(3.0)
    assert FlatPrior(2.0, {"w": (3,)}).gradient(theta).tolist() == [0, 0.25, 0.5]
    assert FlatPrior(Laplace(2.0), {"w": (3,)}).gradient(theta).tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Normal(0), r"scale=0: is out of range\. Give a finite number > 0"),
    (lambda: Laplace("1"), "scale='1': is a str, not a number"),
    (lambda: StudentT(df=0), r"df=0: is out of range\. Give a finite number > 0"),
    (lambda: StudentT(df=1, scale=-1), "scale=-1: is out of range"),
    (lambda: FlatPrior(-1, LAYOUT), r"prior=-1: is out of range\. Give a scale > 0, sg\.priors\.Normal"),
    (lambda: FlatPrior(None, LAYOUT), "prior=None: is not a number. Give a scale > 0"),
    (lambda: FlatPrior({"*": "wide"}, LAYOUT), r"prior\['\*'\]='wide': is a str, not a number\. Give a scale"),
    (lambda: FlatPrior({"a.*": 1}, LAYOUT), "prior=.*says nothing about the parameter 'b.weight'. Add an entry .* are: "
                                            "a.weight, a.bias, b.weight, b.bias, c"),
    (lambda: FlatPrior({"*": 1, "c": 2}, LAYOUT), "prior=.*has an entry 'c' that no parameter gets. The first entry"),
    (lambda: FlatPrior({"convolution": 1, "*": 2}, LAYOUT), "prior=.*has an entry 'convolution' that no parameter"),
])  # fmt: skip
def test_refusals(make, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        make()


# ------------------------------------------------------------------------------------- centres and shared scales


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_shared_scale_is_integrated_out(dtype):
    """Against the multivariate t of SciPy; and many parameters find their own scale."""
    law = SharedScale(df=3.0, scale=0.7)
    theta = np.random.default_rng(3).normal(size=7)
    reference = scipy.stats.multivariate_t(np.zeros(7), 0.49 * np.eye(7), df=3.0)
    assert_allclose(law.log_density(theta), reference.logpdf(theta), rtol=1e-12)
    h = 1e-6 * np.eye(7)
    slopes = [(reference.logpdf(theta + e) - reference.logpdf(theta - e)) / 2e-6 for e in h]
    flat = FlatPrior({"b": 1.0, "w": law}, {"b": (2,), "w": (7,)}, dtype)
    given = np.concatenate([[1.0, 2.0], theta]).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-7
    assert_allclose(flat.gradient(given), np.concatenate([[1.0, 2.0], -np.array(slopes)]), rtol=tolerance)
    many = np.random.default_rng(4).normal(scale=5.0, size=100_000)
    assert_allclose(law.gradient(many), many / many.var(), rtol=1e-3)


def test_priors_about_a_point():
    layout, start = {"a": (2, 2), "b": (3,)}, np.arange(7.0)
    theta = np.random.default_rng(3).normal(size=7)
    about = np.array([[1.0, 2.0], [3.0, 4.0]])
    cases = {
        None: start[:4], 0.5: np.full(4, 0.5), "array": about.ravel(), "mapping": about.ravel(),
    }  # fmt: skip
    for at, centre in cases.items():
        given = {"array": about, "mapping": {"a": about}}.get(at, at)
        prior = FlatPrior({"a": Centred(Laplace(0.3), given), "*": 2.0}, layout, start=start)
        assert_allclose(prior.gradient(theta), np.r_[np.sign(theta[:4] - centre) / 0.3, theta[4:] / 4])
        expected = Laplace(0.3).log_density(theta[:4] - centre).sum() + Normal(2.0).log_density(theta[4:]).sum()
        assert prior.log_density(theta) == pytest.approx(expected)
    assert FlatPrior(2.0, layout, start=start).centre is None


@pytest.mark.parametrize(("prior", "message"), [
    (lambda: Centred(-1.0), r"law=-1.0: is out of range"),
    (lambda: Centred(Centred(1.0)), "law="),
    (lambda: FlatPrior(Centred(1.0), {"w": (2,)}), "at=None: is needed: the model has no start of its own"),
    (lambda: FlatPrior(Centred(1.0, at=[1.0]), {"w": (2,)}), r"has shape \(1,\) for 'w'.*an array of shape \(2,\)"),
    (lambda: FlatPrior(Centred(1.0, at={"v": 1.0}), {"w": (2,)}), r"at=\['v'\]: has no entry 'w'"),
    (lambda: FlatPrior(Centred(1.0, at=np.nan), {"w": (2,)}), "is not finite"),
])  # fmt: skip
def test_refused_centres(prior, message):
    with pytest.raises(ArgumentError, match=message):
        prior()
