"""The parts of the demonstration, at a size at which nothing is compiled, and the page that is made of them."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from stalegrad.experiments.demo import Settings, pictures, speed, staleness
from stalegrad.experiments.demo.page import page
from stalegrad.experiments.demo.survival import Survival, kill_worker
from stalegrad.experiments.demo.task import Exact, model
from stalegrad.experiments.demo.terminal import show

SMALL = Settings(steps=1500, workers=4, away=5e-4)


@pytest.fixture(scope="module")
def posterior():
    potential = model()
    return potential, Exact.of(potential)


@pytest.fixture(scope="module")
def fast(posterior):
    return speed.measure(*posterior, SMALL, lambda what: None)


@pytest.fixture(scope="module")
def stale(posterior):
    return staleness.measure(*posterior, SMALL, lambda what: None)


def survived(replayed=True):
    numbers = {
        "steps": 1000, "worker_killed": True, "run_killed": True, "events": ["died"], "kept": 400, "sessions": 2,
        "gradients": 1000, "replayed": replayed,
    }  # fmt: skip
    return Survival(np.linspace(0, 2, 1000), {"a worker was killed": 100.0, "the run was killed": 400.0}, numbers)


def test_the_posterior_is_known_exactly(posterior):
    potential, exact = posterior
    np.testing.assert_allclose(exact.deviation, 1.0, rtol=1e-5)
    assert np.abs(potential.full_gradient(exact.mean.astype(np.float32))).max() < 1e-3
    z = exact.standardised(exact.mean + 2 * exact.deviation)
    np.testing.assert_allclose(z, 2.0)


def test_runs_take_turns_and_are_held_against_the_clock(fast):
    assert [curve.workers for curve in fast.curves] == [1, 2, 2, 1]
    for curve in fast.curves:
        assert np.all(np.diff(curve.seconds) >= 0)
        assert 0.5 < curve.average[-1] < 1.6
        assert curve.error[-1] < curve.error[0]
    rates = fast.numbers["updates_per_second"]
    assert fast.numbers["speedup"] == pytest.approx(rates["2"] / rates["1"])
    assert fast.numbers["mean_staleness"] > 0


def test_theory_knows_what_old_gradients_do(stale):
    assert set(stale.variances) == {"as they are", "compensated"}
    assert stale.numbers["mean_staleness"]["as they are"] > 1
    assert stale.numbers["variance_predicted"] > 1.05


def numbers_of(fast, stale, **changes):
    return {
        "settings": {"steps": 1500, "seed": 0}, "cores": 2, "speed": fast.numbers, "staleness": stale.numbers,
        "survival": survived().numbers, "findings": 0, "diagnosis": "no findings in 26 checks",
        "versions": {"stalegrad": "1"}, "seconds": 61.0, **changes,
    }  # fmt: skip


@pytest.mark.long
def test_the_page_says_what_was_measured(fast, stale):
    drawn = pictures.versions(fast, stale, survived())
    text = page(numbers_of(fast, stale), drawn, "out put")
    assert f"{fast.numbers['speedup']:.2f} ×" in text
    assert ">same bits<" in text
    assert "400 of 1,000 updates were safe" in text
    assert "no findings in 26 checks" in text
    assert "stalegrad demo --out &#x27;out put&#x27; --steps 1500" in text or "--out 'out put' --steps 1500" in text
    assert text.count("data:image/png") == 12  # three, for light and dark screens, wide and narrow
    assert not re.search(r"https?://|\$\w", re.sub(r"base64,[^\"]*", "", text))


@pytest.mark.long
def test_it_does_not_hide_a_failure(fast, stale):
    drawn = pictures.versions(fast, stale, survived())
    broken = numbers_of(fast, stale, survival=survived(replayed=False).numbers, findings=1, diagnosis="R-hat is 2")
    text = page(broken, drawn, "out")
    assert "DIFFERENT BITS" in text
    assert "please report it" in text
    assert "class=warn" in text
    assert "R-hat is 2" in text
    out = io.StringIO()
    show(Console(file=out, width=80), broken, Path("demo-output"))
    assert "DIFFERENT BITS" in out.getvalue()
    assert max(map(cell_len, out.getvalue().splitlines())) <= 80


def test_nobody_is_killed_where_there_are_no_workers():
    assert kill_worker(2**22 + 1) is None
