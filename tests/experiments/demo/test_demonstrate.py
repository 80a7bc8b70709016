import json
import math

import numpy as np
import pytest

from stalegrad import Trace, replay
from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import mean_log_likelihood
from stalegrad.experiments.demo import Settings, digits
from stalegrad.experiments.demo.summary import RHAT_LIMIT, largest_rhat, rhat_verdict

pytestmark = pytest.mark.long

FILES = {
    "report.html", "run.html", "summary.json", "trace.npz", "digits.png", "estimate.png", "reliability.png",
    "staleness.png",
}  # fmt: skip


def test_it_writes_all_it_says_and_nothing_else(demonstration):
    out, _, said, _ = demonstration
    assert {path.name for path in out.iterdir()} == FILES
    assert all(name in said for name in FILES)
    assert said.rstrip().endswith(f"Look first at {out / 'report.html'}.")
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_summary_is_the_returned_numbers_and_every_one_is_finite(demonstration):
    out, numbers, _, _ = demonstration
    stored = json.loads((out / "summary.json").read_text())
    assert stored == json.loads(json.dumps(numbers))
    assert set(stored) == {
        "settings", "data", "draws", "sampling", "scores", "confidence", "hardest", "test_functions", "reference",
        "replayed", "versions",
    }  # fmt: skip
    assert stored["data"] == {"train": 1297, "test": 500, "classes": 10, "parameters": 650}
    assert stored["draws"] == {"chains": 2, "per_chain": 30}
    assert stored["settings"]["steps"] == stored["sampling"]["accepted"][0] == 1000
    assert set(stored["test_functions"]) == {"log_likelihood", "entropy", "square_weight", "worst_digit"}
    assert all(math.isfinite(number) for number in leaves(stored))


def leaves(value):
    if isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, int | float):
        yield value


def test_the_numbers_agree_with_the_run_in_the_trace(demonstration):
    """Everything again from the trace, all predictions at once and in the plainest way."""
    out, numbers, _, small = demonstration
    data = digits()
    model = data.model(small.batch_size)
    run = replay(Trace.load(out / "trace.npz"), model, small.kernel)
    assert numbers["replayed"]
    p = run.evaluate(lambda theta: model.predict(theta, data.test))
    truth = p[:, :, np.arange(500), data.test_y]
    scores = numbers["scores"]
    averaged = p.mean(axis=(0, 1))
    assert scores["averaged"]["mean_log_likelihood"] == pytest.approx(mean_log_likelihood(averaged, data.test_y))
    assert scores["averaged"]["accuracy"] == (averaged.argmax(axis=1) == data.test_y).mean()
    assert scores["single_draw"]["mean_log_likelihood"] == pytest.approx(np.log(truth).mean())
    assert scores["single_draw"]["accuracy"] == pytest.approx((p.argmax(axis=-1) == data.test_y).mean())
    assert scores["last_draw"]["mean_log_likelihood"] == pytest.approx(np.log(truth[-1, -1]).mean())
    assert numbers["confidence"]["single_draw"] == pytest.approx(p.max(axis=-1).mean())
    assert numbers["confidence"]["averaged"] == pytest.approx(averaged.max(axis=-1).mean())
    functions = numbers["test_functions"]
    assert functions["log_likelihood"]["value"] == pytest.approx(np.log(truth).mean())
    assert functions["square_weight"]["value"] == pytest.approx(np.square(run.draws, dtype=float).mean())
    assert numbers["hardest"]["row"] == np.argsort(averaged.max(axis=1), kind="stable")[:8].tolist()
    chain = run.trace.chains[1]
    taken = chain.staleness[chain.accepted]
    assert numbers["sampling"]["mean_staleness"][1] == pytest.approx(taken.mean())
    assert numbers["sampling"]["max_staleness"][1] == taken.max() <= small.max_staleness
    assert numbers["sampling"]["dropped"][1] == np.count_nonzero(~chain.accepted)


def test_averaging_beats_the_average_draw(demonstration):
    scores = demonstration[1]["scores"]
    assert scores["averaged"]["mean_log_likelihood"] > scores["single_draw"]["mean_log_likelihood"]
    assert scores["averaged"]["brier_score"] < scores["single_draw"]["brier_score"]
    assert scores["averaged"]["accuracy"] > 0.9


def test_a_bad_rhat_is_said_in_the_open(demonstration):
    _, numbers, said, _ = demonstration
    assert largest_rhat(numbers) > RHAT_LIMIT  # 900 updates after burn-in are far from enough
    assert "do not agree yet" in said
    functions = {name: {"rhat": 1.01} for name in numbers["test_functions"]}
    assert "the chains agree" in rhat_verdict({"test_functions": functions})
    assert "do not agree" in rhat_verdict({"test_functions": functions | {"entropy": {"rhat": float("nan")}}})


def test_the_split_is_always_the_same_and_disjoint():
    first, again = digits(), digits()
    assert np.array_equal(first.test, again.test)
    assert (len(first.train), len(first.test)) == (1297, 500)
    assert np.abs(first.train.mean(axis=0)).max() < 1e-6
    shift = first.test_images.reshape(500, 64) / 16 - first.test
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-6)  # images and pixels match
    assert set(first.train_y) == set(range(10))


def test_settings_leave_a_tenth_out_and_keep_what_they_say():
    settings = Settings()
    assert (settings.burn_in, settings.thin) == (8000, 80)
    assert Settings(steps=100, draws=900).thin == 1
    with pytest.raises(ArgumentError):
        Settings(steps=10)


def test_the_command_takes_its_options_and_tells_them(demonstration):
    out, _, _, settings = demonstration
    assert settings == Settings(steps=1000, workers=2, seed=5, draws=30, batch_size=64)
    stored = json.loads((out / "summary.json").read_text())["settings"]
    assert (stored["steps"], stored["workers"], stored["seed"]) == (1000, 2, 5)
    assert "--steps 1000 --workers 2 --seed 5" in (out / "report.html").read_text()
