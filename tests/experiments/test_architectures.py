"""The comparison of architectures on small data: truths against quadrature, times against hand counts, end to end."""

import json

import numpy as np
import pytest
from scipy import integrate
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad.analysis.estimates import consensus_draws
from stalegrad.experiments import architectures
from stalegrad.experiments.architectures.comparison import Estimates, compare, reached
from stalegrad.experiments.architectures.contenders import (
    CONTENDERS,
    Cluster,
    run_of,
    times_of_chains,
    times_of_visits,
)
from stalegrad.experiments.architectures.targets import rare_events

from .small_data import small_data

pytestmark = pytest.mark.long

SMALL = architectures.Settings(
    runs=4, workers=(1, 3), gradients=400, rare_gradients=1200, batch_size=20, step_size=0.01, reference_steps=600,
    draws=30, points=6, level=1.0,
)  # fmt: skip
STEADY = Cluster(gradient=1.0, variation=0.0, latency=0.25, straggler=4.0)


def test_the_truth_about_rare_events():
    target = rare_events(0.01)
    weight = lambda t: np.exp(9 * t - 36 * np.exp(t) - t**2 / 8)  # noqa: E731
    total, mean, square = (
        integrate.quad(lambda t, k=k: weight(t) * np.exp(k * t), -12, 3, epsabs=1e-14)[0] for k in range(3)
    )
    assert target.truth == pytest.approx(mean / total, rel=1e-6)
    assert target.deviation == pytest.approx(np.sqrt(square / total - (mean / total) ** 2), rel=1e-6)
    model, theta = target.potential, np.array([[-1.0], [0.3]])
    indices, out = np.array([[0, 1, 2, 3], [1, 2, 3, 5]]), np.empty((2, 1))
    model.gradients(theta, indices, out)
    np.testing.assert_array_equal(out, [model.gradient(*row) for row in zip(theta, indices, strict=True)])
    assert model.full_gradient(theta[0])[0] == pytest.approx(-1 / 4 + 36 * np.exp(-1) - 9)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_all_have_the_same_gradients(contender):
    target = rare_events(0.002)
    run, seconds = run_of(contender, target, 3, 1200, Cluster(), 30, repeats=2, seed=0)
    assert run.trace.cost().gradients == pytest.approx(1200, rel=0.05)
    assert seconds.shape == run.draws.shape[1:3]
    assert (np.diff(seconds) >= 0).all()


def test_chains_that_share_nothing_take_their_own_time():
    times = times_of_chains(3, 5, 0, STEADY)
    np.testing.assert_allclose(times[:2], [[1, 2, 3, 4, 5]] * 2)
    np.testing.assert_allclose(times[2], [4, 8, 12, 16, 20])


def test_visitors_wait_until_their_shard_is_free():
    """Trajectories of 8, 8 and 2 gradients all take 8 seconds: nobody waits, and all travel between rounds."""
    times = times_of_visits(sg.VisitingShards(3, lengths=(8, 8, 2)), 4, 0, STEADY)
    np.testing.assert_allclose(times, [[8, 16.25, 24.5, 32.75]] * 3)
    visiting = sg.VisitingShards(3, lengths=8)
    late = times_of_visits(visiting, 2, 0, STEADY)
    for s in range(3):
        first, second = visiting.shard(0, s, 0), visiting.shard(0, s, 1)
        ends = {v: 32.0 if v == 2 else 8.0 for v in range(3)}
        assert late[s, 0] == ends[first]
        assert late[s, 1] == max(ends[first] + 0.25, ends[second]) + ends[second]


def test_estimates_are_means_over_second_halves():
    (contender,) = (c for c in CONTENDERS if c.name == "independent chains")
    run, _ = run_of(contender, rare_events(0.002), 3, 1200, Cluster(), 30, repeats=2, seed=0)
    rates = np.exp(run.draws[..., 0])
    expected = np.concatenate([rates[:, 0, 4:8], rates[:, 1, 5:10], rates[:, 2, 1:2]], axis=1).mean(axis=1)
    np.testing.assert_allclose(Estimates(run, rare_events(0.002)).at([8, 10, 2]), expected)


def test_a_consensus_is_taken_of_what_all_have():
    (contender,) = (c for c in CONTENDERS if c.name == "consensus")
    run, _ = run_of(contender, rare_events(0.002), 3, 1200, Cluster(), 30, repeats=2, seed=0)
    combined = consensus_draws(run.draws[:, :, 5:10], weights="diagonal")
    np.testing.assert_allclose(
        Estimates(run, rare_events(0.002)).at([10, 30, 12]), np.exp(combined[..., 0]).mean(axis=1)
    )


def test_levels_are_reached_between_points():
    assert reached([10.0, 1000.0], np.array([4.0, 1.0]), 2.0) == pytest.approx(100)
    assert reached([10.0, 1000.0], np.array([4.0, 1.0]), 5.0) == 10
    assert reached([10.0, 1000.0], np.array([4.0, 1.0]), 0.5) is None
    assert reached([1.0, 2.0, 3.0], np.array([4.0, 1.0, 3.0]), 2.0) is None
    assert reached([1.0, 2.0, 3.0, 4.0], np.array([1.0, 4.0, 2.0, 1.0]), 2.0) == pytest.approx(3)


def test_a_longer_run_has_a_smaller_error():
    settings = architectures.Settings(runs=20, draws=100)
    curves, _ = compare(CONTENDERS[0], rare_events(0.01), 1, 20_000, settings)
    assert curves["error"][-1] < 0.5 * curves["error"][0]
    assert abs(curves["end"]["bias"]) < 0.3


def test_end_to_end(tmp_path, monkeypatch):
    data = small_data()
    numbers = architectures.reproduce(SMALL, data)
    text, picture = architectures.save(numbers, tmp_path)
    assert json.loads(text.read_text()) == json.loads(json.dumps(numbers))
    assert picture.stat().st_size > 10_000
    for found in numbers["targets"].values():
        assert [(c["name"], c["workers"]) for c in found["contenders"]] == [
            ("stale gradients", 1), *((contender.name, 3) for contender in CONTENDERS)
        ]  # fmt: skip
    monkeypatch.setattr(architectures, "Settings", lambda **given: SMALL)
    monkeypatch.setattr("stalegrad.experiments.architectures.comparison.a9a", lambda: data)
    done = CliRunner().invoke(cli.app, ["reproduce", "architectures", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "consensus" in done.output
    assert (tmp_path / "out" / "architectures.json").exists()
