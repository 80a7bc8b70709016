"""A run is its seed, and a run is its trace: bit for bit, for every sampler, order of arrival and kind of model."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg

from .cases import KERNELS, RANDOM_ORDER, SIZE, digests, from_gradient, gaussian, sample


def same_bits(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    return one.tobytes() == other.tobytes()


@pytest.mark.long
def test_the_same_seed_gives_the_same_bits_here_and_in_another_process(fresh_python):
    here = digests()
    assert here == digests()
    assert len(set(here.values())) == len(here)
    elsewhere = fresh_python(Path(__file__).with_name("cases.py"))
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert json.loads(elsewhere.stdout) == here


@pytest.mark.parametrize("name", KERNELS)
def test_replay_is_the_run(name):
    """Servers 1 to 3, workers 1 to 9, without a bound, with dropped gradients, and with workers held back."""
    kernel, potential, dropped = KERNELS[name], gaussian(), 0
    for servers, workers, policy in itertools.product([1, 2, 3], range(1, 10), ["free", "drop", "wait"]):
        bound = {} if policy == "free" else {"max_staleness": workers + 1, "policy": policy}
        run = sample(
            potential, kernel, steps=40, workers=workers, servers=servers, seed=workers, engine=RANDOM_ORDER, **bound
        )
        again = sg.replay(run.trace, potential, kernel)
        where = (servers, workers, policy)
        assert same_bits(again.draws, run.draws), where
        assert np.isfinite(run.draws).all(), where
        for one, other in zip(run.trace.chains, again.trace.chains, strict=True):
            for column, values in one.columns().items():
                np.testing.assert_array_equal(getattr(other, column), values, column)
            dropped += len(one) - one.steps
    assert dropped > 0


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_trace_from_disk_replays(name, dtype, tmp_path):
    potential, kernel = gaussian(dtype), KERNELS[name]
    run = sample(
        potential, kernel, steps=60, workers=5, servers=2, max_staleness=5, seed=2**63 - 1, engine=RANDOM_ORDER,
        initial=np.arange(2 * SIZE).reshape(2, SIZE) / 10, burn_in=7, thin=3,
    )  # fmt: skip
    loaded = sg.Trace.load(run.trace.save(tmp_path / "run.npz"))
    again = sg.replay(loaded, potential, kernel)
    assert run.draws.dtype == dtype
    assert same_bits(again.draws, run.draws)
    assert loaded.record.kernels[0]["name"] == type(kernel).__name__


def test_equal_workers_take_turns():
    run = sample(gaussian(), KERNELS["SGLD"], steps=50, workers=4, servers=2)
    assert [chain.worker.tolist() for chain in run.trace.chains] == [[k % 4 for k in range(50)]] * 2
    assert repr(run) == "Run(draws 2 × 50 × 5, mean staleness 2.88, max 3, dropped 0.0%)"


def test_the_default_engine_replays_whatever_its_order_was():
    run = sample(gaussian(), KERNELS["SGHMC-splitting"], steps=200, workers=3, servers=2, engine=None)
    assert same_bits(sg.replay(run.trace, gaussian(), KERNELS["SGHMC-splitting"]).draws, run.draws)


@pytest.mark.parametrize("scheme", ["subset", "replacement", "reshuffle"])
def test_every_scheme_of_minibatches_replays(scheme):
    potential = gaussian(scheme=scheme)
    run = sample(potential, KERNELS["SGLD"], steps=100, workers=3, engine=RANDOM_ORDER)
    assert same_bits(sg.replay(run.trace, potential, KERNELS["SGLD"]).draws, run.draws)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_plain_function_replays_and_agrees_with_the_built_in_model(dtype):
    potential, kernel = from_gradient(dtype), KERNELS["SGHMC-splitting"]
    options = {"steps": 50, "workers": 4, "seed": 3, "engine": RANDOM_ORDER}
    run = sample(potential, kernel, **options)
    assert same_bits(sg.replay(run.trace, potential, kernel).draws, run.draws)
    built_in = sample(gaussian(dtype), kernel, initial=np.full(SIZE, 0.5), **options)
    np.testing.assert_allclose(run.draws, built_in.draws, rtol=1e-3 if dtype == np.float32 else 1e-11)


def test_a_jax_model_replays():
    import jax

    jnp = jax.numpy
    rng = np.random.default_rng(0)
    potential = sg.potentials.from_jax(
        log_prior=lambda p: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p)),
        log_likelihood=lambda p, d: -0.5 * (d["y"] - jnp.tanh(d["x"] @ p["w"]) - p["b"]) ** 2,
        data={"x": rng.standard_normal((30, 3)), "y": rng.standard_normal(30)},
        params={"w": jnp.full(3, 0.1), "b": jnp.array(0.0)},
        batch_size=8,
    )
    kernel = sg.SGHMC(step_size=0.02, friction=3.0)
    run = sample(potential, kernel, steps=60, workers=3, servers=2, seed=1, engine=RANDOM_ORDER)
    assert run.draws.shape == (2, 60, 4)
    assert same_bits(sg.replay(run.trace, potential, kernel).draws, run.draws)
    repeated = sg.replay(run.trace, potential, kernel, repeats=2)
    assert same_bits(repeated.draws[0], run.draws)


def test_another_seed_kernel_or_model_gives_other_draws():
    run = sample(gaussian(), KERNELS["SGLD"], steps=30, workers=3)
    for changed in (
        sg.replay(run.trace, gaussian(), KERNELS["SGLD"], seed=1),
        sg.replay(run.trace, gaussian(), KERNELS["SGHMC-euler"]),
        sg.replay(run.trace, gaussian(batch_size=5), KERNELS["SGLD"]),
        sg.replay(run.trace, gaussian(), KERNELS["SGLD"], initial=np.ones(SIZE)),
    ):
        assert (changed.draws != run.draws).mean() > 0.99


def test_chains_differ():
    draws = sample(gaussian(), KERNELS["SGLD"], steps=30, servers=3).draws
    assert (draws[0] != draws[1]).all()
    assert (draws[1] != draws[2]).all()


def test_a_step_size_in_single_precision_replays():
    """Recorded step sizes are double: the kernel must have computed with the same number."""
    for value in np.linspace(1e-3, 3e-3, 20, dtype=np.float32):
        kernel = sg.SGHMC(step_size=sg.schedules.Constant(value), friction=5.0)
        run = sample(gaussian(), kernel, steps=5)
        assert same_bits(sg.replay(run.trace, gaussian(), kernel).draws, run.draws)


def test_numpy_integers_are_as_good_as_ints(tmp_path):
    plain = {"steps": 20, "workers": 3, "servers": 2, "seed": 4, "max_staleness": 6, "burn_in": 2, "thin": 3}
    one = sample(gaussian(), KERNELS["SGLD"], **plain)
    other = sample(gaussian(), KERNELS["SGLD"], **{name: np.int64(value) for name, value in plain.items()})
    assert same_bits(one.draws, other.draws)
    loaded = sg.Trace.load(other.trace.save(tmp_path / "t.npz"))
    assert same_bits(sg.replay(loaded, gaussian(), KERNELS["SGLD"]).draws, one.draws)


@pytest.mark.parametrize("name", ["SGLD", "SGHMC-euler"])
def test_seeds_of_all_sizes_in_one_process(name):
    """The upper half is beyond an int64, which is what compiled code makes of a Python int; momentum counts too."""
    found = set()
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 1):
        run = sample(gaussian(), KERNELS[name], steps=10, workers=2, seed=seed, engine=RANDOM_ORDER)
        assert same_bits(sg.replay(run.trace, gaussian(), KERNELS[name]).draws, run.draws)
        found.add(run.draws.tobytes())
    assert len(found) == 4
