"""The figures of single checks, on evidence that is made for them."""

import re
from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics.checks.dropped import check_dropped
from stalegrad.analysis.diagnostics.checks.noise import batch_size_for, check_gradient_noise
from stalegrad.analysis.diagnostics.checks.stiffness import LIMIT, Lag, check_staleness, check_step_size, expected_error
from stalegrad.analysis.diagnostics.checks.temperatures import (
    check_configurational_temperature,
    check_kinetic_temperature,
)
from stalegrad.analysis.diagnostics.evidence import Evidence
from stalegrad.analysis.diagnostics.kernel_theory import variance_error
from stalegrad.analysis.estimates import mcse
from stalegrad.experiments.free_staleness.dropping import MinibatchTime
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.theory import Direction

CURVATURE = 25.0


def normal(*shape, seed=1):
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape)


def quadratic(size, centre=0.0):
    """U = λ|θ − centre|²/2, without any noise."""
    return sg.potentials.from_gradient(lambda theta, _: CURVATURE * (theta - centre), size, n_data=1, dtype=np.float64)


def evidence(draws, kernel, *, staleness=0, kinetic=None, potential=None, gradients=64):
    shape = draws.shape[:2]
    return Evidence(
        draws=draws,
        step_sizes=np.full(shape, float(kernel.schedule(0))),
        kinetic_temperature=np.full(shape, np.nan) if kinetic is None else kinetic,
        trace=sg.Trace.constant_staleness(staleness, shape[1], chains=shape[0]),
        kernels=(kernel,) * shape[0],
        potential=potential,
        gradients=gradients,
    )


class TestKineticTemperature:
    kernel = sg.SGHMC(step_size=0.1, friction=2.0, temperature=3.0)
    free = 3.0 / (1 - 0.1)  # of Euler's momentum

    def found(self, kinetic):
        return check_kinetic_temperature(evidence(normal(*kinetic.shape, 2), self.kernel, kinetic=kinetic))

    def test_it_is_measured_against_what_the_sampler_gives_to_a_free_momentum(self):
        measured, finding = self.found(np.full((2, 50), 1.05 * self.free))
        assert measured.figure == pytest.approx(0.05, rel=1e-9)
        assert measured.limit == 0.1
        assert finding is None

    def test_an_excess_within_five_standard_errors_is_no_finding(self):
        """A momentum that turns slowly: of forty draws few are independent."""
        kinetic = self.free * (1.2 + 0.5 * np.repeat(normal(1, 8), 5, axis=1))
        measured, finding = self.found(kinetic)
        assert measured.limit == pytest.approx(5 * float(mcse(kinetic / self.free)))
        assert measured.limit > measured.figure > 0.1
        assert finding is None
        _, finding = self.found(np.tile(kinetic, 40))
        assert finding is not None, "the same excess in a run of forty times the length"


class TestConfigurationalTemperature:
    kernel = sg.SGLD(step_size=0.001)

    def found(self, draws, centre=0.0, temperature=1.0, gradients=40_000):
        kernel = replace(self.kernel, temperature=temperature)
        model = quadratic(draws.shape[2], centre)
        return check_configurational_temperature(evidence(draws, kernel, potential=model, gradients=gradients))

    def test_what_a_short_chain_loses_by_its_own_mean_is_added_back(self):
        """Fifty draws of the exact law have 2 % less spread around their mean."""
        draws = normal(100, 50, 40) / np.sqrt(CURVATURE)
        virial = CURVATURE * np.square(draws - draws.mean(axis=1, keepdims=True)).mean()
        assert virial - 1 == pytest.approx(-0.02, abs=0.008)
        measured, finding = self.found(draws)
        assert measured.figure < 0.006
        assert finding is None

    def test_neither_centre_nor_temperature_matters(self):
        draws = normal(2, 1000, 40)
        plain, _ = self.found(draws / np.sqrt(CURVATURE))
        moved, _ = self.found(30.0 + 2 * draws / np.sqrt(CURVATURE), centre=30.0, temperature=4.0)
        assert plain.figure == pytest.approx(moved.figure, abs=1e-9)
        assert plain.figure < 0.03

    @pytest.mark.parametrize(("factor", "fires"), [(0.5, False), (3.0, True)])
    def test_of_chains_that_hardly_mix_only_too_much_heat_is_known(self, factor, fires):
        walk = np.repeat(normal(40, 5, 60), 20, axis=1) * factor / np.sqrt(CURVATURE)
        measured, finding = self.found(walk)
        assert measured.figure > measured.limit
        assert (finding is not None) is fires


class TestStepSizeAndStaleness:
    draws = normal(1, 50, 3) / np.sqrt(CURVATURE)

    def found(self, check, kernel, staleness):
        return check(evidence(self.draws, kernel, staleness=staleness, potential=quadratic(3), gradients=256))

    def test_staleness_is_charged_with_what_it_adds_to_the_error_of_the_step(self):
        """A step whose own error is a finding, and staleness that adds little to it."""
        kernel, direction = sg.SGLD(step_size=0.4 / CURVATURE), Direction(CURVATURE)
        fresh, stale = (variance_error(kernel, tau, direction) for tau in (0, 1))
        assert fresh > LIMIT
        measured, _ = self.found(check_step_size, kernel, 1)
        assert measured.figure == pytest.approx(fresh, rel=1e-3)
        law = np.bincount(np.minimum(np.arange(50), 1)) / 50  # the first gradient is fresh
        stale = variance_error(kernel, tuple(law.tolist()), direction)
        measured, _ = self.found(check_staleness, kernel, 1)
        assert measured.figure == pytest.approx(stale - fresh, rel=1e-3)

    def test_the_remedies_are_the_largest_that_help(self):
        kernel = sg.SGLD(step_size=0.08 / CURVATURE)
        _, finding = self.found(check_staleness, kernel, 9)
        workers = int(re.search(r"no more than (\d+) workers", finding.remedy)[1])
        errors = [expected_error(kernel, Lag.constant(tau), CURVATURE) for tau in range(10)]
        assert errors[workers - 1] <= LIMIT < errors[workers]
        advised = finding.advice.step * kernel.step_size
        lag = Lag(np.bincount(np.minimum(np.arange(50), 9)) / 50)
        error = expected_error(kernel.with_step_size(advised), lag, CURVATURE)
        assert 0.7 * LIMIT / 2 < error <= LIMIT / 2

    def test_staleness_before_the_end_of_the_burn_in_does_not_count(self):
        run = sg.sample(quadratic(3), sg.SGLD(step_size=0.004), steps=100, burn_in=50, engine="inline", progress=False)
        update = np.arange(100)
        (chain,) = run.trace.chains
        stale = replace(chain, staleness=np.where(update < 50, np.minimum(update, 20), 0).astype(np.int32))
        given = evidence(np.asarray(run.draws), sg.SGLD(step_size=0.004), potential=quadratic(3), gradients=256)
        measured, finding = check_staleness(replace(given, trace=replace(run.trace, chains=(stale,))))
        assert measured.figure == 0
        assert finding is None

    def test_long_delays_are_stretched_to_as_many_lags_as_theory_is_asked_about(self):
        """A delay of τ updates at curvature λ is one of τ/k at kλ."""
        lag = Lag.of_mean(320.0)
        assert lag.stretch == 5
        assert lag.law @ np.arange(lag.law.size) == pytest.approx(64)
        assert Lag.of_mean(2.25).law.tolist() == [0, 0, 0.75, 0.25]


class Noisy(sg.potentials.Potential):
    """Gradients of nothing but noise: datum i pushes by ±s_c along coordinate c."""

    def __init__(self, scales, batch_size, scheme="subset", n_data=400):
        super().__init__(len(scales), Minibatches(n_data, batch_size, scheme), np.dtype(np.float64))
        signs = np.sign(normal(n_data, len(scales)))
        self._data = (signs - signs.mean(axis=0)) * np.asarray(scales)

    def gradient(self, theta, indices):
        return CURVATURE * theta + self.n_data * self._data[indices].mean(axis=0)


class TestGradientNoise:
    @pytest.mark.parametrize("scheme", ["subset", "replacement"])
    def test_the_advice_halves_the_limit(self, scheme):
        model = Noisy((1.0,) * 6, 4, scheme)
        kernel = sg.SGLD(step_size=1e-3)
        measured, finding = check_gradient_noise(
            evidence(normal(1, 400, 6) / 5, kernel, potential=model, gradients=1600)
        )
        assert finding.advice.noise == pytest.approx(measured.limit / (2 * measured.figure))
        batch = batch_size_for(model, finding.advice.noise)
        rest = 0.0 if scheme == "replacement" else 1 / 400
        left = (1 / batch - rest) / (1 / 4 - rest)
        assert left == pytest.approx(measured.limit / (2 * measured.figure), rel=0.1)
        assert left <= measured.limit / (2 * measured.figure)

    @pytest.mark.long
    def test_size_of_the_noise(self):
        """The variance of the gradient is N²/J · s² (1 − J/N)·N/(N−1), the same in all directions."""
        model = Noisy((1.0,) * 6, 4)
        found = evidence(normal(1, 2000, 6) / 5, sg.SGLD(step_size=1e-4), potential=model, gradients=8000).noise
        data = model._data
        expected = 400**2 / 4 * (1 - 4 / 400) * data.var(axis=0, ddof=1)
        assert found.variances == pytest.approx(expected, rel=0.15)
        assert found.mean == pytest.approx(expected.mean(), rel=0.06)

    def test_thermostats_of_single_coordinates_absorb_the_noise_of_their_own(self):
        model = Noisy((6.0, 0.1, 0.1, 0.1), 4)
        figures = {}
        for thermostats in ("shared", "each"):
            kernel = sg.SGNHT(step_size=1e-4, noise=1.0, thermostats=thermostats)
            given = evidence(normal(1, 400, 4) / 5, kernel, potential=model, gradients=1600)
            figures[thermostats] = check_gradient_noise(given)[0].figure
        assert figures["each"] < 0.1 < figures["shared"]


def test_the_advised_bound_is_that_of_all_gradients_and_not_of_those_that_kept_to_it():
    rows = 200
    late = np.arange(rows) % 2 == 1
    trace = ChainTrace(
        worker=late.astype(np.int32),
        count=np.arange(rows) // 2,
        staleness=np.minimum(np.where(late, 7, 1), np.arange(rows) // 2).astype(np.int32),
        accepted=~late,
    )
    given = evidence(normal(1, 100, 2), sg.SGLD(step_size=0.1))
    measured, finding = check_dropped(replace(given, trace=sg.Trace((trace,))))
    assert measured.figure == 0.5
    assert finding.advice.max_staleness == 7


@pytest.mark.parametrize("correlation", [0.0, 1.0])
def test_dropping_that_selects_data_is_told_from_dropping_that_does_not(correlation):
    random = np.random.Generator(np.random.Philox(key=4))
    data, other = random.standard_normal((2, 1000))
    model = sg.potentials.GaussianMean(data, batch_size=10, dtype=np.float64)
    times = np.exp(0.8 * (correlation * data + np.sqrt(1 - correlation**2) * other))
    law = MinibatchTime(potential=model, cost=lambda indices: float(times[indices].sum()))
    trace = sg.simulate(workers=8, steps=4000, compute=law, max_staleness=9)
    run = sg.replay(trace, model, sg.SGLD(step_size=2e-5), burn_in=500)
    given = evidence(run.draws, sg.SGLD(step_size=2e-5), potential=model, gradients=1024)
    measured, finding = check_dropped(replace(given, trace=run.trace))
    if correlation:
        assert 0.5 < measured.figure < 3  # experiments/free_staleness/dropping.py measures 1.3
        assert finding.severity in ("warning", "serious")
        assert "Leave max_staleness out" in finding.remedy
        free = sg.simulate(workers=8, steps=4000, compute=law)  # the remedy, followed
        again = sg.replay(free, model, sg.SGLD(step_size=2e-5), burn_in=500)
        assert abs(again.draws.mean() - data.sum() / 1001) < abs(run.draws.mean() - data.sum() / 1001) / 2
    else:
        assert measured.limit == 0.1
        assert finding is None
