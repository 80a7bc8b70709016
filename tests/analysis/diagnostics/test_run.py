"""Runs that diagnose themselves."""

from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics.findings import Findings
from stalegrad.datasets.digits import digits
from stalegrad.runs.result import Run

from .models import SIZE, linear, psgld, sampled, sghmc, sgld, sgnht
from .test_model_probes import Counting

POTENTIAL_CHECKS = {"configurational temperature", "step size", "staleness", "gradient noise"}


def three_digits(batch_size):
    """Softmax regression on the images of 0, 1 and 2, under a prior of scale 0.3."""
    data = digits()
    rows = data.train_y < 3
    return sg.potentials.Softmax(data.train[rows], data.train_y[rows], 3, prior_scale=0.3, batch_size=batch_size)


def test_a_healthy_run_on_real_data_has_no_findings(capsys):
    """With a display, as a user would: what is printed says so in a line."""
    model, image = three_digits(64), digits().test[:1]
    kernel = sg.SGHMC(step_size=0.02, friction=12.0, integrator="splitting")
    run = sg.sample(
        model, kernel, steps=12_000, servers=2, workers=2, max_staleness=16, burn_in=1000, thin=10, seed=1,
        engine="inline",
    )  # fmt: skip
    assert "no findings in 14 checks\n" in capsys.readouterr().err
    functions = {"test probability": lambda theta: model.predict(theta, image)[0, 0]}
    findings = run.diagnose(model, kernel, functions)
    assert findings.ok, str(findings)
    assert set(findings.skipped) == {"funnel", "scales", "owned part"}, "of weights, and of what no server owns"


def test_trouble_is_printed_below_the_verdict(capsys):
    run = sg.sample(linear(), sgld(0.1), steps=4000, workers=6, burn_in=500, max_staleness=None, engine="inline")
    printed = capsys.readouterr().err
    assert "staleness: gradients were 5.0 updates old" in printed
    assert "staleness" in run.diagnose(linear()).names


def test_a_short_run_is_not_held_up_by_gradients(capsys):
    model = Counting(linear(20))
    sg.sample(model, sgld(0.1), steps=300, engine="inline")
    assert model.calls == 300
    assert "effective draws" in capsys.readouterr().err
    sg.sample(model, sgld(0.1), steps=1000, engine="inline")
    assert 1300 < model.calls <= 1300 + 64 + 4


@pytest.mark.parametrize("problem", [ValueError("no luck"), KeyboardInterrupt()])
def test_whatever_a_diagnosis_does_the_run_is_returned(monkeypatch, capsys, problem):
    def fail(*arguments, **options):
        raise problem

    monkeypatch.setattr(Run, "diagnose", fail)
    assert sg.sample(linear(), sgld(0.1), steps=50, engine="inline").draws.shape == (1, 50, SIZE)
    assert f"no diagnosis ({type(problem).__name__}" in capsys.readouterr().err


def test_silence_without_progress(capsys):
    sampled(sgld(0.1), steps=100)
    assert capsys.readouterr().err == ""


def test_without_the_potential_the_draws_alone_are_judged():
    findings = sampled(sghmc(0.3, 6.0), workers=4).diagnose()
    assert "kinetic temperature" in findings.names
    assert set(findings.skipped) == POTENTIAL_CHECKS | {"owned part"}
    assert all("give potential=" in findings.skipped[name] for name in POTENTIAL_CHECKS)


@pytest.mark.parametrize("gradients", [64, 1000])
def test_the_number_of_gradients_is_bounded(gradients):
    model = Counting(linear(20))
    for kernel in (sghmc(0.1, 6.0), sgnht(0.1, 2.0), psgld(1e-4)):
        model.calls = 0
        sampled(kernel, 20, steps=800, servers=3, workers=2).diagnose(model, gradients=gradients)
        assert gradients // 4 < model.calls <= gradients + 8


def test_chains_may_have_kernels_of_their_own():
    """The third alone is too long a step."""
    kernels = [sgld(0.05), sgld(0.1), sgld(0.9)]
    run = sg.sample(linear(), kernels, steps=2000, servers=3, burn_in=200, engine="inline", progress=False)
    findings = run.diagnose(linear())
    assert findings[findings.names.index("step size")].measurement.what.startswith("at h·λ = 0.0225 · 40 = 0.9")
    assert "step size" in run.diagnose(linear(), kernels).names


def test_a_replayed_trace_says_which_kernel_it_was_replayed_with():
    run = sampled(sgld(0.1), steps=2000)
    again = sg.replay(sg.Trace.constant_staleness(0, 2000, chains=2), linear(), sghmc(1.8, 3.0, "splitting"), thin=4)
    assert [table["name"] for table in again.trace.record.kernels] == ["SGHMC", "SGHMC"]
    assert "kinetic temperature" in again.diagnose().names
    assert run.trace.record == sg.replay(run.trace, linear(), sgld(0.1)).trace.record


def test_an_unknown_kernel_is_no_obstacle():
    run = sampled(sgld(0.1), steps=2000)
    unknown = replace(run.trace.record, kernels=({"opaque": "Mine"},) * 2)
    run = replace(run, trace=replace(run.trace, record=unknown))
    assert "kernel is not known" in run.diagnose(linear()).skipped["step size"]
    run = replace(run, trace=replace(run.trace, record=None))
    assert "kernel is not known" in run.diagnose(linear()).skipped["gradient noise"]
    assert "step size" not in run.diagnose(linear(), sgld(0.1)).skipped


def test_chains_with_and_without_a_metric():
    run = sg.sample(linear(50), [sgld(0.1), psgld(1e-4)], steps=400, servers=2, engine="inline", progress=False)
    assert "metric" in run.diagnose(linear(50)).skipped["step size"]


class Falling:
    """A schedule of a user's own, which cannot be hashed."""

    __hash__ = None

    def __call__(self, update):
        return 0.002 + 0.001 / (1 + update)


@pytest.mark.parametrize("kernel", [sg.SGLD(step_size=Falling()), sg.SGHMC(step_size=Falling(), friction=5.0)])
def test_schedules(kernel):
    run = sampled(kernel, 100, steps=2000, workers=2)
    for given in (None, kernel):
        assert not {"step size", "staleness", "gradient noise"} & set(run.diagnose(linear(100), given).skipped)


def test_nothing_is_sampled_at_temperature_zero():
    run = sampled(sg.SGLD(step_size=0.001, temperature=0.0), steps=2000)
    assert POTENTIAL_CHECKS - {"staleness"} <= set(run.diagnose(linear()).skipped)


def test_a_potential_that_curves_downwards():
    ridge = sg.potentials.from_gradient(lambda theta, _: -0.1 * theta, 3, n_data=1, dtype=np.float64)
    run = sg.sample(ridge, sg.SGLD(step_size=0.01), steps=200, engine="inline", progress=False)
    findings = run.diagnose(ridge)
    assert isinstance(findings, Findings)
    assert "curves downwards" in findings.skipped["step size"]


class OnDisk:
    """An array that can be sliced, as one in a file can be, and does nothing else."""

    def __init__(self, array):
        self._array, self.shape = array, array.shape

    def __getitem__(self, index):
        assert all(isinstance(part, int | np.integer | slice) for part in np.atleast_1d(np.array(index, object)))
        return self._array[index]


def test_draws_may_be_on_disk():
    run = sampled(sghmc(0.15, 6.0), 100, steps=2000)
    lazy = sg.diagnostics.diagnose(
        OnDisk(run.draws), run.trace, run.step_sizes, run.stats.kinetic_temperature, potential=linear(100),
        functions={"sum": np.sum}, step_halving=True,
    )  # fmt: skip
    assert lazy == run.diagnose(linear(100), functions={"sum": np.sum}, step_halving=True)
    assert sg.diagnostics.kernel_stein_discrepancy(OnDisk(run.draws), linear()).draws == 436


def test_a_run_without_draws():
    run = sampled(sgld(0.1), steps=100)
    with pytest.raises(sg.ArgumentError, match=r"draws=\(2, 0, 6\): there are none"):
        sg.diagnostics.diagnose(run.draws[:, :0], run.trace, run.step_sizes[:, :0], run.step_sizes[:, :0])


def test_repetitions_are_refused():
    run = sampled(sgld(0.1), steps=100, repeats=3)
    for call in (run.diagnose, lambda: run.stein_discrepancy(linear())):
        with pytest.raises(sg.ArgumentError, match=r"holds 3 repetitions\. Take one: run\.repetition"):
            call()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"kernel": [sgld(0.1)]}, "kernel"),
        ({"kernel": ["SGLD"] * 2}, "kernel"),
        ({"gradients": 10}, "gradients"),
        ({"potential": sg.potentials.GaussianMean(np.zeros((5, 2)))}, "potential"),
    ],
)
def test_malformed_arguments_are_named(options, name):
    with pytest.raises(sg.ArgumentError) as caught:
        sampled(sgld(0.1), steps=100).diagnose(**{"potential": linear(), **options})
    assert caught.value.name == name
