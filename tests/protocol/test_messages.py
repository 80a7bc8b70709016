"""Runs whose messages are rounded: the law stays, replays are the same bits, and what cannot be had is refused."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError

FORMATS = ("bfloat16", "int8")


def model(batch_size=20, dtype=np.float32, n=40):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, n))
    labels = (rng.random(200) < 0.5).astype(float)
    return sg.potentials.Logistic(features, labels, prior_scale=1.0, batch_size=batch_size, dtype=dtype)


def sample(engine="inline", messages="int8", **changes):
    asked = {"steps": 300, "workers": 3, "seed": 5, "progress": False, "warmup": None, **changes}
    return sg.sample(model(), sg.SGHMC(step_size=1e-2, friction=2.0), engine=engine, messages=messages, **asked)


@pytest.mark.parametrize("messages", FORMATS)
class TestReplay:
    @pytest.mark.parametrize("engine", ["inline", "threads", "processes"])
    def test_gives_the_same_bits(self, engine, messages):
        run = sample(engine, messages)
        assert np.array_equal(sg.replay(run.trace, model()).draws, run.draws)

    def test_with_what_the_server_owns_and_points_ahead(self, messages):
        run = sample("threads", messages, architecture=sg.StaleGradients(linear=1.0, look_ahead="auto"))
        assert np.array_equal(sg.replay(run.trace, model()).draws, run.draws)

    def test_the_trace_on_disk_knows_it(self, tmp_path, messages):
        run = sample("threads", messages)
        run.trace.save(tmp_path / "x.npz")
        trace = sg.Trace.load(tmp_path / "x.npz")
        assert trace.record.settings.messages == messages
        assert np.array_equal(sg.replay(trace, model()).draws, run.draws)

    def test_of_a_run_that_was_resumed(self, tmp_path, messages):
        sample("threads", messages, store=tmp_path / "x")
        run = sg.resume(tmp_path / "x", model(), steps=600, engine="inline", progress=False)
        assert run.draws.shape[1] == 600
        assert np.array_equal(sg.replay(run.trace, model()).draws, np.asarray(run.draws))


@pytest.mark.parametrize("messages", FORMATS)
def test_rounding_is_there(messages):
    assert not np.array_equal(sample(messages=messages).draws, sample(messages="float32").draws)


@pytest.mark.parametrize("messages", FORMATS)
def test_workers_see_points_that_fit_and_send_what_fits(messages):
    seen = []

    def gradient(theta, indices):
        seen.append(theta.copy())
        return theta

    potential = sg.potentials.from_gradient(gradient, size=5, n_data=10, batch_size=2)
    initial = np.full(5, 1.2345678, np.float32)
    sg.sample(
        potential, sg.SGLD(step_size=1e-3), steps=20, engine="inline", initial=initial, messages=messages, warmup=None,
        progress=False,
    )  # fmt: skip
    assert all(not (point.view(np.uint32) & 0xFFFF).any() for point in seen[1:])  # the first is a trial of the model


@pytest.mark.parametrize("messages", FORMATS)
@pytest.mark.parametrize("staleness", [0, 3])
def test_the_law_is_that_of_exact_messages(messages, staleness):
    # A Gaussian posterior in unit coordinates: rounding adds some gradient noise, which its own size bounds.
    rng = np.random.default_rng(2)
    data = rng.standard_normal(50)
    potential = sg.potentials.GaussianMean(data, prior_scale=1e3, batch_size=50)
    h, repeats, steps = 0.2 / 50, 400, 400
    exact, rough = (
        sg.sample(
            potential, sg.SGLD(step_size=h), steps=steps, workers=staleness + 1, repeats=repeats, burn_in=steps - 1,
            initial=np.array([data.mean()], np.float32), messages=each, warmup=None, progress=False,
        ).draws.ravel()
        for each in ("float32", messages)
    )  # fmt: skip
    assert abs(rough.mean() - exact.mean()) < 4.9 * np.sqrt(2) * exact.std() / np.sqrt(repeats)
    assert abs(np.log(rough.var() / exact.var())) < 4.9 * np.sqrt(2) * np.sqrt(2 / repeats)


class TestRefusals:
    def test_a_name_that_is_none(self):
        with pytest.raises(
            ArgumentError, match=r"messages='float8': is not known\. Give one of: 'float32', 'bfloat16'"
        ):
            sample(messages="float8")

    def test_an_architecture_that_sends_more_than_gradients(self):
        with pytest.raises(ArgumentError, match="messages='int8': does not go with Downpour"):
            sample(architecture=sg.Downpour(n_push=2))

    def test_a_model_in_float64(self):
        with pytest.raises(ArgumentError, match="messages='int8': rounds float32"):
            sg.sample(
                model(dtype=np.float64), sg.SGLD(step_size=1e-3), steps=10, messages="int8", warmup=None, progress=False
            )

    def test_a_gradient_that_is_not_finite_is_refused_as_ever(self):
        def gradient(theta, indices):
            return np.full_like(theta, np.nan)

        potential = sg.potentials.from_gradient(gradient, size=5, n_data=10, batch_size=2)
        with pytest.raises(Exception, match="cannot begin"):
            sg.sample(
                potential,
                sg.SGLD(step_size=1e-3),
                steps=20,
                engine="inline",
                messages="int8",
                warmup=None,
                progress=False,
            )
