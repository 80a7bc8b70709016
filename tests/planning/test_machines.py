"""Chains or workers? Layouts on machines whose answers are known."""

import os
from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels import SGHMC, SGLD
from stalegrad.planning import Machines, StepSizes, Targets, advise_layout, layouts
from stalegrad.planning.forecast import affordable
from stalegrad.planning.layout_advice import commands
from stalegrad.planning.machines import link_of, to_measure
from stalegrad.planning.step_sizes import measure_step_sizes
from stalegrad.protocol.architectures import StaleGradients

from . import made_up

MACHINES = Machines(4, 8)
SIZES = StepSizes((SGLD(step_size=1e-4),), curvature=10.0)


def made(machines=MACHINES, *, sizes=None, burn_in=1000, steps=11_000, **changes):
    job = made_up.job()
    job = replace(job, settings=replace(job.settings, burn_in=burn_in, steps=steps))
    return layouts(job, made_up.calibration(**changes), sizes, machines, Targets())


def test_chains_divide_all_but_the_burn_in():
    """32 chains of a worker each make 1,000 + 10,000/32 updates, at 1/CYCLE a second each."""
    layout = made()[-1]
    assert (layout.servers, layout.workers, layout.steps) == (32, 1, 1000 + 313)
    assert layout.seconds == pytest.approx(layout.steps * made_up.CYCLE, rel=0.01)


def test_without_burn_in_chains_win():
    best, (why, _) = advise_layout(made(burn_in=0), made_up.calibration(), Targets())
    assert (best.servers, best.workers) == (32, 1)
    assert why.startswith("Chains: 32 with a worker each. Burn-in is 0% of each")


def test_chains_that_win_in_spite_of_their_burn_in_are_not_said_to_divide_it():
    """Where staleness asks for steps so short that workers lose what they save of the burn-in."""
    found = made(burn_in=2000, steps=11_000, sizes=replace(SIZES, curvature=3000.0))
    best, (why, _) = advise_layout(found, made_up.calibration(), Targets())
    assert (best.servers, best.workers) == (32, 1)
    assert "Burn-in is 88% of each, which chains do not divide. They are there first all the same" in why


def test_with_a_long_burn_in_workers_win():
    best, (why, _) = advise_layout(made(burn_in=10_000, steps=11_000), made_up.calibration(), Targets())
    assert best.workers > 1
    assert "burn-in, which workers divide and chains do not" in why


def test_seconds_that_are_compared_have_tenths():
    """Or a reason says that chains spend 0:01 of 0:02 on burn-in."""
    found = made(burn_in=round(1.4 / made_up.CYCLE), steps=round(3.4 / made_up.CYCLE))
    _, (why, _) = advise_layout(found, made_up.calibration(), Targets())
    assert "32 chains with a worker each would spend 1.4 s of 1.5 s on burn-in" in why


def test_staleness_that_biases_asks_for_shorter_steps_and_more_of_them():
    fresh, stale = made()[0], made(sizes=replace(SIZES, curvature=100.0))[0]
    assert stale.factor < 1 == fresh.factor
    assert stale.steps > fresh.steps
    assert stale.error == pytest.approx(0.1, abs=0.02)


def test_gradient_noise_is_part_of_the_error():
    """SGLD: hv/2 on top of hλ/2."""
    quiet = StepSizes((SGLD(step_size=1e-3),), curvature=10.0)
    noisy = replace(quiet, noise=400.0)
    assert noisy.error(0.0) - quiet.error(0.0) == pytest.approx(0.2, rel=0.02)
    assert replace(quiet, mean_noise=900.0).error(0.0) == pytest.approx(0.45)
    assert noisy.noise_error == pytest.approx(0.2, rel=0.02)


def test_what_the_server_owns_is_never_stale():
    """With all of λ owned sixteen updates cost nothing; with none of it hλτ and more."""
    plain = StepSizes((SGLD(step_size=1e-4),), curvature=100.0, noise=50.0)
    owned = replace(plain, owned=100.0)
    assert plain.error(16.0) - plain.error(0.0) > 0.16
    assert owned.error(16.0) == pytest.approx(owned.error(0.0), rel=1e-6)
    assert owned.advised_factor(64.0) == 1.0 > plain.advised_factor(64.0)
    assert owned.blow_up(16.0) is None


def test_points_ahead_of_the_chain_are_counted():
    """On the straight course the error of first order is gone: λτh/B of it with gradients as they are."""
    plain = StepSizes((SGHMC(step_size=0.01, friction=5.0),), curvature=2.0)
    ahead = replace(plain, architecture=StaleGradients(look_ahead="auto"))
    assert plain.error(16.0) == pytest.approx(2.0 * 16 * 0.01 / 5.0, rel=0.2)
    assert abs(ahead.error(16.0)) < plain.error(16.0) / 4


def test_only_workers_elsewhere_use_the_link_and_servers_share_it():
    calibration = made_up.calibration()
    assert link_of(calibration, MACHINES, 4, 7)[:2] == (link_of(calibration, MACHINES, 32, 1)[0], 0.0)
    whole, away, together = link_of(calibration, MACHINES, 1, 31)
    assert (away, together) == (pytest.approx(24 / 31), 1)
    assert whole.transfer == pytest.approx(4000 * 24 / 31 / 1.25e9)
    half, away, together = link_of(calibration, Machines(4, 2), 8, 3)
    assert together == 2
    assert half.transfer == pytest.approx(2 * 4000 * away / 1.25e9)


def test_what_does_not_fit_is_not_chosen():
    tight = Machines(4, 8, memory=3e9)
    found = made(tight, process_bytes=1e9)
    assert [layout.fits for layout in found] == [False] * len(found)
    _, (why,) = advise_layout(found, made_up.calibration(), Targets())
    assert why.startswith("Memory: nothing fits.")
    roomy = made(Machines(4, 8, memory=9e9), process_bytes=1e9, burn_in=0)
    best, (why, _) = advise_layout(roomy, made_up.calibration(), Targets())
    assert best.fits
    assert not roomy[-1].fits
    assert "would need" in why


def test_commands_have_all_ranks():
    layout = made()[2]
    said = dict(commands(layout, MACHINES, made_up.job().folder / "job.toml", 1e-4))
    assert said["mpiexec"].startswith("mpiexec -n 32 -ppn 8 stalegrad run ")
    assert "--servers 4" in said["srun"]
    assert "--workers 7 --servers 4" in said["Ray"]


def test_noise_along_a_direction_is_known_from_many_gradients():
    """N/J (1 − J/N) times the curvature, of a regression whose data have noise 1; four draws alone would not tell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * [1.0, 2.0, 3.0]
    model = sg.potentials.Linear(X, X @ np.ones(3) + rng.normal(size=2000), batch_size=200, dtype=np.float64)
    mean, covariance = model.posterior()
    run = sg.sample(model, sg.SGLD(step_size=1e-6), steps=40, thin=10, initial=mean, progress=False)
    sizes = measure_step_sizes(
        run, model, (sg.SGLD(step_size=1e-6),), gradients=1024, architecture=sg.StaleGradients()
    )  # fmt: skip
    curvature = 1 / np.linalg.eigvalsh(covariance)
    assert sizes.curvature == pytest.approx(curvature.max(), rel=1e-3)
    assert sizes.noise == pytest.approx(9.0 * curvature.max(), rel=5 * np.sqrt(2 / 512) + 0.1)
    assert sizes.mean_noise == pytest.approx(9.0 * curvature.mean(), rel=5 * np.sqrt(2 / 1536) + 0.1)


def test_what_short_runs_have_shown_is_not_predicted():
    """Two chains that hold each other up, and one whose two workers do not, on a machine of two cores."""
    machine = Machines(1, 2)
    seen = {
        (1, 1): made_up.trip(1),
        (1, 2): made_up.trip(2),
        (2, 1): made_up.trip(1, rate=0.6 / made_up.CYCLE),
    }
    job = made_up.job()
    job = replace(job, settings=replace(job.settings, burn_in=0, steps=10_000))
    found = layouts(job, made_up.calibration(), None, machine, Targets(), here=seen)
    assert [(each.servers, each.workers) for each in found] == [(1, 1), (1, 2), (2, 1)]
    assert all(each.measured for each in found)
    assert [each.seconds for each in found] == pytest.approx([t * made_up.CYCLE for t in (10_000, 5000, 5000 / 0.6)])
    assert [each.mean_staleness for each in found] == [0.0, 1.0, 0.0]
    best, (why, _) = advise_layout(found, made_up.calibration(), Targets())
    assert (best.servers, best.workers) == (1, 2)
    together, these = 1.2 / made_up.CYCLE, 2 / made_up.CYCLE
    assert f"would make {together:,.0f} updates a second together, these make {these:,.0f}." in why
    assert "One chain alone" not in why
    (plain,) = [text for name, text in commands(best, machine, job.folder / "job.toml", 1e-4) if name == "this machine"]
    assert plain.endswith("--workers 2 --servers 1 --steps 10000")


def test_a_machine_like_this_one_is_run_on_and_of_others_a_chain_on_every_core():
    calibration = made_up.calibration(process_bytes=1e9)
    assert to_measure(calibration, Machines(1, 2)) == [(1, 1), (1, 2), (2, 1)]
    assert to_measure(calibration, Machines(1, 2, memory=2.5e9)) == [(1, 1), (1, 2)]
    assert to_measure(calibration, Machines(1, 4)) == to_measure(calibration, Machines(2, 2)) == [(2, 1)]


def test_a_server_that_shares_its_core_with_the_worker_is_as_slow_as_it_was_here():
    """With a chain on every core; layouts whose servers have cores of their own do not suffer."""
    crowded = {(2, 1): made_up.trip(1, rate=0.4 / made_up.CYCLE)}
    job = made_up.job()
    free, full = (layouts(job, made_up.calibration(), None, MACHINES, Targets(), here=here) for here in ({}, crowded))
    assert [each.updates_per_second for each in full[:-1]] == [each.updates_per_second for each in free[:-1]]
    assert free[-1].updates_per_second == pytest.approx(1 / made_up.CYCLE, rel=1e-6)
    assert full[-1].updates_per_second == pytest.approx(0.4 / made_up.CYCLE, rel=1e-6)
    assert not any(each.measured for each in full)


def test_a_time_that_no_layout_keeps_is_said():
    found = made()
    limit = min(layout.seconds for layout in found) / 2
    _, said = advise_layout(found, made_up.calibration(), Targets(within=limit))
    assert said[-1].startswith("Time: none of them is done within")
    assert len(advise_layout(found, made_up.calibration(), Targets(within=1e6))[1]) == 2


def test_no_short_runs_are_made_that_the_memory_here_does_not_hold():
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert affordable([(1, 1), (1, 4), (5, 1)], made_up.calibration(process_bytes=whole / 9)) == [(1, 1), (1, 4)]
