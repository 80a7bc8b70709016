"""Every warning on a run that deserves it and on one that does not, for every sampler. Seeds are fixed."""

import json

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics import diagnose
from stalegrad.engines import Inline
from stalegrad.engines.simulation import Exponential
from stalegrad.protocol.chain_trace import ChainTrace

from .models import linear, psgld, sampled, sghmc, sgld, sgnht

pytestmark = pytest.mark.long

HEALTHY = {
    "SGLD": (sgld(0.1), 100, {}),
    "SGLD, stale": (sgld(0.05), 100, {"workers": 3, "steps": 12_000}),
    "SGHMC-euler": (sghmc(0.15, 6.0), 100, {}),
    "SGHMC-splitting, stale": (sghmc(0.1, 12.0, "splitting"), 100, {"workers": 3, "steps": 12_000}),
    "SGNHT-shared-splitting": (sgnht(0.2, 2.0, "splitting"), 50, {}),
    "SGNHT-each-euler, stale": (sgnht(0.06, 2.0, "euler", "each"), 100, {"workers": 3, "steps": 12_000}),
    "PSGLD": (psgld(2e-4), 100, {}),
}

STEP_SIZE, STALENESS, NOISE = "step size", "staleness", "gradient noise"
KINETIC, CONFIGURATIONAL = "kinetic temperature", "configurational temperature"

TROUBLED = {
    "SGLD, step": (sgld(0.8), None, {}, {STEP_SIZE}),
    "SGLD, stale": (sgld(0.1), None, {"workers": 6}, {STALENESS}),
    "SGLD, noise": (sgld(0.06), 5, {}, {NOISE}),
    "SGHMC-euler, stale": (sghmc(0.3, 6.0), None, {"workers": 4}, {STALENESS, KINETIC, CONFIGURATIONAL}),
    "SGHMC-euler, step": (sghmc(1.7, 2.0), None, {}, {KINETIC, STEP_SIZE}),
    "SGHMC-splitting, step": (sghmc(1.8, 3.0, "splitting"), None, {}, {KINETIC}),
    "SGHMC-splitting, noise": (sghmc(0.15, 3.0, "splitting"), 10, {}, {NOISE, KINETIC, CONFIGURATIONAL}),
    "SGNHT-shared-splitting, step": (sgnht(2.5, 1.0, "splitting"), None, {}, {STEP_SIZE, CONFIGURATIONAL}),
    "SGNHT-each-splitting, step": (sgnht(2.5, 1.0, "splitting", "each"), None, {}, {STEP_SIZE, CONFIGURATIONAL}),
    "SGNHT-shared-splitting, stale": (sgnht(0.5, 1.0, "splitting"), None, {"workers": 5}, {STALENESS}),
    "PSGLD, step": (psgld(1e-3), 50, {}, {STEP_SIZE, CONFIGURATIONAL}),
    "PSGLD, stale": (psgld(2e-4), 50, {"workers": 6}, {STALENESS}),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_health_is_silent(name):
    kernel, batch_size, options = HEALTHY[name]
    findings = sampled(kernel, batch_size, **options).diagnose(linear(batch_size))
    assert findings.ok, str(findings)
    skipped = {"owned part"} | ({KINETIC} if "LD" in name else set())
    skipped |= set() if "stale" in name else {STALENESS}
    assert set(findings.skipped) == skipped, "a check that was not made says nothing about health"


@pytest.mark.parametrize("name", TROUBLED)
def test_trouble_is_named_with_figure_and_remedy(name):
    kernel, batch_size, options, expected = TROUBLED[name]
    findings = sampled(kernel, batch_size, **options).diagnose(linear(batch_size))
    assert expected <= set(findings.names), str(findings)
    for finding in findings:
        if finding.name in expected:
            assert finding.figure > finding.limit
    assert findings.recommendation.step_size < kernel.step_size or findings.recommendation.batch_size > batch_size
    json.dumps(findings.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "name", ["SGLD, step", "SGLD, stale", "SGLD, noise", "SGHMC-euler, stale", "SGHMC-splitting, noise", "PSGLD, step"]
)
def test_what_is_recommended_helps(name):
    """Followed to the letter, all findings that named a cause go."""
    kernel, batch_size, options, expected = TROUBLED[name]
    model = linear(batch_size)
    before = sampled(kernel, batch_size, **options).diagnose(model)
    after = followed(before.recommendation, linear, batch_size)
    assert not expected & {STEP_SIZE, STALENESS, NOISE} & set(after.names), str(after)


def followed(recommendation, make, batch_size=None, **options):
    """The diagnosis of the run that is recommended."""
    model = make(recommendation.batch_size or batch_size)
    run = sg.sample(model, **recommendation.arguments, engine="inline", progress=False, seed=4, **options)
    return run.diagnose(model)


def test_a_thermostat_absorbs_noise_that_others_must_be_warned_of():
    """The same gradients, noisy enough to double the temperature of SGHMC."""
    assert NOISE in sampled(sghmc(0.2, 2.0, "splitting"), 25).diagnose(linear(25)).names
    findings = sampled(sgnht(0.2, 2.0, "splitting", "each"), 25).diagnose(linear(25))
    assert not {NOISE, CONFIGURATIONAL} & set(findings.names), str(findings)


def test_what_a_thermostat_hides_from_the_momentum():
    """Beyond the limit of stability SGNHT's kinetic temperature is right and its draws are not."""
    run = sampled(sgnht(2.5, 1.0, "splitting"))
    assert run.stats.kinetic_temperature.mean() == pytest.approx(1, abs=0.05)
    variances = run.draws.var(axis=(0, 1)).sum() / np.sum(1 / np.linspace(10.0, 40.0, 6))
    assert variances < 0.5
    assert KINETIC not in run.diagnose(linear()).names


RANDOM = Inline(compute=Exponential(1.0), update=0.05)


@pytest.mark.parametrize(("bound", "fires"), [(2, True), (16, False)])
def test_dropped_gradients(bound, fires):
    run = sampled(sgld(0.02), 50, steps=2000, workers=6, max_staleness=bound, engine=RANDOM)
    findings = run.diagnose()
    assert ("dropped gradients" in findings.names) is fires
    (measured,) = (m for m in findings.measurements if m.name == "dropped gradients")
    assert measured.figure == pytest.approx(1 - np.concatenate(run.accepted).mean())
    if fires:
        advised = findings.recommendation.settings["max_staleness"]
        better = sampled(sgld(0.02), 50, steps=2000, workers=6, max_staleness=advised, engine=RANDOM)
        assert "dropped gradients" not in better.diagnose().names


class Draws:
    """Checks that need nothing but draws."""

    def __init__(self, draws):
        self.draws = np.asarray(draws)
        chains, steps, _ = self.draws.shape
        self.trace = sg.Trace.constant_staleness(0, steps, chains=chains)

    def findings(self, **options):
        shape = self.draws.shape[:2]
        return diagnose(self.draws, self.trace, np.full(shape, 0.1), np.full(shape, np.nan), **options)


def normal(chains, draws, size, seed=1):
    return np.random.Generator(np.random.Philox(seed)).standard_normal((chains, draws, size))


def autoregression(rho, *shape, seed=2):
    shocks = normal(*shape, seed=seed) * np.sqrt(1 - rho**2)
    shocks[:, 0] /= np.sqrt(1 - rho**2)
    for step in range(1, shape[1]):
        shocks[:, step] += rho * shocks[:, step - 1]
    return shocks


class TestAgreement:
    @pytest.mark.parametrize(("chains", "draws", "rho"), [(2, 100, 0.0), (1, 1200, 0.7), (4, 300, 0.7), (2, 1200, 0.8)])
    def test_silent_on_256_parameters_of_chains_that_agree(self, chains, draws, rho):
        """Also where the largest of so many R-hats is beyond the limit by chance."""
        assert Draws(autoregression(rho, chains, draws, 256)).findings().ok

    def test_one_parameter_of_many_in_which_one_chain_sits_elsewhere(self):
        draws = autoregression(0.5, 4, 500, 100)
        draws[2, :, 37] += 2.0
        findings = Draws(draws).findings()
        assert findings.names[0] == "R-hat"
        assert "theta[37]" in str(findings)
        assert "4 chains" in str(findings)

    def test_a_chain_that_is_too_wide(self):
        draws = normal(3, 500, 10)
        draws[1, :, 4] *= 3
        assert Draws(draws).findings().names == ("R-hat",)

    def test_a_single_chain_that_drifts(self):
        draws = normal(1, 1000, 3)
        draws[0, :, 1] += np.linspace(0, 3, 1000)
        assert "R-hat" in Draws(draws).findings().names

    def test_a_function_may_disagree_where_no_parameter_does(self):
        draws = normal(2, 400, 2)
        draws[1, :, 1] = np.where(draws[1, :, 0] > 0, 1, -1) * np.abs(draws[1, :, 1])  # the same marginals
        assert Draws(draws).findings().ok
        findings = Draws(draws).findings(functions={"product": lambda theta: theta[0] * theta[1]})
        assert "R-hat" in findings.names
        assert "R-hat of product" in str(findings)
        assert "of single weights it is up to" in findings[findings.names.index("R-hat")].measurement.what

    def test_parameters_that_do_not_move(self):
        draws = normal(2, 400, 3)
        draws[:, :, 1] = 7.0
        assert Draws(draws).findings().ok


class TestEffectiveDraws:
    @pytest.mark.parametrize(("rho", "fires"), [(0.5, False), (0.97, True)])
    def test_correlation(self, rho, fires):
        findings = Draws(autoregression(rho, 2, 1000, 20)).findings()
        assert ("effective draws" in findings.names) is fires, str(findings)

    def test_the_advised_number_of_steps_is_enough(self):
        findings = Draws(autoregression(0.9, 2, 400, 20)).findings()
        steps = findings.recommendation.settings["steps"]
        assert Draws(autoregression(0.9, 2, steps, 20)).findings().ok

    def test_a_slow_function(self):
        slow = autoregression(0.99, 2, 1000, 1)
        draws = np.concatenate([normal(2, 1000, 30), slow], axis=2)
        assert "effective draws" not in Draws(draws).findings().names, "one of 31 is below the tenth percentile"
        findings = Draws(draws).findings(functions={"slow": lambda theta: theta[30]})
        assert "effective draws" in findings.names
        assert "slow" in str(findings)

    def test_a_run_of_three_draws(self):
        findings = Draws(normal(1, 3, 2)).findings()
        assert findings.names == ("effective draws",)
        assert "R-hat" in findings.skipped


def test_many_chains_must_have_some_draws_each():
    findings = Draws(autoregression(0.8, 10, 100, 5)).findings()
    assert "effective draws" in findings.names
    assert findings[findings.names.index("effective draws")].limit == 250


def test_a_trace_of_nothing_but_drops_of_one_worker():
    """Stale worker 1 is dropped every time."""
    steps = 100
    trace = ChainTrace(
        worker=np.tile([0, 1], steps).astype(np.int32),
        count=np.repeat(np.arange(steps), 2),
        staleness=np.tile([0, 1], steps).astype(np.int32),
        accepted=np.tile([True, False], steps),
        step_size=np.tile([0.1, np.nan], steps),
    )
    draws = normal(1, steps, 2)
    given = np.full((1, steps), 0.1)
    findings = diagnose(draws, sg.Trace((trace,)), given, given * np.nan)
    assert findings[findings.names.index("dropped gradients")].figure == 0.5
