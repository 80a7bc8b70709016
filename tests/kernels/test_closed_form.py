"""Long runs against closed forms: on a Gaussian, stale SGLD and SGHMC are linear recursions with known moments.

128 repetitions of one constant-staleness trace, 32 coordinates each, from real minibatches of a real model. The
standard error comes from the repetitions; a test fails when the mean is off by what chance gives once in a million.
(Noise is made many coordinates at a time, so that a few long rows cost a fraction of many short ones.)
"""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.theory import stale_baoab, stale_sghmc, stale_sgld, stale_ubu

from .samplers import time_averages

pytestmark = pytest.mark.long

FALSE_ALARM = 1e-6
N, J, COORDINATES, REPEATS = 50, 5, 32, 128
STEPS, BURN_IN, THIN = 8000, 500, 5
CURVATURE = N + 1.0  # N data of unit noise, a unit prior
FRICTION = 20.0

KERNELS = {
    "SGLD": (lambda h: sg.SGLD(step_size=h), stale_sgld, (0.0004, 0.001)),
    "SGHMC-euler": (
        lambda h: sg.SGHMC(step_size=h, friction=FRICTION),
        lambda *a, **k: stale_sghmc(a[0], a[1], FRICTION, *a[2:], **k),
        (0.005, 0.015),
    ),
    "SGHMC-splitting": (
        lambda h: sg.SGHMC(step_size=h, friction=FRICTION, integrator="splitting"),
        lambda *a, **k: stale_sghmc(a[0], a[1], FRICTION, *a[2:], integrator="splitting", **k),
        (0.005, 0.015),
    ),
    "BAOAB": (
        lambda h: sg.BAOAB(step_size=h, friction=FRICTION),
        lambda *a, **k: stale_baoab(a[0], a[1], FRICTION, *a[2:], **k),
        (0.015,),
    ),
    "UBU": (
        lambda h: sg.UBU(step_size=h, friction=FRICTION),
        lambda *a, **k: stale_ubu(a[0], a[1], FRICTION, *a[2:], **k),
        (0.015,),
    ),
}


def _model(batch_size):
    """Data and their posterior, of curvature N + 1; exact gradients need no more than two data, with N/2 the precision.

    Every column is a permutation of the same numbers, so that all coordinates have one mean and one variance.
    """
    rng = np.random.default_rng(4)
    rows = N if batch_size else 2
    column = rng.standard_normal(rows)
    data = np.stack([rng.permutation(column) for _ in range(COORDINATES)], axis=1)
    noise_scale = np.sqrt(rows / N)
    return data, sg.potentials.GaussianMean(data, noise_scale=noise_scale, batch_size=batch_size, dtype=np.float64)


def _within_error(per_repetition, exact, what):
    """A two-sided t test over repetitions at the stated rate of false alarms."""
    result = stats.ttest_1samp(per_repetition, exact)
    assert result.pvalue > FALSE_ALARM, (
        f"{what}: {per_repetition.mean():.6g} is {result.statistic:+.2f} standard errors from {exact:.6g}"
    )
    return abs(per_repetition.std() / np.sqrt(len(per_repetition)) / exact)


@pytest.mark.parametrize(
    ("name", "tau"),
    [(name, tau) for name in KERNELS for tau in ((0, 4) if name in ("BAOAB", "UBU") else (0, 1, 4, 16))],
)
@pytest.mark.parametrize("batch_size", [None, J], ids=["exact", "minibatch"])
def test_stationary_mean_and_variance(name, tau, batch_size):
    data, potential = _model(batch_size)
    mean = potential.posterior()[0][0]
    # variance of (N/J) Σ over a subset without replacement
    noise = 0.0 if batch_size is None else N**2 / J * (1 - J / N) * data[:, 0].var(ddof=1)
    kernel_at, recursion_at, step_sizes = KERNELS[name]
    for h in step_sizes:
        exact = recursion_at(CURVATURE, h, tau, gradient_variance=noise, mean=mean)
        assert exact.stable
        trace = sg.Trace.constant_staleness(tau, STEPS, seed=17)
        run = sg.replay(
            trace, potential, kernel_at(h), repeats=REPEATS, initial=np.full(COORDINATES, mean),
            burn_in=BURN_IN, thin=THIN,
        )  # fmt: skip
        deviation = run.draws[:, 0] - mean
        scale = np.sqrt(exact.variance)
        _within_error(deviation.mean(axis=(1, 2)) / scale + 1, 1.0, f"mean at h = {h}")
        resolution = _within_error((deviation**2).mean(axis=(1, 2)), exact.variance, f"variance at h = {h}")
        assert resolution < 0.02, "the test would not see an error of a few percent"


def test_the_closed_form_would_notice_a_wrong_staleness():
    """The same comparison with τ off by one fails: the test above can fail."""
    _, potential = _model(None)
    run = sg.replay(
        sg.Trace.constant_staleness(4, STEPS, seed=17), potential, sg.SGLD(step_size=0.001), repeats=REPEATS,
        burn_in=BURN_IN, thin=THIN,
    )  # fmt: skip
    deviation = run.draws[:, 0] - potential.posterior()[0][0]
    wrong = stale_sgld(CURVATURE, 0.001, 5)
    with pytest.raises(AssertionError, match="standard errors"):
        _within_error((deviation**2).mean(axis=(1, 2)), wrong.variance, "variance")


class TestThermostat:
    """SGNHT's own limits, with gradient noise of variance v added to the gradient of N(0, 1)."""

    noise_sd, h, coordinates = 3.0, 0.02, 8192

    def _averages(self, kernel, *phis):
        rng = np.random.Generator(np.random.Philox(key=3))

        def gradient(theta):
            return theta + self.noise_sd * rng.standard_normal(theta.shape)

        return time_averages(kernel, gradient, *phis, coordinates=self.coordinates, steps=6000, burn_in=2000)

    @pytest.mark.parametrize("thermostats", ["shared", "each"])
    @pytest.mark.parametrize("integrator", ["euler", "splitting"])
    def test_absorbs_gradient_noise(self, thermostats, integrator):
        kernel = sg.SGNHT(step_size=self.h, noise=1.0, thermostats=thermostats, integrator=integrator)
        temperature, variance, friction = self._averages(
            kernel, lambda state: state.momentum**2, lambda state: state.position**2,
            lambda state: np.broadcast_to(state.thermostat, state.position.shape),
        ).mean(axis=1)  # fmt: skip
        assert temperature == pytest.approx(1, abs=0.01)
        assert variance == pytest.approx(1, abs=0.03)  # O(h)
        assert friction == pytest.approx(1 + self.h * self.noise_sd**2 / 2, rel=0.03)  # A + hv/2

    def test_sghmc_with_the_same_friction_does_not(self):
        kernel = sg.SGHMC(step_size=self.h, friction=1.0)
        temperature = self._averages(kernel, lambda state: state.momentum**2).mean()
        assert temperature > 1 + 0.8 * self.h * self.noise_sd**2 / 2


class TestPreconditioned:
    """pSGLD's own limits."""

    def test_frozen_metric_is_sgld_with_a_scaled_step(self):
        """α = 1 keeps V = 0 and G = 1/λ: SGLD with the step h/λ, whose variance is exact."""
        exact = stale_sgld(1.0, 0.2, 2)
        kernel = sg.PSGLD(step_size=0.02, decay=1.0, floor=0.1, n_data=1, batch_size=1)
        averages = time_averages(
            kernel, np.copy, lambda s: s.position**2, coordinates=4096, steps=4000, burn_in=500, staleness=2
        )
        _within_error(averages, exact.variance, "variance")

    @pytest.mark.parametrize("scale", [0.2, 5.0])
    def test_long_memory_equalises_scales(self, scale):
        """With 1−α ≪ h the metric rests at G = 1/√(E ḡ²): targets of any scale mix alike and come out right."""
        curvature = scale**-2
        gradient_rms = np.sqrt(curvature)
        h = 0.05 * gradient_rms / curvature  # so that h G curvature = 0.05
        kernel = sg.PSGLD(step_size=h, decay=0.9999, floor=1e-9, n_data=1, batch_size=1)
        averages = time_averages(
            kernel, lambda theta: curvature * theta, lambda s: s.position**2, coordinates=2048, steps=6000,
            burn_in=1000, prepare=lambda state: state.squares.fill(gradient_rms**2),
        )  # fmt: skip
        assert averages.mean() == pytest.approx(scale**2 / (1 - 0.05 / 2), rel=0.03)

    def test_divergence_term_is_the_derivative_of_the_metric(self):
        """Γ = ∂G/∂θ with dḡ/dθ = J V, by a finite difference of G in float64."""
        alpha, floor, n_data, batch, h = 0.9, 0.05, 20, 4, 1e-3
        on = sg.PSGLD(step_size=h, decay=alpha, floor=floor, n_data=n_data, batch_size=batch, divergence=True)
        off = sg.PSGLD(step_size=h, decay=alpha, floor=floor, n_data=n_data, batch_size=batch)
        theta, old, g = np.array([0.3]), np.array([0.04]), np.array([7.0])
        state = type(off.start(theta[None], sg.kernels.Address(0, 0, 0)))(theta, old)
        with_term, without = on.step(state, g, 0.0 * g, h), off.step(state, g, 0.0 * g, h)
        gamma = (with_term.position - without.position) / h

        def metric(mean_gradient):
            return 1 / (floor + np.sqrt(alpha * old + (1 - alpha) * mean_gradient**2))

        slope = batch * with_term.squares  # dḡ/dθ by Fisher's identity
        step = 1e-6
        numeric = (metric(g / n_data + slope * step) - metric(g / n_data - slope * step)) / (2 * step)
        np.testing.assert_allclose(gamma, numeric, rtol=1e-6)
