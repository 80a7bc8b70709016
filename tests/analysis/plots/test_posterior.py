"""Densities, forests, ranks and pairs: what they show is what the draws are; and two runs beside each other."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

import stalegrad as sg
from stalegrad.analysis.plots.densities import density, draw_density
from stalegrad.analysis.plots.forest import draw_forest, interval
from stalegrad.analysis.plots.pairs import draw_pairs
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.ranks import draw_ranks
from stalegrad.analysis.report import write_comparison
from stalegrad.testing import small_model

RANDOM = np.random.default_rng(5)


def quantity(*chains, name="w"):
    ones = tuple(np.ones(len(chain)) for chain in chains)
    return Quantity(name, chains, ones, tuple(np.arange(1, len(chain) + 1) for chain in chains))


def axes():
    return Figure().subplots()


def test_a_density_is_one():
    points = np.linspace(-8, 8, 501)
    curve = density(RANDOM.normal(size=500), points)
    assert curve.sum() * (points[1] - points[0]) == pytest.approx(1.0)
    assert points[curve.argmax()] == pytest.approx(0.0, abs=0.5)
    weighed = density(np.repeat([-3.0, 3.0], 50), points, np.repeat([1.0, 3.0], 50))
    assert weighed[points > 0].sum() == pytest.approx(3 * weighed[points < 0].sum(), rel=0.01)


def test_densities_have_a_line_a_chain_and_one_for_all():
    drawn = axes()
    draw_density(drawn, quantity(RANDOM.normal(size=300), RANDOM.normal(size=300)))
    assert [line.get_label() for line in drawn.lines] == ["chain 0", "chain 1", "all chains"]
    empty = axes()
    draw_density(empty, quantity(np.zeros(10)))
    assert empty.texts[0].get_text() == "the draws do not vary"


def test_a_forest_shows_intervals_of_each_chain_in_units_of_the_quantity():
    drawn, far = axes(), RANDOM.normal(size=2000)
    draw_forest(drawn, [quantity(far, far + 10.0, name="a"), quantity(far, far, name="b")])
    assert [tick.get_text() for tick in drawn.get_yticklabels()] == ["a", "b"]
    low, high = interval(far, 0.94)
    spread = [line.get_xdata() for line in drawn.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.2]
    assert np.ptp(spread[2]) == pytest.approx((high - low) / far.std(), rel=1e-6)
    assert spread[1][0] - spread[0][0] == pytest.approx(10 / np.concatenate([far, far + 10]).std(), rel=1e-6)


def test_ranks_of_chains_that_agree_are_level_and_of_others_slope():
    same, other = axes(), axes()
    draws = RANDOM.normal(size=(2, 4000))
    draw_ranks(same, quantity(*draws))
    draw_ranks(other, quantity(draws[0], draws[1] + 1.0))
    level, slope = (
        [patch.get_data().values for patch in each.patches if hasattr(patch, "get_data")] for each in (same, other)
    )
    assert np.abs(level[0] - 0.05).max() < 0.015  # five standard errors
    assert slope[0][0] > 3 * slope[0][-1]
    alone = axes()
    draw_ranks(alone, quantity(draws[0]))
    assert "one chain has nobody" in alone.texts[0].get_text()


def test_pairs_need_two_that_vary():
    assert draw_pairs([quantity(RANDOM.normal(size=50))]) is None
    drawn = draw_pairs([quantity(RANDOM.normal(size=50), name=name) for name in "abcdef"])
    assert len([each for each in drawn.axes if each.axison]) == 10  # of four: the diagonal and below it


@pytest.fixture(scope="module")
def runs():
    settings = {"steps": 400, "servers": 2, "engine": "inline", "progress": False}
    return {f"run {w}": sg.sample(small_model(), sg.SGLD(step_size=2e-3), workers=w, **settings) for w in (1, 3)}


def test_two_runs_on_one_page(runs, tmp_path):
    text = write_comparison(runs, tmp_path / "both.html").read_text()
    assert "run 1 and run 3" in text
    assert "averages that can be compared" in text or "no standard errors" in text
    assert "settings.workers" in text
    assert re.search(r"settings\.workers</td><td>1</td><td>3<", text)  # 1 is the default, and said all the same
    assert text.count("data:image/png") == 4  # for light and dark screens, wide and narrow
    assert write_comparison(runs, tmp_path).name == "comparison.html"


def test_runs_that_cannot_be_compared(runs, tmp_path):
    smaller = sg.potentials.GaussianMean(np.ones((4, 2)), batch_size=2)
    other = sg.sample(smaller, sg.SGLD(step_size=2e-3), steps=50, engine="inline", progress=False)
    with pytest.raises(sg.ArgumentError, match="differ in how many parameters"):
        write_comparison({**runs, "other": other}, tmp_path)
    with pytest.raises(sg.ArgumentError, match="is not two or more"):
        write_comparison({"one": other}, tmp_path)
