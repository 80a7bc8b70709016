"""The complete recipe: built-in samplers written as recipes take the same steps, and new ones sample their target."""

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import stalegrad as sg
from stalegrad.engines import Threads
from stalegrad.kernels import Address
from stalegrad.kernels.samplers import sghmc, sgld, sgnht, sgrld
from stalegrad.kernels.samplers.recipe import State
from stalegrad.protocol.chain import Chain
from stalegrad.testing import check_replay

from .samplers import time_averages

pytestmark = pytest.mark.long

ROWS, SIZE, H = 3, 5, 0.02
WAVY = sg.SGRLD.examples()[0].metric
START = Address(7, 3, 0)
SURE = stats.norm.isf(0.5e-6)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def symplectic(x):
    return {("position", "momentum"): -1.0, ("momentum", "position"): 1.0}


def friction(x):
    return {"momentum": 2.0}


def wavy_matrix(x):
    return {"position": WAVY.inverse(x["position"])}


def thermostat_flow(x):
    q = x["momentum"] / x["momentum"].size
    return symplectic(x) | {("momentum", "thermostat"): q, ("thermostat", "momentum"): -q}


def thermostat_energy(x):
    return 0.5 * jnp.sum(x["momentum"] ** 2) + x["momentum"].size / 2 * jnp.sum((x["thermostat"] - 1.5) ** 2)


RECIPES = {
    "SGLD": sg.Recipe(lambda x: 1.0, step_size=H, auxiliary={}, temperature=0.7),
    "SGRLD": sg.Recipe(wavy_matrix, step_size=H, auxiliary={}, temperature=0.7),
    "SGHMC": sg.Recipe(friction, symplectic, step_size=H, sequence=("momentum", "position"), temperature=0.7),
    "SGNHT": sg.Recipe(
        lambda x: {"momentum": 1.5}, thermostat_flow, step_size=H, energy=thermostat_energy, temperature=0.7,
        auxiliary={"momentum": sg.Auxiliary(), "thermostat": sg.Auxiliary(size=1, start=1.5)},
        sequence=("momentum", "position", "thermostat"),
    ),
}  # fmt: skip
BUILT_IN = {
    "SGLD": (sg.SGLD(step_size=H, temperature=0.7), sgld.State, slice(0, SIZE)),
    "SGRLD": (sg.SGRLD(step_size=H, metric=WAVY, temperature=0.7), sgrld.State, slice(0, SIZE)),
    "SGHMC": (sg.SGHMC(step_size=H, friction=2.0, temperature=0.7), sghmc.Euler, slice(SIZE, 2 * SIZE)),
    "SGNHT": (sg.SGNHT(step_size=H, noise=1.5, temperature=0.7), sgnht.Euler, slice(SIZE, 2 * SIZE)),
}


def _start(kernel, dtype, rows=ROWS):
    theta, gradient = np.random.default_rng(5).standard_normal((2, ROWS, SIZE)).astype(dtype)[:, :rows]
    return kernel.start(theta, START), gradient


@dtypes
@pytest.mark.parametrize("name", RECIPES)
def test_a_built_in_sampler_as_a_recipe_takes_the_same_step(name, dtype):
    recipe, (kernel, form, noisy) = RECIPES[name], BUILT_IN[name]
    state, gradient = _start(recipe, dtype)
    plain = form(state.position, *(part for part in np.split(state.auxiliary, [SIZE], axis=1) if part.size))
    for update in range(3):
        noise = recipe.noise_at(state, Address(7, 3, update))
        state, plain = recipe.step(state, gradient, noise, H), kernel.step(plain, gradient, noise[:, noisy], H)
        flat = np.concatenate([array for array in plain if array is not None], axis=1)
        mine = np.concatenate(state, axis=1)
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, flat, rtol=0, atol=8 * np.finfo(dtype).eps * np.abs(flat).max())


def test_matrices_diagonals_and_numbers_mean_the_same_as_blocks():
    eye, zero = np.eye(SIZE), np.zeros((SIZE, SIZE))
    q = np.block([[zero, -eye], [eye, zero]])
    kernels = [
        sg.Recipe(friction, symplectic, step_size=H),
        sg.Recipe(lambda x: np.diag(np.r_[np.zeros(SIZE), np.full(SIZE, 2.0)]), lambda x: q, step_size=H),
        sg.Recipe(lambda x: np.r_[np.zeros(SIZE), np.full(SIZE, 2.0)], lambda x: q, step_size=H),
        sg.Recipe(lambda x: {("momentum", "momentum"): 2 * eye}, symplectic, step_size=H),
    ]
    state, gradient = _start(kernels[0], np.float64)
    first, *others = (kernel.step(state, gradient, kernel.noise_at(state, START), H) for kernel in kernels)
    for other in others:
        np.testing.assert_allclose(np.concatenate(other, axis=1), np.concatenate(first, axis=1), rtol=0, atol=1e-14)


def test_noise_has_the_covariance_of_a_full_semidefinite_matrix():
    """D = A Aᵀ of rank 2 in three dimensions: √(2hT D) applied to unit vectors gives its root."""
    factor = np.array([[1.0, 0.5], [0.2, -1.0], [2.0, 0.3]])
    kernel = sg.Recipe(lambda x: factor @ factor.T, step_size=H, auxiliary={})
    state = kernel.start(np.zeros((3, 3)), START)
    root = kernel.step(state, np.zeros((3, 3)), np.eye(3), H).position
    np.testing.assert_allclose(root @ root.T, 2 * H * factor @ factor.T, atol=1e-14)


def test_gamma_is_the_divergence_of_both_matrices():
    """Noise off, gradient zero and no energy: what is left of a step is h T Γ."""

    def d(x):
        return jnp.array([[1 + x["position"][0] ** 2, 0.1 * x["position"][1]], [0.1 * x["position"][1], 2.0]])

    def q(x):
        return x["position"][0] * x["position"][1] * jnp.array([[0.0, 1.0], [-1.0, 0.0]])

    kernel = sg.Recipe(d, q, step_size=1.0, auxiliary={}, temperature=3.0)
    theta = np.array([[0.5, -0.7]])
    moved = kernel.step(kernel.start(theta, START), np.zeros((1, 2)), np.zeros((1, 2)), 1.0)
    a, b = theta[0]
    np.testing.assert_allclose(moved.position[0] - theta[0], 3 * np.array([2 * a + 0.1 + a, -b]), rtol=1e-12)


def test_a_sequence_adds_no_drift_of_its_own():
    """Noise that couples blocks, with a root taken after some have moved, would drift by O(h): averaged over ±ζ it must
    vanish to O(h²)."""

    def coupled(x):
        v = jnp.concatenate([1 + x["momentum"] ** 2, 1 + x["position"] ** 2])
        return jnp.outer(v, v)

    kernel, h = sg.Recipe(coupled, step_size=1e-4, sequence=("momentum", "position")), 1e-4
    state, gradient = kernel.start(np.array([[0.5]]), START), np.zeros((1, 1))
    up, still, down = (
        np.concatenate(kernel.step(state, gradient, sign * np.ones((1, 2)), h), axis=1) for sign in (1.0, 0.0, -1.0)
    )
    assert np.abs(up - still).min() > 0.01
    assert np.abs((up + down) / 2 - still).max() < 0.01 * h


@dtypes
@pytest.mark.parametrize("name", RECIPES)
def test_rows_have_the_bits_that_they_have_alone(name, dtype):
    kernel = RECIPES[name]
    state, gradient = _start(kernel, dtype)
    noise = kernel.noise_at(state, START)
    together = kernel.step(state, gradient, noise, H)
    for r in range(ROWS):
        one = State(*(array[r : r + 1] for array in state))
        alone = kernel.step(one, gradient[r : r + 1], noise[r : r + 1], H)
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a[0], b[r])


def test_precision_is_the_states_own_whatever_jax_is_set_to():
    kernel = RECIPES["SGRLD"]
    found = {}
    for wide in (False, True):
        with jax.enable_x64(wide):
            for dtype in (np.float32, np.float64):
                fresh = cloudpickle.loads(cloudpickle.dumps(kernel))
                state, gradient = _start(fresh, dtype)
                found.setdefault(dtype, []).append(fresh.step(state, gradient, fresh.noise_at(state, START), H))
    for dtype, (narrow, wide) in found.items():
        assert narrow.position.dtype == dtype
        np.testing.assert_array_equal(narrow.position, wide.position)


def test_a_recipe_replays_from_threads_and_is_diagnosed():
    run = check_replay(Threads(), RECIPES["SGHMC"], servers=2, workers=3, steps=120)
    assert np.isfinite(run.stats.kinetic_temperature).all()
    assert "Recipe" in str(run.trace.record.kernels)
    assert run.diagnose().findings is not None


def root(theta):
    return (1 + theta * theta / (1 + theta * theta)) ** 0.5


def sgrhmc(h, sequence=None):
    """Ma, Chen and Fox 2015: D = G on the momentum, Q with √G."""
    return sg.Recipe(
        lambda x: {"momentum": root(x["position"]) ** 2},
        lambda x: {("position", "momentum"): -root(x["position"]), ("momentum", "position"): root(x["position"])},
        step_size=h, sequence=sequence,
    )  # fmt: skip


COPIES = 2000


def test_order_of_sgrhmc():
    """Euler with all blocks at once: a first-order bias of E θ² on N(0, 1), with a slope near 1, and 2 far away."""
    steps, biases, errors = (0.06, 0.12, 0.24), [], []
    for h in steps:
        averages = time_averages(
            sgrhmc(h), np.copy, lambda s: s.position**2, coordinates=COPIES, steps=int(200 / h), burn_in=int(20 / h),
            rows=True,
        )  # fmt: skip
        biases.append(averages.mean() - 1)
        errors.append(averages.std() / np.sqrt(COPIES))
    assert max(errors) < 0.1 * biases[0]
    slope = np.polyfit(np.log(steps), np.log(biases), 1)[0]
    assert slope == pytest.approx(sgrhmc(0.1).order, abs=0.35), biases


def test_sgrhmc_samples_a_skewed_target():
    """θ = log γ with γ ~ Gamma(2): E θ = ψ(2), Var θ = ψ'(2). The step's own bias is allowed two hundredths."""
    exact = np.array([special.digamma(2), special.polygamma(1, 2)])
    kernel = sgrhmc(0.05, sequence=("momentum", "position"))
    chain = Chain(kernel, np.full((COPIES // 4, 4), exact[0]), 1, 0)
    total = np.zeros((2, COPIES))
    for update in range(1500):
        chain.advance(np.exp(chain.position) - 2)
        if update >= 200:
            theta = chain.position.ravel()
            total += theta, (theta - exact[0]) ** 2
    averages = total / 1300
    error = averages.std(axis=1) / np.sqrt(COPIES)
    assert (error < 0.01).all()
    np.testing.assert_array_less(np.abs(averages.mean(axis=1) - exact), SURE * error + 0.02)


class TestMistakes:
    def _refused(self, match, *functions, **options):
        with pytest.raises(sg.ArgumentError, match=match):
            sg.Recipe(*functions, step_size=H, **options).start(np.ones((1, 2)), START)

    def test_d_with_a_negative_eigenvalue(self):
        indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
        self._refused(r"not positive semidefinite.*the eigenvalue -1\.", lambda x: indefinite, auxiliary={})

    def test_d_that_is_negative_around_the_start(self):
        self._refused("not positive semidefinite", lambda x: {"position": x["position"] - 1.0}, auxiliary={})

    def test_d_that_is_not_symmetric(self):
        self._refused(
            r"not symmetric.*the entry -1 at \(position\[0\], position\[1\]\)",
            lambda x: np.array([[1.0, 0.0], [1.0, 1.0]]), auxiliary={},
        )  # fmt: skip

    def test_q_that_is_not_skew(self):
        self._refused(
            r"Q=.*not skew-symmetric: Q \+ Qᵀ has the entry -1 at \(position\[0\], momentum\[0\]\)",
            friction, lambda x: {("position", "momentum"): -1.0},
        )  # fmt: skip

    def test_shapes_and_names(self):
        self._refused(r"shape \(3, 3\) for 4 variables \(position 2, momentum 2\)", lambda x: np.eye(3))
        self._refused(r"a block 'moment' that is not known", lambda x: {"moment": 1.0})
        self._refused(r"shape \(3,\) for the block 'momentum', which is 2 × 2", lambda x: {"momentum": np.ones(3)})
        self._refused(r"energy=.*an array of shape \(2,\)", friction, symplectic, energy=lambda x: x["momentum"])

    def test_arguments(self):
        self._refused("D=1.0: cannot be called", 1.0)
        self._refused("not all blocks, each once.*Order these: 'position', 'momentum'", friction, sequence=["position"])
        self._refused("no block of auxiliary variables", friction, auxiliary={"momentum": 3})
        with pytest.raises(sg.ArgumentError, match="size=0: is out of range"):
            sg.Auxiliary(size=0)


def test_without_jax_the_extra_is_named(fresh_python):
    code = """
import sys
sys.modules["jax"] = None
import numpy as np, stalegrad as sg
try:
    sg.Recipe(lambda x: 1.0, step_size=0.1).start(np.ones((1, 2)), sg.kernels.Address(0, 0, 0))
except sg.MissingExtra as error:
    print(error)
"""
    assert "Recipe needs an optional dependency: pip install 'stalegrad[jax]'" in fresh_python("-c", code).stdout
