"""Runs of every architecture: replay, stores, jobs, faults, refusals, costs."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError
from stalegrad.engines import Processes, Threads
from stalegrad.engines.simulation import LogNormal
from stalegrad.kernels.schedules import Polynomial
from stalegrad.potentials import from_gradient
from stalegrad.protocol.architectures import StaleGradients, architecture_from_table, architecture_table
from stalegrad.runs.jobs import JobFile, ModelFunction
from stalegrad.testing import FaultyModel, small_model

SGLD = sg.SGLD(step_size=0.002)
SGHMC = sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting")
RUNS = {
    "Downpour": (sg.Downpour(n_push=3), {"workers": 3, "servers": 2}),
    "Downpour, seldom fetched": (sg.Downpour(n_push=2, n_fetch=6), {"workers": 3}),
    "WorkerNoise": (sg.WorkerNoise(), {"workers": 3}),
    "Elastic": (sg.Elastic(rho=5.0, alpha=0.5), {"workers": 3}),
    "Elastic centre": (sg.Elastic(rho=5.0, divide=True, draws="centre"), {"workers": 3}),
    "Elastic in pushes": (sg.Elastic(rho=5.0, n_push=3), {"workers": 3}),
    "VisitingShards": (sg.VisitingShards((20, 12, 8), lengths=(4, 3, 2)), {"servers": 2}),
    "Consensus": (sg.Consensus((20, 12, 8)), {"servers": 3, "workers": 2}),
}
NO_MOMENTUM = ("Elastic in pushes",)


def made(name, kernel=SGLD, model=None, **settings):
    architecture, shape = RUNS[name]
    settings = {"steps": 60, "seed": 3, "engine": "threads", **shape, **settings}
    return sg.sample(model or small_model(), kernel, architecture=architecture, progress=False, **settings)


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", RUNS)
def test_replay_gives_the_same_bits(name, engine):
    kernel = SGLD if name in NO_MOMENTUM or engine == "inline" else SGHMC
    run = made(name, kernel, engine=engine)
    again = sg.replay(run.trace, small_model(), kernel)
    np.testing.assert_array_equal(again.draws, run.draws)
    assert again.trace.architecture == run.trace.architecture == RUNS[name][0]


@pytest.mark.parametrize("name", RUNS)
def test_repetition_0_is_the_run(name):
    run = made(name, engine="inline")
    repeated = made(name, engine="inline", repeats=3)
    np.testing.assert_array_equal(repeated.draws[0], run.draws)
    assert not np.array_equal(repeated.draws[1], run.draws)


@pytest.mark.parametrize("name", RUNS)
def test_a_stored_run_goes_on_and_replays(name, tmp_path):
    made(name, store=tmp_path / "run", thin=2)
    run = sg.resume(tmp_path / "run", small_model(), steps=100, engine="inline", progress=False)
    assert run.draws.shape[1] == 50
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), SGLD).draws, np.asarray(run.draws))


@pytest.mark.parametrize("name", ["Elastic", "Downpour, seldom fetched"])
def test_what_is_kept_for_workers_is_kept_for_as_many(name, tmp_path):
    made(name, store=tmp_path / "run")
    with pytest.raises(ArgumentError, match="state is that of 3 workers"):
        sg.resume(tmp_path / "run", small_model(), steps=100, workers=2, progress=False)


@pytest.mark.parametrize("name", ["Elastic", "Downpour", "Downpour, seldom fetched", "WorkerNoise"])
def test_a_worker_that_is_replaced_goes_on_where_it_was(name, tmp_path):
    model = FaultyModel(tmp_path / "calls", {20: "raise", 45: "nan"}, seconds=0)
    run = made(name, model=model, servers=1)
    kinds = [event.kind for event in run.events]
    assert "refused" in kinds
    assert set(kinds) <= {"raised", "refused"}  # the others may end the run before the one that raised reports it
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), SGLD).draws, run.draws)


def test_an_elastic_worker_that_is_lost_ends_the_run(tmp_path):
    model = FaultyModel(tmp_path / "calls", dict.fromkeys(range(30, 10_000), "raise"), seconds=0)
    with pytest.raises(sg.RunFailed, match="whose part no other worker can take over"):
        made("Elastic", model=model, engine=Threads(restarts=1))


def test_dropped_pushes_do_not_touch_copies():
    run = made("Downpour, seldom fetched", max_staleness=1, engine=Threads(slow={0: 0.002}))
    assert not run.trace.chains[0].accepted.all()
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), SGLD).draws, run.draws)


def test_threads_that_share_an_update_change_no_bit():
    model = from_gradient(lambda theta, indices: theta, size=700, n_data=1)
    for name in ("Elastic", "Elastic in pushes", "Downpour"):
        run = made(name, model=model, engine=Threads(update_threads=3))
        np.testing.assert_array_equal(sg.replay(run.trace, model, SGLD).draws, run.draws)


def test_a_copy_is_fetched_after_every_third_push():
    """With one worker its copy is θ, however seldom it is fetched; with two it misses what the other does."""
    settings = {"steps": 40, "engine": "inline", "progress": False, "seed": 1}
    often = sg.sample(small_model(), SGLD, architecture=sg.Downpour(n_push=2), **settings)
    seldom = sg.sample(small_model(), SGLD, architecture=sg.Downpour(n_push=2, n_fetch=6), **settings)
    np.testing.assert_array_equal(seldom.draws, often.draws)
    two = {**settings, "workers": 2}
    often = sg.sample(small_model(), SGLD, architecture=sg.Downpour(n_push=2), **two)
    seldom = sg.sample(small_model(), SGLD, architecture=sg.Downpour(n_push=2, n_fetch=6), **two)
    same = (often.draws[0] == seldom.draws[0]).all(axis=1)
    assert same[:3].all()  # a worker's second push begins where its first has ended
    assert not same[3:].any()


def test_a_replay_notes_what_it_has_made():
    run = made("Downpour", engine="inline")
    plain = sg.replay(run.trace, small_model(), SGLD, architecture=StaleGradients())
    assert plain.trace.architecture == StaleGradients()
    other = sg.replay(plain.trace, small_model(), SGLD, architecture=sg.WorkerNoise())
    assert other.trace.architecture == sg.WorkerNoise()


def test_one_step_a_push_of_one_worker_is_worker_noise():
    """θ + (−h g + σ ζ) against θ − h (g − (σ/h) ζ): the same numbers but for rounding."""
    settings = {"steps": 50, "engine": "inline", "progress": False, "seed": 1}
    pushed = sg.sample(small_model(), SGLD, architecture=sg.Downpour(), **settings)
    noisy = sg.sample(small_model(), SGLD, architecture=sg.WorkerNoise(), **settings)
    np.testing.assert_allclose(pushed.draws, noisy.draws, rtol=0, atol=1e-5)


class TestCost:
    @pytest.mark.parametrize(
        ("name", "gradients", "messages"),
        [
            ("Downpour", 3 * 120, 2 * 120),
            ("Downpour, seldom fetched", 2 * 60, 60 + 3 * 7),
            ("WorkerNoise", 60, 120),
            ("Elastic", 60, 120),
            ("Elastic in pushes", 180, 120),
            ("Consensus", 180, 3 * 30),
        ],
    )
    def test_counts(self, name, gradients, messages):
        run = made(name, engine="inline", thin=2)
        assert run.trace.cost() == (gradients, messages)

    def test_trajectories_count_by_their_length(self):
        run = made("VisitingShards", engine="inline", steps=30)
        architecture, _ = RUNS["VisitingShards"]
        lengths = [architecture.each_length[architecture.shard(3, s, k)] for s in range(2) for k in range(30)]
        assert run.trace.cost() == (sum(lengths), 60)


def test_virtual_time_counts_every_gradient():
    settings = {"steps": 20, "engine": sg.engines.Inline(compute=2.0), "progress": False}
    run = sg.sample(small_model(), SGLD, architecture=sg.Downpour(n_push=5), workers=2, **settings)
    assert run.trace.chains[0].time[-1] == pytest.approx(20 / 2 * 5 * 2.0)
    slow = sg.engines.Inline(compute=LogNormal(1.0, factors={1: 10.0}))
    run = sg.sample(small_model(), SGLD, architecture=sg.Downpour(n_push=5), workers=2, **{**settings, "engine": slow})
    assert np.mean(run.trace.chains[0].worker == 0) > 0.8


def test_a_job_file_names_an_architecture(tmp_path):
    model, kernel = {"function": "stalegrad.testing:small_model"}, {"name": "SGLD", "step_size": 0.002}
    described = {"steps": 10, "model": model, "kernel": kernel}
    job = JobFile.from_table({**described, "architecture": {"name": "Elastic", "rho": 2.0, "draws": "centre"}})
    assert JobFile.from_table(job.table()) == job
    assert isinstance(job.model, ModelFunction)
    potential = job.potential()
    run = sg.sample(potential, progress=False, **job.arguments(potential))
    assert run.trace.architecture == sg.Elastic(rho=2.0, draws="centre")
    with pytest.raises(ArgumentError, match=r"architecture.n_psh=3: is not known. Did you mean 'n_push'"):
        JobFile.from_table({**described, "architecture": {"name": "Downpour", "n_psh": 3}})
    assert sg.sample(small_model(), SGLD, steps=5, progress=False).trace.architecture == StaleGradients()


@pytest.mark.parametrize("name", RUNS)
def test_tables_bring_architectures_back(name):
    architecture, _ = RUNS[name]
    assert architecture_from_table(architecture_table(architecture)) == architecture
    assert architecture_from_table(architecture_table(StaleGradients())) == StaleGradients()


REFUSED = [
    (sg.Downpour(n_push=2), {"kernel": sg.SGLD(step_size=Polynomial(0.01))}, "changes with the chain's version"),
    (sg.Downpour(n_push=2), {"kernel": sg.SGNHT(step_size=0.01)}, "must not start afresh"),
    (sg.Downpour(n_push=2), {"kernel": sg.PSGLD(step_size=0.01)}, "must not start afresh"),
    (sg.WorkerNoise(), {"kernel": sg.PSGLD(step_size=0.01)}, "workers cannot make it"),
    (sg.WorkerNoise(), {"kernel": sg.SGLD(step_size=Polynomial(0.01))}, "changes with the chain's version"),
    (sg.Elastic(rho=1.0), {"max_staleness": 3}, "no gradient is stale"),
    (sg.Elastic(rho=1.0, n_push=2), {"kernel": SGHMC}, "its local steps are those of SGLD"),
    (sg.VisitingShards(2), {"workers": 2}, "one place at a time"),
    (sg.VisitingShards(2), {"servers": 3}, "more than the 2 shards"),
    (sg.VisitingShards(20), {}, "batch_size=4: is more than the 2 data"),
    (sg.Consensus(), {}, "no other chain to agree with"),
    (sg.Consensus((10, 10, 20)), {"servers": 2}, "has 3 entries for 2 shards"),
    ("Downpour", {}, "is a str, not an architecture"),
]


@pytest.mark.parametrize(("architecture", "settings", "message"), REFUSED)
def test_what_cannot_be_made_is_refused(architecture, settings, message):
    settings = {"kernel": SGLD, "steps": 10, **settings}
    kernel = settings.pop("kernel")
    with pytest.raises(ArgumentError, match=message):
        sg.sample(small_model(), kernel, architecture=architecture, progress=False, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sg.Downpour(n_push=0), "n_push=0"),
        (lambda: sg.Downpour(n_push=4, n_fetch=6), "is not a multiple of n_push = 4"),
        (lambda: sg.Elastic(rho=0.0), "rho=0"),
        (lambda: sg.Elastic(rho=1.0, alpha=0.0), "alpha=0"),
        (lambda: sg.Elastic(rho=1.0, draws="all"), "draws='all'"),
        (lambda: sg.VisitingShards(3, lengths=(1, 2)), "has 2 entries for 3 shards"),
        (lambda: sg.VisitingShards(0), "shards=0"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_what_is_known_of_stale_gradients_is_not_said_of_others():
    run = made("Downpour", steps=200)
    told = run.diagnose(small_model())
    assert {"step size", "staleness", "gradient noise"} <= set(told.skipped)
    assert "step halving" not in told.skipped
    assert "R-hat" not in told.skipped
    assert {"R-hat", "effective draws"} <= set(made("Consensus", steps=200).diagnose().skipped)
    assert "step size" not in made("WorkerNoise", steps=200).diagnose(small_model()).skipped


def test_only_a_consensus_has_one():
    with pytest.raises(ArgumentError, match="nothing to combine"):
        made("Elastic").consensus()
    assert made("Consensus").consensus().shape == (60, 5)


@pytest.mark.long
def test_processes_with_several_chains(tmp_path):
    run = made("Consensus", SGHMC, engine=Processes(), store=tmp_path / "run")
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), SGHMC).draws, np.asarray(run.draws))
