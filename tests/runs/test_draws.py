"""Which updates become draws, where chains start, and what repetitions are."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.testing import small_model

from .cases import KERNELS, RANDOM_ORDER, SIZE, N, from_gradient, gaussian, sample

SGLD = KERNELS["SGLD"]


class TestSelection:
    @pytest.mark.parametrize(
        ("burn_in", "thin"), [(0, 1), (0, 2), (0, 7), (5, 1), (5, 3), (4, 5), (30, 7), (36, 1), (0, 37), (30, 4)]
    )
    def test_burn_in_and_thin_keep_exactly_these_updates(self, burn_in, thin):
        """Of updates 0 … L−1, the thin-th after burn-in and every thin-th after it."""
        options = {"steps": 37, "workers": 3, "servers": 2, "engine": RANDOM_ORDER}
        everything = sample(gaussian(), KERNELS["SGLD-schedule"], **options)
        some = sample(gaussian(), KERNELS["SGLD-schedule"], **options, burn_in=burn_in, thin=thin)
        kept = [l for l in range(37) if l >= burn_in and (l - burn_in + 1) % thin == 0]  # noqa: E741
        np.testing.assert_array_equal(some.draws, everything.draws[:, kept])
        np.testing.assert_array_equal(some.step_sizes, everything.step_sizes[:, kept])
        assert some.draws.shape == (2, (37 - burn_in) // thin, SIZE)

    def test_a_replay_selects_as_the_run_did_unless_told_otherwise(self):
        run = sample(gaussian(), SGLD, steps=20, workers=2, burn_in=6, thin=2)
        everything = sg.replay(run.trace, gaussian(), SGLD, burn_in=0, thin=1)
        np.testing.assert_array_equal(sg.replay(run.trace, gaussian(), SGLD).draws, run.draws)
        np.testing.assert_array_equal(everything.draws[:, 7::2], run.draws)
        assert (everything.trace.burn_in, everything.trace.thin) == (0, 1)


class TestFirstUpdate:
    """Without heat and with all data, SGLD is gradient descent: θ_1 = θ_0 − h U'(θ_0)."""

    kernel = sg.SGLD(step_size=1e-3, temperature=0.0)

    def first(self, **options):
        potential = gaussian(np.float64, batch_size=None)
        return potential, sample(potential, self.kernel, steps=4, servers=2, **options)

    @pytest.mark.parametrize(
        "initial",
        [
            np.arange(SIZE, dtype=float),
            np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE),
            list(range(SIZE)),
            np.arange(SIZE, dtype=np.int8),
            np.asfortranarray(np.arange(2.0 * SIZE).reshape(2, SIZE)),
        ],
        ids=["all-chains", "each-chain", "list", "integers", "fortran"],
    )
    def test_chains_start_where_they_are_told(self, initial):
        potential, run = self.first(initial=initial)
        starts = np.broadcast_to(np.asarray(initial, float), (2, SIZE))
        np.testing.assert_array_equal(run.trace.initial, starts)
        for s in range(2):
            np.testing.assert_allclose(
                run.draws[s, 0], starts[s] - 1e-3 * potential.full_gradient(starts[s]), rtol=1e-12
            )

    def test_or_where_the_model_says(self):
        potential, run = self.first()
        assert run.trace.initial is None
        np.testing.assert_allclose(run.draws[:, 0], np.tile(-1e-3 * potential.full_gradient(np.zeros(SIZE)), (2, 1)))
        told = sample(from_gradient(np.float64), self.kernel, steps=1)
        assert (told.draws > 0.4).all()  # near its own start, 0.5

    def test_the_start_is_copied(self):
        start = np.ones(SIZE)
        run = sample(gaussian(), SGLD, steps=5, initial=start)
        start[:] = 7.0
        np.testing.assert_array_equal(run.trace.initial, np.ones((1, SIZE)))
        np.testing.assert_array_equal(sg.replay(run.trace, gaussian(), SGLD).draws, run.draws)

    def test_a_stale_gradient_is_the_gradient_of_an_older_point(self):
        """Staleness 0, 1, 2, 2: the hand-made recursion θ_{l+1} = θ_l − h U'(θ_{l−τ})."""
        potential = gaussian(np.float64, batch_size=None)
        run = sg.replay(sg.Trace.from_staleness([0, 1, 2, 2]), potential, self.kernel, initial=np.ones(SIZE))
        theta = [np.ones(SIZE)]
        for step, tau in enumerate([0, 1, 2, 2]):
            theta.append(theta[-1] - 1e-3 * potential.full_gradient(theta[step - tau]))
        np.testing.assert_allclose(run.draws[0], theta[1:], rtol=1e-13)

    def test_a_schedule_is_followed_and_recorded(self):
        potential, schedule = gaussian(np.float64, batch_size=None), sg.schedules.Inverse(1e-3, gamma=0.5, power=1.0)
        run = sample(potential, self.kernel.with_step_size(schedule), steps=6)
        theta = np.zeros(SIZE)
        for step in range(6):
            theta = theta - 1e-3 / (1 + 0.5 * step) * potential.full_gradient(theta)
            np.testing.assert_allclose(run.draws[0, step], theta, rtol=1e-12)
        np.testing.assert_allclose(run.step_sizes[0], 1e-3 / (1 + 0.5 * np.arange(6)), rtol=1e-15)

    def test_recorded_step_sizes_win_over_the_kernel(self):
        run = sample(gaussian(), KERNELS["SGLD-schedule"], steps=20)
        np.testing.assert_array_equal(sg.replay(run.trace, gaussian(), SGLD).draws, run.draws)


class TestRepetitions:
    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_each_row_is_a_run_of_its_own(self, name, dtype):
        potential, kernel = gaussian(dtype), KERNELS[name]
        options = {"steps": 40, "workers": 4, "servers": 2, "seed": 6, "burn_in": 4, "thin": 2, "engine": RANDOM_ORDER}
        plain, repeated = sample(potential, kernel, **options), sample(potential, kernel, **options, repeats=5)
        assert repeated.draws.shape == (5, *plain.draws.shape)
        np.testing.assert_array_equal(repeated.draws[0], plain.draws)
        for r in range(5):
            row = sg.replay(plain.trace, potential, kernel, first_repeat=r)
            np.testing.assert_array_equal(row.draws, repeated.draws[r], f"repetition {r}")
        later = sg.replay(plain.trace, potential, kernel, repeats=2, first_repeat=3)
        np.testing.assert_array_equal(later.draws, repeated.draws[3:])
        for r in range(1, 5):
            assert (repeated.draws[r] != repeated.draws[0]).all()

    def test_they_see_different_minibatches(self):
        """Without heat all that differs is the data that gradients look at."""
        cold = sg.SGLD(step_size=2e-3, temperature=0.0)
        draws = sample(gaussian(), cold, steps=10, repeats=4).draws
        assert len(np.unique(draws[:, 0, -1, 0])) == 4
        exact = sample(gaussian(batch_size=None), cold, steps=10, repeats=4).draws
        assert len(np.unique(exact[:, 0, -1, 0])) == 1

    def test_one_repetition_has_its_axis_and_none_has_not(self):
        assert sample(gaussian(), SGLD, steps=5, repeats=1).draws.shape == (1, 1, 5, SIZE)
        assert sample(gaussian(), SGLD, steps=5).draws.shape == (1, 5, SIZE)

    def test_a_plain_function_is_repeated_too(self):
        run = sample(from_gradient(), SGLD, steps=20, workers=3, repeats=3)
        row = sg.replay(run.trace, from_gradient(), SGLD, first_repeat=2)
        np.testing.assert_array_equal(row.draws, run.draws[2])

    def test_the_last_repetition_there_is(self):
        trace = sg.Trace.constant_staleness(1, 5)
        last = sg.replay(trace, gaussian(), SGLD, first_repeat=2**16 - 1)
        both = sg.replay(trace, gaussian(), SGLD, repeats=2, first_repeat=2**16 - 2)
        np.testing.assert_array_equal(last.draws, both.draws[1])


class TestBookkeeping:
    @pytest.fixture
    def run(self):
        return sample(gaussian(), SGLD, steps=200, workers=6, servers=2, max_staleness=6, engine=RANDOM_ORDER)

    def test_dropped_gradients_are_shown_and_have_no_step(self, run):
        for s in range(2):
            chain = run.trace.chains[s]
            assert run.staleness[s] is chain.staleness
            assert run.accepted[s] is chain.accepted
            assert run.accepted[s].sum() == 200 < len(run.accepted[s])
            np.testing.assert_array_equal(run.staleness[s] <= 6, run.accepted[s])
            np.testing.assert_array_equal(np.isnan(chain.step_size), ~run.accepted[s])
        dropped = 1 - np.concatenate(run.accepted).mean()
        oldest = max(int(staleness.max()) for staleness in run.staleness)
        assert repr(run).endswith(f"dropped {dropped:.1%} (up to {oldest} old))")

    def test_dropped_gradients_do_not_touch_the_chain(self, run):
        """The accepted rows alone, with the staleness they had, give the same draws."""
        chains = [chain.updates() for chain in run.trace.chains]
        columns = ("worker", "count", "staleness", "accepted", "step_size", "time")
        alone = [type(run.trace.chains[0])(*(getattr(chain, name) for name in columns)) for chain in chains]
        again = sg.replay(sg.Trace(tuple(alone)), gaussian(), SGLD)
        np.testing.assert_array_equal(again.draws, run.draws)

    def test_the_trace_says_how_it_was_made(self, run):
        assert run.trace.workers == 6
        assert run.trace.record.settings.max_staleness == 6
        assert [kernel["step_size"] for kernel in run.trace.record.kernels] == [2e-3, 2e-3]

    def test_psgld_learns_the_size_of_the_model(self):
        run = sample(gaussian(), KERNELS["PSGLD"], steps=5)
        assert run.trace.record.kernels[0]["n_data"] == N
        assert run.trace.record.kernels[0]["batch_size"] == 4


@pytest.mark.parametrize("repeats", [None, 3])
def test_the_norm_of_the_gradient_and_the_temperature_are_noted_beside_each_draw(repeats):
    model, noted = small_model(), []
    kernel = sg.SGHMC(step_size=0.02, friction=5.0)

    class Watched(type(model)):
        def gradients(self, theta, indices, out):
            super().gradients(theta, indices, out)
            noted.append(np.linalg.norm(out, axis=-1))

    model.__class__ = Watched
    run = sg.sample(model, kernel, steps=40, burn_in=10, thin=3, engine="inline", repeats=repeats, progress=False)
    norms = np.array(noted)[12::3].T
    np.testing.assert_allclose(run.stats.gradient_norm[..., 0, :], norms if repeats else norms[0], rtol=1e-5)
    still = sg.sample(model, sg.SGLD(step_size=0.002), steps=9, engine="inline", progress=False)
    assert np.isnan(still.stats.kinetic_temperature).all()
    # Euler moves by θ ← θ + h q: the draws tell q.
    fine = sg.sample(model, kernel, steps=40, engine="inline", repeats=repeats, progress=False)
    momentum = np.diff(fine.draws.astype(float), axis=-2) / 0.02
    np.testing.assert_allclose(fine.stats.kinetic_temperature[..., 1:], (momentum**2).mean(axis=-1), rtol=1e-3)
