"""SGRLD and the expanded mean against Gamma and Dirichlet laws, with fresh and with stale gradients.

The Gamma law is exact: with θ_k ~ Gamma(α, 1) and natural gradients, SGRLD with the expanded mean is

    θ_{l+1} = θ_l + h (α − θ_{l−τ}) + √(2hθ_l) ζ,

whose mean is α, and whose variance is α times that of stale SGLD on N(0, 1), because E θ_l = α is all that the noise
depends on. Only reflections at 0 are left out, and at α = 50 there are none.
"""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.kernels import Address
from stalegrad.kernels.metrics import Diagonal, ExpandedMean
from stalegrad.protocol.chain import Chain
from stalegrad.theory import stale_sgld

from .samplers import EVERY_KERNEL, time_averages

pytestmark = pytest.mark.long

FALSE_ALARM = 1e-6
SURE = stats.norm.isf(FALSE_ALARM / 2)
COPIES = 4000


@pytest.mark.parametrize(("h", "tau"), [(0.05, 0), (0.2, 0), (0.05, 3)])
def test_gamma_moments_are_the_exact_ones_of_the_scheme(h, tau):
    alpha = 50.0
    kernel = sg.SGRLD(step_size=h, metric=ExpandedMean(), natural=True)
    exact = alpha * stale_sgld(1.0, h, tau).variance
    both = time_averages(
        kernel, lambda theta: theta - (alpha - 1), lambda s: s.position, lambda s: (s.position - alpha) ** 2,
        coordinates=COPIES, steps=int(150 / h), burn_in=int(20 / h), staleness=tau, initial=alpha,
    )  # fmt: skip
    for averages, expected in zip(both, (alpha, exact), strict=True):
        error = averages.std() / np.sqrt(COPIES)
        assert error < 0.005 * expected
        assert averages.mean() == pytest.approx(expected, abs=SURE * error)


def test_order_on_a_gamma_law():
    """The bias of the variance is h/(2 − h), whatever the form in which fresh gradients come."""
    alpha = 50.0
    for natural in (False, True):
        kernel = sg.SGRLD(step_size=0.2, metric=ExpandedMean(), natural=natural)
        averages = time_averages(
            kernel, lambda theta, n=natural: (theta if n else 1) * (1 - (alpha - 1) / theta),
            lambda s: (s.position - alpha) ** 2 / alpha, coordinates=COPIES, steps=1500, burn_in=100, initial=alpha,
        )  # fmt: skip
        assert averages.mean() == pytest.approx(1 / 0.9, abs=SURE * averages.std() / np.sqrt(COPIES))


def test_small_gamma_parameters_keep_to_the_boundary_without_crossing_it():
    """α = ½ has an unbounded density at 0. Reflection costs the mean a bias there, which falls as √h."""
    biases = []
    for h in (0.1, 0.025):
        kernel = sg.SGRLD(step_size=h, metric=ExpandedMean(), natural=True)
        averages = time_averages(
            kernel, lambda theta: theta + 0.5, lambda s: s.position, coordinates=COPIES, steps=int(60 / h),
            burn_in=int(10 / h), initial=0.5,
        )  # fmt: skip
        assert averages.min() > 0
        assert averages.std() / np.sqrt(COPIES) < 0.0025
        biases.append(averages.mean() - 0.5)
    assert np.log(biases[0] / biases[1]) / np.log(4) == pytest.approx(0.5, abs=0.2), biases


ALPHA = np.array([0.5, 1.0, 2.0, 4.0])
COUNTS = np.array([5, 20, 40, 55])


class Categories(sg.potentials.Potential):
    """Counts of categories with θ_k ~ Gamma(α_k, 1): π = θ/Σθ has the posterior Dirichlet(α + counts)."""

    data = np.repeat(np.arange(4), COUNTS)

    def __init__(self, batch_size):
        minibatches = sg.potentials.Minibatches.of(self.data.size, batch_size, "subset")
        super().__init__(4, minibatches, np.dtype(np.float64))

    def gradient(self, theta, indices):
        out = np.empty((1, 4))
        self.gradients(theta[None], indices[None], out)
        return out[0]

    def gradients(self, theta, indices, out):
        seen = (self.data[indices][:, :, None] == np.arange(4)).mean(axis=1) * self.data.size
        out[...] = 1 - (ALPHA - 1 + seen) / theta + self.data.size / theta.sum(axis=1, keepdims=True)

    def initial(self):
        return ALPHA + COUNTS / COUNTS.sum()


@pytest.mark.parametrize(("tau", "batch_size"), [(0, None), (3, None), (3, 60)])
def test_dirichlet_posterior(tau, batch_size):
    """Means to a thousandth; variances to the step's own error.

    Around its mean, θ relaxes at the rate λ = 1 + N/Σα. Stale gradients and a finite step make variances too large by
    about hλ(τ + ½), minibatches by h/2 times the variance of their counts over that of the injected noise.
    """
    h, total = 0.001, COUNTS.sum()
    kernel = sg.SGRLD(step_size=h, metric=ExpandedMean(), natural=True)
    potential = sg.potentials.natural(Categories(batch_size), ExpandedMean())
    trace = sg.Trace.constant_staleness(tau, 3000, seed=3)
    run = sg.replay(trace, potential, kernel, repeats=64, burn_in=1000, thin=10)
    weights = run.draws[:, 0] / run.draws[:, 0].sum(axis=-1, keepdims=True)
    posterior = stats.dirichlet(ALPHA + COUNTS)
    means, spreads = weights.mean(axis=1), weights.var(axis=(0, 1))
    error = means.std(axis=0) / np.sqrt(len(means))
    assert (error < 0.003).all()
    np.testing.assert_array_less(np.abs(means.mean(axis=0) - posterior.mean()), SURE * error + 0.001)
    rate = 1 + total / ALPHA.sum()
    from_step = h * rate * (tau + 0.5)
    from_batches = 0 if batch_size is None else h / 2 * rate * (total / 60 - 1)
    ratio = spreads / posterior.var()
    assert from_step + from_batches < 0.1
    np.testing.assert_array_less(np.abs(ratio - 1), 2 * (from_step + from_batches) + 0.08)  # 8 %: what 64 chains tell


def test_natural_gradients_are_gradients_times_the_metric():
    potential = Categories(30)
    natural = sg.potentials.natural(potential, ExpandedMean())
    theta, indices = np.array([[0.1, 1.0, 2.0, 3.0], [1e-12, 5.0, 1.0, 1.0]]), np.arange(60).reshape(2, 30)
    out = np.empty_like(theta)
    natural.gradients(theta, indices, out)
    for row in range(2):
        np.testing.assert_array_equal(out[row], theta[row] * potential.gradient(theta[row], indices[row]))
        np.testing.assert_array_equal(out[row], natural.gradient(theta[row], indices[row]))
    np.testing.assert_array_equal(natural.initial(), potential.initial())
    assert np.abs(out).max() < 1e3 < np.abs(potential.gradient(theta[1], indices[1])).max()


def test_a_metric_without_its_divergence_samples_something_else():
    """The order test of SGRLD would notice: at h = 0.03 the variance of N(0, 1) is off by a tenth."""
    wavy = EVERY_KERNEL["SGRLD"](0.03).metric
    flat = Diagonal(inverse=wavy.inverse, divergence=lambda theta: 0 * theta)
    kernel = sg.SGRLD(step_size=0.03, metric=flat)
    chain = Chain(kernel, np.zeros((1, 2000)), 1, 0)  # starts where G has its minimum, so that nothing is noticed
    total = 0.0
    for update in range(2000):
        chain.advance(chain.position.copy())
        total += float(np.square(chain.position).mean()) * (update >= 200)
    assert abs(total / 1800 - 1) > 0.1


class TestMistakes:
    def _start(self, metric, position=1.0):
        sg.SGRLD(step_size=0.1, metric=metric).start(np.full((2, 3), position), Address(0, 0, 0))

    def test_a_wrong_divergence_is_refused_with_both_numbers(self):
        with pytest.raises(sg.ArgumentError, match=r"the divergence 1 at coordinate 0, θ = 1, where ∂G/∂θ is 2"):
            self._start(Diagonal(inverse=lambda t: 1 + t**2, divergence=lambda t: t))

    def test_a_metric_that_is_not_positive_is_refused(self):
        with pytest.raises(sg.ArgumentError, match=r"gives -1 where θ is -1 .*start it at positive θ"):
            self._start(ExpandedMean(), -1.0)
        with pytest.raises(sg.ArgumentError, match=r"gives 0 where θ is 0.*set positive=True"):
            self._start(Diagonal(inverse=lambda t: t, divergence=lambda t: 1.0), 0.0)

    def test_a_wrong_shape_is_refused(self):
        with pytest.raises(sg.ArgumentError, match=r"has shape \(3,\) for θ of shape \(2, 3\)"):
            self._start(Diagonal(inverse=lambda t: np.ones(3), divergence=lambda t: 0.0))

    def test_what_is_no_metric_is_refused(self):
        with pytest.raises(sg.ArgumentError, match="has no function inverse"):
            self._start(2.0)
        with pytest.raises(sg.ArgumentError, match="divergence=3: cannot be called"):
            Diagonal(inverse=abs, divergence=3)

    def test_natural_gradients_for_a_sampler_that_does_not_know(self):
        potential = sg.potentials.natural(Categories(None), ExpandedMean())
        for kernel in (sg.SGRLD(step_size=0.001, metric=ExpandedMean()), sg.SGLD(step_size=0.001)):
            with pytest.raises(sg.ArgumentError, match="gradients for those of U"):
                sg.sample(potential, kernel, steps=1, progress=False)

    def test_a_metric_that_fails_on_the_way_is_named(self):
        """G = θ without reflection."""
        kernel = sg.SGRLD(step_size=0.5, metric=Diagonal(inverse=lambda t: t, divergence=lambda t: 1.0))
        chain = Chain(kernel, np.full((1, 50), 0.1), 1, 0)

        def advance():
            for _ in range(50):
                chain.advance(np.ones((1, 50)))

        with pytest.raises(sg.ArgumentError, match="set positive=True"):
            advance()
