"""Every finding about where chains are and what the posterior looks like, on a model that has it, and what becomes of
it when its remedy is followed on that very model. Seeds are fixed."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics import diagnose
from stalegrad.analysis.diagnostics.recommendation import Advice, Circumstances, joint
from stalegrad.potentials import from_gradient
from stalegrad.potentials.names import parameter_names
from stalegrad.protocol.settings import Settings


def normal(*shape, seed=1):
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape)


def judged(draws, **options):
    """The diagnosis of draws that are given, of so many chains."""
    chains, steps, _ = draws.shape
    shape = (chains, steps)
    trace = sg.Trace.constant_staleness(0, steps, chains=chains)
    return diagnose(draws, trace, np.full(shape, 0.01), np.full(shape, np.nan), **options)


def sampled(model, kernel, **options):
    return sg.sample(model, kernel, **{"servers": 2, "engine": "inline", "progress": False, "seed": 7, **options})


def named(findings, name):
    return findings[findings.names.index(name)]


def followed(model, findings):
    """The run that is recommended, as the printed call makes it."""
    return sg.sample(model, **findings.recommendation.arguments, engine="inline", progress=False, seed=7)


def regression(batch_size=50):
    X = normal(500, 3)
    return sg.potentials.Linear(X, X @ [3.0, 6.0, 9.0] + normal(500, seed=2), batch_size=batch_size, dtype=np.float64)


class TestArrival:
    def test_a_travelling_chain_is_found_and_never_excused_by_chance(self):
        """The step is far too short: both chains creep from 0 towards the mode, side by side."""
        model = regression()
        run = sampled(model, sg.SGLD(step_size=1e-7), steps=3000)
        findings = run.diagnose(model)
        assert findings.names[:2] == ("arrival", "R-hat")
        assert {finding.severity for finding in findings[:2]} == {"serious"}
        assert "chance" not in named(findings, "R-hat").measurement.what
        assert "effective draws" in findings.skipped
        assert "standard error of a mean is" not in str(findings)
        assert findings.recommendation.warmup
        assert findings.recommendation.call() == "sg.sample(potential, steps=3_000, servers=2)"
        assert "sg.sample(potential, steps=3_000, servers=2)" in str(findings)
        better = followed(model, findings)
        assert not {"arrival", "R-hat", "effective draws"} & set(better.diagnose(model).names)

    def test_a_chain_that_came_from_afar_and_stopped_has_arrived(self):
        way = 40 * np.exp(-np.arange(1000) / 60)[None, :, None]
        findings = judged(normal(2, 1000, 4) + way)
        assert "arrival" not in findings.names
        assert "transient" in findings.names

    @pytest.mark.parametrize("seed", range(5))
    def test_stationary_chains_with_25_effective_draws_have_arrived(self, seed):
        values = normal(4, 1000, 256, seed=seed)
        values[:, 0] /= np.sqrt(1 - 0.95**2)
        for step in range(1, 1000):
            values[:, step] += 0.95 * values[:, step - 1]
        assert not {"arrival", "transient", "modes", "tails", "funnel"} & set(judged(values).names)

    def test_after_a_warm_up_its_remedy_is_not_the_warm_up(self):
        draws = normal(2, 400, 2) + np.linspace(0, 30, 400)[:, None]
        assert judged(draws).recommendation.warmup
        recommendation = judged(draws, warmed=True).recommendation
        assert "NUTS" in recommendation.model


class TestTransient:
    def test_the_burn_in_that_is_recommended_is_long_enough(self):
        model = regression()
        kernel = sg.SGLD(step_size=4e-5)
        findings = sampled(model, kernel, steps=4000).diagnose(model)
        finding = named(findings, "transient")
        assert finding.figure > 0.5
        assert "All 2 chains start at one point" in finding.why
        recommended = findings.recommendation
        assert recommended.arguments["kernel"] == kernel
        assert 0 < recommended.settings["burn_in"] < 1000
        assert recommended.settings["steps"] >= 4000 + recommended.settings["burn_in"]
        better = sg.sample(model, **recommended.arguments, engine="inline", progress=False, seed=8)
        assert "transient" not in better.diagnose(model).names

    def test_many_parameters_that_begin_within_their_spread(self):
        draws = normal(2, 1000, 200)
        draws[:, :200] += 2.5 * np.sign(normal(200)) * np.exp(-np.arange(200) / 60)[:, None]
        finding = named(judged(draws), "transient")
        assert "all of them together" in finding.measurement.what

    def test_a_start_within_the_posterior_is_none(self):
        assert "transient" not in judged(normal(2, 400, 5)).names


class Mixture:
    """Two groups of data with means of either sign: the labels of the groups may be exchanged."""

    data = np.concatenate([normal(40) - 2, normal(40, seed=2) + 2])

    def forces(self, means):
        """∂U/∂m of both means, each under a prior of scale 10."""
        squares = -0.5 * np.square(self.data[:, None] - means)
        share = np.exp(squares - squares.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        return means / 100 - (share * (self.data[:, None] - means)).sum(axis=0)

    def plain(self):
        return from_gradient(lambda theta, _: self.forces(theta), 2, n_data=1, dtype=np.float64)

    def ordered(self):
        """m₁ = m₀ + exp(d), with the Jacobian exp(d)."""

        def gradient(theta, _):
            gap = np.exp(theta[1])
            first, second = self.forces(np.array([theta[0], theta[0] + gap]))
            return np.array([first + second, second * gap - 1])

        return from_gradient(gradient, 2, n_data=1, dtype=np.float64)


def test_modes():
    mixture, kernel = Mixture(), sg.SGLD(step_size=2e-3)
    options = {"steps": 2500, "burn_in": 100}
    findings = sampled(mixture.plain(), kernel, initial=[[-2.0, 2.0], [2.0, -2.0]], **options).diagnose()
    assert {"modes", "R-hat"} <= set(findings.names)
    assert named(findings, "modes").severity == "serious"
    assert "More steps do not help" in named(findings, "R-hat").remedy
    assert "order what is labelled" in findings.recommendation.model
    model = mixture.ordered()
    better = sampled(model, kernel, initial=[[-2.0, 1.4], [2.0, 0.0]], **options).diagnose(model)
    assert not {"modes", "R-hat"} & set(better.names), str(better)


class TestFunnel:
    """Neal's: v ~ N(0, 3²), x | v ~ N(0, e^v)."""

    v, z = 3 * normal(2, 1500, 1), normal(2, 1500, 3, seed=2)

    def test_draws_of_it(self):
        findings = judged(np.concatenate([self.v, np.exp(self.v / 2) * self.z], axis=2))
        finding = named(findings, "funnel")
        assert finding.severity == "serious"
        assert "with theta[0]" in finding.measurement.what
        assert "non-centred" in findings.recommendation.model
        assert "kernel" not in findings.recommendation.arguments

    def test_the_same_model_non_centred(self):
        model = from_gradient(lambda theta, _: theta / [9, 1, 1, 1], 4, n_data=1, dtype=np.float64)
        run = sampled(model, sg.SGLD(step_size=0.2), steps=4000, burn_in=200, thin=2)
        assert "funnel" not in run.diagnose(model).names

    def test_what_is_no_funnel(self):
        """A Gaussian with strong correlations, and a skewed parameter beside it."""
        draws = normal(2, 1500, 6) @ np.tril(np.ones((6, 6)))
        draws[..., 5] = np.exp(normal(2, 1500, seed=4))
        assert "funnel" not in judged(draws).names

    @pytest.mark.long
    def test_a_run_on_it(self):
        def gradient(theta, _):
            precision = np.exp(-theta[0])
            squares = theta[1:] @ theta[1:]
            return np.concatenate([[theta[0] / 9 + 1.5 - 0.5 * precision * squares], precision * theta[1:]])

        model = from_gradient(gradient, 4, n_data=1, dtype=np.float64)
        kernel = sg.SGHMC(step_size=0.03, friction=1.0)
        findings = sampled(model, kernel, steps=60_000, burn_in=2000, thin=10).diagnose(model)
        assert any(finding.severity == "serious" for finding in findings), str(findings)
        assert findings.recommendation.model


class TestTails:
    def test_cauchy(self):
        """As it is, and in z, where x = sinh(z): −log p = log cosh z."""
        cauchy = np.tan(np.pi * (np.random.Generator(np.random.Philox(3)).random((2, 1500, 1)) - 0.5))
        findings = judged(cauchy)
        assert named(findings, "tails").severity == "serious"
        assert "sinh" in findings.recommendation.model
        assert "tails" not in judged(np.arcsinh(cauchy)).names
        model = from_gradient(lambda theta, _: np.tanh(theta), 1, n_data=1, dtype=np.float64)
        better = sampled(model, sg.SGLD(step_size=0.5), steps=6000, burn_in=100, thin=2).diagnose(model)
        assert "tails" not in {*better.names, *better.skipped}, str(better)

    @pytest.mark.parametrize("draws", [normal(2, 2000, 64), np.square(normal(2, 2000, 64))], ids=["normal", "gamma"])
    def test_light_tails(self, draws):
        assert "tails" not in {*judged(draws).names, *judged(draws).skipped}


def test_scales():
    widths = np.array([1.0, 2.0, 300.0])
    model = from_gradient(lambda theta, _: theta / np.square(widths), 3, n_data=1, dtype=np.float64)
    findings = judged(normal(2, 1000, 3) * widths, potential=model, kernel=sg.SGLD(step_size=0.01))
    finding = named(findings, "scales")
    assert finding.figure == pytest.approx(300, rel=0.1)
    assert findings.recommendation.warmup
    better = followed(model, findings)
    assert better.diagnose(model).skipped["scales"] == "the warm-up has seen to it"
    spread = better.trace.coordinates.inverse(np.asarray(better.draws)).std(axis=(0, 1))
    assert spread.max() < 2 * spread.min()


class TestWarmUp:
    def test_what_it_saw_is_a_finding(self):
        """Neal's funnel: other chains than its own would not say so if they never came into the neck."""

        def gradient(theta, _):
            v, x = theta[0], theta[1:]
            inverse = np.exp(-np.clip(v, -50, 50))
            return np.concatenate([[v / 9 + 0.5 * len(x) - 0.5 * inverse * (x @ x)], inverse * x])

        model = from_gradient(gradient, 6, n_data=1, dtype=np.float64)
        run = sg.sample(model, steps=2000, servers=2, engine="inline", progress=False)
        assert run.warmup.concerns
        finding = named(run.diagnose(model), "warm-up")
        assert finding.severity == "serious"
        assert run.warmup.concerns[0] in finding.measurement.what
        assert "NUTS" in run.diagnose(model).recommendation.model

    def test_numbers_for_its_coordinates_go_with_it(self):
        """Far fewer draws than it takes: the remedy has the same step, in the same coordinates, and more of them."""
        model = regression()
        findings = sg.sample(model, steps=120, servers=2, engine="inline", progress=False).diagnose(model)
        recommended = findings.recommendation
        assert recommended.arguments["warmup"] is True
        assert "warmup=True" in recommended.call()
        assert "architecture" not in recommended.arguments
        better = followed(model, findings)
        assert better.trace.coordinates is not None
        assert float(better.step_sizes[0, 0]) == recommended.step_size
        assert "effective draws" not in better.diagnose(model).names


class TestJointNumbers:
    about = Circumstances(
        Settings(steps=10_000, servers=2, workers=3, burn_in=1000, thin=5), (sg.SGLD(step_size=1e-3),) * 2, (1e-3,) * 2,
        lambda less: round(10 / less), 400,
    )  # fmt: skip

    def test_one_step_that_suits_all(self):
        found = joint([Advice(step=0.5), Advice(step=0.2), Advice(noise=0.15), Advice(if_unexplained=0.01)], self.about)
        assert found.step_size == 1.5e-4
        assert found.batch_size is None
        assert found.settings == {
            "steps": 67_000, "burn_in": 6700, "thin": 33, "servers": 2, "workers": 3
        }, "the same stretch of time"  # fmt: skip

    def test_beyond_half_of_the_step_noise_is_for_the_minibatch(self):
        found = joint([Advice(step=0.5), Advice(noise=0.05)], self.about)
        assert (found.step_size, found.batch_size) == (5e-4, 100)

    def test_a_minibatch_has_no_more_than_all_data(self):
        found = joint([Advice(noise=0.01)], self.about)
        assert (found.step_size, found.batch_size) == (4e-4, 400)

    def test_a_step_is_halved_where_nobody_knows_why(self):
        assert joint([Advice(if_unexplained=0.5)], self.about).step_size == 5e-4

    def test_more_draws(self):
        found = joint([Advice(longer=2.0), Advice(longer=3.0)], self.about)
        assert found.arguments["kernel"] == self.about.kernels[0]
        assert found.settings["steps"] == 28_000

    def test_a_longer_step_where_theory_has_room_for_it(self):
        about = Circumstances(self.about.settings, self.about.kernels, self.about.steps, room=lambda: 4.0)
        found = joint([Advice(longer=8.0)], about)
        assert (found.step_size, found.settings["steps"]) == (4e-3, 19_000)

    def test_no_step_beside_a_warm_up(self):
        found = joint([Advice(warmup=True), Advice(step=0.1)], self.about)
        assert found.warmup
        assert found.arguments == {"steps": 10_000, "servers": 2, "workers": 3}

    def test_nothing_to_do(self):
        assert joint([Advice()], self.about) is None


class TestNetworks:
    """Two chains whose hidden units are the same in another order: the weights differ and the predictions do not."""

    @pytest.fixture
    def model(self):
        import torch

        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
        x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
        return sg.potentials.from_torch(module, "gaussian", (x, np.sin(3 * x)), noise_scale=0.1)

    @pytest.fixture
    def draws(self):
        one = np.array([2.0, -3.0, 1.0, 0.5, 0.0, -0.5, 1.0, 2.0, -1.0, 0.1])
        order = [1, 2, 0, 4, 5, 3, 7, 8, 6, 9]
        return (np.stack([one, one[order]])[:, None] + 0.05 * normal(2, 300, 10)).astype(np.float32)

    def test_they_are_judged_by_what_they_predict(self, model, draws):
        findings = judged(draws, potential=model)
        assert not {"R-hat", "modes", "effective draws"} & set(findings.names), str(findings)
        told = {each.name: each.what for each in findings.measurements}
        assert "R-hat of prediction[" in told["R-hat"]
        assert ".weight[" in told["R-hat"].partition("of single weights it is up to")[2]
        assert "judged by what it predicts" in findings.skipped["funnel"]

    def test_predictions_that_differ_are_found(self, model, draws):
        moved = draws.copy()
        moved[1, :, 9] += 1.0  # the bias of the output
        assert "modes" in judged(moved, potential=model).names

    def test_functions_decide_where_there_are_any(self, model, draws):
        x = np.zeros((1, 1), np.float32)
        findings = judged(draws, potential=model, functions={"at 0": lambda theta: model.predict(theta, x)[0, 0]})
        assert "R-hat of at 0" in {each.name: each.what for each in findings.measurements}["R-hat"]
        assert not {"R-hat", "modes"} & set(findings.names)

    def test_without_the_model_nothing_is_said_of_their_weights(self, model):
        kernel = sg.SGHMC.from_sgd(lr=0.01, momentum=0.9, n_data=40)
        run = sampled(model, kernel, steps=400)
        findings = run.diagnose()
        assert not {"arrival", "R-hat", "modes", "effective draws", "scales"} & set(findings.names), str(findings)
        assert "needs the model: give potential=" in findings.skipped["R-hat"]
        assert "weights of a network mean little" in findings.skipped["arrival"]
        assert not findings.recommendation or findings.recommendation.kernels

    def test_what_is_recommended_has_their_kernel(self, model):
        """The steps are far too short, so that predictions creep: elsewhere a warm-up is the remedy."""
        kernel = sg.SGHMC.from_sgd(lr=1e-5, momentum=0.9, n_data=40)
        run = sampled(model, kernel, steps=400)
        findings = run.diagnose(model)
        assert "arrival" in findings.names, str(findings)
        advised = findings.recommendation
        assert not advised.warmup
        assert advised.kernels[0].friction == kernel.friction
        assert (advised.settings["burn_in"], advised.settings["servers"]) == (400, 2)
        assert advised.settings["steps"] >= 800
        assert "a burn-in as long as it was" in str(findings)

    def test_weights_have_their_names(self):
        layout = {"0.weight": (3, 1), "0.bias": (3,), "2.weight": (1, 3), "2.bias": (1,)}
        assert parameter_names(layout, [2, 4, 8, 9]) == [
            "0.weight[2, 0]", "0.bias[1]", "2.weight[0, 2]", "2.bias[0]"
        ]  # fmt: skip
