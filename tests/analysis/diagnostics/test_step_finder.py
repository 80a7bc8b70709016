"""A step size for a target bias: against the exact bias of Gaussian targets, and by ``step_size="auto"``."""

from math import sqrt

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics import coupled_halving
from stalegrad.analysis.diagnostics.kernel_theory import variance_error
from stalegrad.potentials import GaussianMean, Linear, from_gradient, svrg
from stalegrad.runs.jobs import JobFile
from stalegrad.testing import small_logistic
from stalegrad.theory import Direction, stale_sgld

pytestmark = pytest.mark.long

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 4)) * [1.0, 2.0, 3.0, 5.0]
Y = X @ np.ones(4) + rng.standard_normal(400)
HESSIAN = X.T @ X + np.eye(4)
KERNELS = {
    "sgld": (sg.SGLD(step_size="auto"), 1),
    "sgld with nine workers": (sg.SGLD(step_size="auto"), 9),
    "euler": (sg.SGHMC(step_size="auto", friction=60.0), 3),
    "splitting": (sg.SGHMC(step_size="auto", friction=60.0, integrator="splitting"), 3),
}


def exact(batch_size):
    """The narrowest direction of the posterior and the exact gradient noise along it, at the mode."""
    curvatures, vectors = np.linalg.eigh(HESSIAN)
    residuals = X @ np.linalg.solve(HESSIAN, X.T @ Y) - Y
    along = residuals * (X @ vectors[:, -1])
    noise = 400**2 * along.var(ddof=1) / batch_size * (1 - batch_size / 400)
    return Direction(float(curvatures[-1]), float(noise))


@pytest.mark.parametrize("batch_size", [400, 40])
@pytest.mark.parametrize("name", KERNELS)
def test_the_true_bias_is_near_the_target(name, batch_size):
    kernel, workers = KERNELS[name]
    model = Linear(X, Y, batch_size=batch_size, dtype=np.float64)
    found = sg.find_step_size(model, kernel, workers=workers, progress=False)
    assert found.curvature == pytest.approx(np.linalg.eigvalsh(HESSIAN)[-1], rel=0.02)
    bias = variance_error(found.kernel, workers - 1, exact(batch_size)) / sqrt(2)
    assert 0.05 < bias < 0.2
    assert found.gradients <= 21_000


def test_a_smaller_target_gives_a_smaller_step_in_proportion():
    model = GaussianMean(np.zeros((50, 3)), dtype=np.float64)
    sizes = [sg.find_step_size(model, sg.SGLD(step_size="auto"), workers=3, bias=b, progress=False).step_size
             for b in (0.02, 0.04)]  # fmt: skip
    assert sizes[1] / sizes[0] == pytest.approx(2, rel=0.1)


def test_a_law_of_staleness_counts_as_its_mean_does_to_first_order():
    model, kernel = GaussianMean(np.zeros((50, 3)), dtype=np.float64), sg.SGLD(step_size="auto")
    settings = {"bias": 0.02, "gradients": 2000, "progress": False}
    mean = sg.find_step_size(model, kernel, staleness=4.0, **settings)
    law = sg.find_step_size(model, kernel, staleness=[0.5, 0, 0, 0, 0, 0, 0, 0, 0.5], **settings)
    assert law.staleness == mean.staleness == 4.0
    assert law.step_size == pytest.approx(mean.step_size, rel=0.15)


def test_halving_corrects_what_theory_gets_wrong():
    """Flat near its centre and steep beyond: curvature where a chain happens to be is not what decides."""

    def gradient(theta, indices):
        return 100.0 * theta**3

    model = from_gradient(gradient, size=1, n_data=1, dtype=np.float64, initial=[0.3])
    found = sg.find_step_size(model, sg.SGLD(step_size="auto"), workers=5, progress=False)
    trace = sg.Trace.constant_staleness(4, 200_000, seed=3)
    run = sg.replay(trace, model, found.kernel, burn_in=2000, thin=10)
    moment = 0.3379891 * 25**-0.5  # of exp(−25 θ⁴): E θ² = Γ(3/4)/Γ(1/4) · 25^{−½}
    spread = sqrt(0.25 / 25 - moment**2)  # E θ⁴ = 1/(4·25)
    assert -0.05 < (np.square(run.draws).mean() - moment) / spread < 0.25


@pytest.mark.parametrize("kernel", [sg.PSGLD(step_size="auto"), sg.SGNHT(step_size="auto", noise=60.0)], ids=str)
def test_the_other_samplers_find_one_too(kernel):
    model = Linear(X, Y, batch_size=40, dtype=np.float64)
    found = sg.find_step_size(model, kernel, workers=3, progress=False)
    mode = np.linalg.solve(HESSIAN, X.T @ Y)
    run = sg.sample(
        model, found.kernel, steps=20_000, burn_in=2000, workers=3, engine="inline", initial=mode, progress=False
    )
    deviation = (run.draws[0] - mode) @ np.linalg.eigh(HESSIAN)[1][:, -1]
    assert 0.3 < deviation.var() * np.linalg.eigvalsh(HESSIAN)[-1] < 3


def test_the_same_arguments_give_the_same_step_and_another_seed_hardly_another():
    model, kernel = Linear(X, Y, batch_size=40), sg.SGLD(step_size="auto")
    first, second, other = (
        sg.find_step_size(model, kernel, workers=2, gradients=10_000, seed=s, progress=False) for s in (1, 1, 2)
    )
    assert first == second
    assert other.step_size != first.step_size
    assert other.step_size == pytest.approx(first.step_size, rel=0.4)


def test_it_works_for_models_whose_workers_remember():
    found = sg.find_step_size(svrg(small_logistic(), refresh=7), sg.SGLD(step_size="auto"), workers=2, gradients=3000,
                              progress=False)  # fmt: skip
    assert 0.001 < found.step_size < 1


def test_it_says_what_it_did():
    found = sg.find_step_size(GaussianMean(np.zeros((100, 2)), dtype=np.float64), sg.SGLD(step_size="auto"), workers=5,
                              progress=False)  # fmt: skip
    text = str(found)
    assert f"step_size={found.step_size:.3g} for SGLD, found with {found.gradients:,} gradients" in text
    assert "largest curvature λ = 101" in text
    assert "gradients 4 updates old" in text
    assert "halving: at h = " in text
    few = sg.find_step_size(Linear(X, Y, batch_size=40), sg.SGLD(step_size="auto"), workers=20, gradients=1000,
                            progress=False)  # fmt: skip
    assert "not enough gradients to tell" in str(few)


def test_coupled_chains_measure_the_difference_that_theory_has():
    model, tau, h = GaussianMean(np.zeros((1, 1)), dtype=np.float64), 3, 0.02
    law = np.eye(1, tau + 1, tau)[0]
    measured = coupled_halving(model, sg.SGLD(step_size=h), law, np.zeros((32, 1)), np.eye(1), burn_in=150, steps=2000,
                               seed=4)  # fmt: skip
    at, half = (stale_sgld(2.0, size, tau).variance for size in (h, h / 2))
    expected = 2 * (at - half) / (sqrt(2) * half)
    assert measured.error[0] < 0.02
    assert abs(measured.value[0] - expected) < 5 * measured.error[0]  # 6e-7 and some more for 31 degrees of freedom


def test_coupled_chains_that_overflow_have_an_infinite_bias():
    model = GaussianMean(np.zeros((1, 1)), dtype=np.float64)
    found = coupled_halving(model, sg.SGLD(step_size=50.0), np.ones(1), np.ones((4, 1)), np.eye(1), burn_in=10,
                            steps=400, seed=0)  # fmt: skip
    assert np.isinf(found.value).all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"bias": 0.0}, "bias"),
        ({"gradients": 10}, "gradients"),
        ({"staleness": [0.5, 0.2]}, "staleness"),
        ({"staleness": -1.0}, "staleness"),
        ({"workers": 0}, "workers"),
    ],
)
def test_refusals(settings, named):
    with pytest.raises(sg.ArgumentError, match=named):
        sg.find_step_size(small_logistic(), sg.SGLD(step_size="auto"), progress=False, **settings)


def test_nothing_is_sampled_at_temperature_zero():
    with pytest.raises(sg.ArgumentError, match="temperature 0"):
        sg.find_step_size(small_logistic(), sg.SGLD(step_size="auto", temperature=0.0), progress=False)


class TestAuto:
    kernel = sg.SGLD(step_size="auto")

    def test_a_run_holds_the_number_and_replays_without_another_calibration(self, monkeypatch):
        model = small_logistic()
        run = sg.sample(model, self.kernel, steps=200, workers=3, engine="threads", warmup=None, progress=False)
        (about,) = run.trace.record.kernels
        expected = sg.find_step_size(model, self.kernel, workers=3, gradients=2000, progress=False)
        assert about["step_size"] == expected.step_size
        assert (run.step_sizes == about["step_size"]).all()
        monkeypatch.setattr("stalegrad.runs.step_sizes.find_step_size", None)
        np.testing.assert_array_equal(sg.replay(run.trace, model, self.kernel).draws, run.draws)

    def test_servers_may_mix_found_and_given(self):
        kernels = [self.kernel, sg.SGLD(step_size=0.01), self.kernel]
        run = sg.sample(small_logistic(), kernels, steps=20, servers=3, engine="inline", progress=False)
        sizes = run.step_sizes[:, 0]
        assert sizes[1] == 0.01
        assert sizes[0] == sizes[2] != 0.01

    def test_a_bound_on_staleness_counts(self):
        sizes = [
            sg.sample(GaussianMean(np.zeros((50, 2)), dtype=np.float64), self.kernel, steps=20, workers=8,
                      max_staleness=bound, engine="inline", warmup=None, progress=False).step_sizes[0, 0]
            for bound in (0, None)
        ]  # fmt: skip
        assert sizes[0] > 5 * sizes[1]

    def test_a_resumed_run_goes_on_with_what_was_found(self, tmp_path, monkeypatch):
        model = small_logistic()
        first = sg.sample(
            model, self.kernel, steps=30, workers=2, engine="inline", store=tmp_path / "run", progress=False
        )
        monkeypatch.setattr("stalegrad.runs.step_sizes.find_step_size", None)
        for kernel, steps in ((self.kernel, 60), (None, 90)):
            run = sg.resume(tmp_path / "run", model, kernel, steps=steps, progress=False)
            assert set(run.step_sizes[0]) == set(first.step_sizes[0])

    def test_it_prints_why(self, capsys):
        sg.sample(small_logistic(), self.kernel, steps=20, engine="inline", warmup=None)
        assert "for SGLD, found with" in capsys.readouterr().err

    def test_a_trace_without_the_number_is_refused(self):
        with pytest.raises(sg.ArgumentError, match="was not found for chain 0"):
            sg.replay(sg.Trace.constant_staleness(0, 5), small_logistic(), self.kernel)

    def test_nobody_else_can_use_it(self):
        with pytest.raises(sg.ArgumentError, match="has not been found yet"):
            self.kernel.schedule(0)
        with pytest.raises(sg.ArgumentError, match="step_size"):
            sg.SGLD(step_size="automatic")

    def test_job_files_may_say_so(self, tmp_path):
        (tmp_path / "job.toml").write_text(
            'steps = 20\nengine = "inline"\n[model]\nfunction = "stalegrad.testing.engines:small_logistic"\n'
            '[kernel]\nname = "SGHMC"\nstep_size = "auto"\nfriction = 5.0\n'
        )
        job = JobFile.read(tmp_path / "job.toml")
        model = job.potential()
        run = sg.sample(model, progress=False, **job.arguments(model))
        assert isinstance(run.trace.record.kernels[0]["step_size"], float)
