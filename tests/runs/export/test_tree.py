"""What is in the tree that ArviZ gets, and where it comes from."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from numpy.testing import assert_allclose, assert_array_equal

import stalegrad as sg
from stalegrad.engines import Inline

DATA = np.random.Generator(np.random.Philox(51)).normal(size=(20, 5))
SGHMC, SGLD = sg.SGHMC(step_size=0.02, friction=5.0), sg.SGLD(step_size=sg.schedules.Polynomial(2e-3, gamma=0.3))
RANDOM_ORDER = Inline(compute=sg.Exponential(1.0), update=0.05)  # workers that overtake each other


def sample(kernel=SGHMC, model=None, **options):
    model = sg.potentials.GaussianMean(DATA, batch_size=4) if model is None else model
    given = {"steps": 200, "workers": 6, "servers": 2, "max_staleness": 6, "burn_in": 20, "thin": 3, "seed": 3}
    return sg.sample(model, kernel, **given | {"engine": RANDOM_ORDER, "progress": False} | options)


@pytest.fixture(scope="module")
def run():
    """With gradients that were dropped."""
    run = sample()
    assert not np.concatenate(run.accepted).all()
    return run


class TestPosterior:
    def test_the_default_is_one_variable(self, run):
        tree = run.to_arviz()
        assert isinstance(tree, xarray.DataTree)
        assert list(tree.children) == ["posterior", "sample_stats"]
        theta = tree.posterior["theta"]
        assert theta.dims == ("chain", "draw", "theta_dim_0")
        assert theta.dtype == run.draws.dtype
        assert_array_equal(theta.values, run.draws)
        assert_array_equal(theta.coords["draw"], np.arange(60))
        assert not np.shares_memory(theta.values, run.draws)

    def test_a_pytree_gives_names_and_shapes(self):
        params = {"layers": [{"w": jnp.zeros((2, 3)), "b": jnp.zeros(3)}], "scale": jnp.array(0.0)}
        model = sg.potentials.from_jax(
            lambda p: -sum((leaf**2).sum() for leaf in (*p["layers"][0].values(), p["scale"])),
            lambda p, d: -((d - p["scale"]) ** 2),
            jnp.arange(4.0),
            params,
        )
        run = sample(sg.SGLD(step_size=1e-3), model, steps=12, burn_in=0)
        posterior = run.to_arviz().posterior
        shapes = {name: variable.shape for name, variable in posterior.data_vars.items()}
        assert shapes == {"layers.0.b": (2, 4, 3), "layers.0.w": (2, 4, 2, 3), "scale": (2, 4)}
        assert posterior["layers.0.w"].dims == ("chain", "draw", "layers.0.w_dim_0", "layers.0.w_dim_1")
        last = model.unravel(run.draws[1, 3])
        assert_array_equal(posterior["layers.0.w"][1, 3], last["layers"][0]["w"])
        assert_array_equal(posterior["scale"][1, 3], last["scale"])

    def test_axes_and_their_labels_may_be_named(self, run):
        labels = list("abcde")
        theta = run.to_arviz(dims={"theta": ["feature"]}, coords={"feature": labels}).posterior["theta"]
        assert theta.dims == ("chain", "draw", "feature")
        assert_array_equal(theta.sel(feature="d").values, run.draws[:, :, 3])

    def test_some_of_the_variables(self, run):
        named = replace(
            run, variables=lambda draws: {"a/b": draws[..., :2], "draw": draws[..., 2], "c": draws[..., 3:]}
        )
        assert list(named.to_arviz().posterior.data_vars) == ["a.b", "draw_", "c"]
        assert list(named.to_arviz(variables="c").posterior.data_vars) == ["c"]
        some = named.to_arviz(variables=["draw", "a/b"]).posterior
        assert list(some.data_vars) == ["draw_", "a.b"]
        assert_array_equal(some["draw_"].values, run.draws[..., 2])

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ("sigma", r"variables=\['sigma'\]: names no variable of this model\. There are: 'theta'\."),
            (["theta", "tau"], r"variables=\['tau'\]"),
            ([], r"variables=\[\]"),
        ],
    )
    def test_unknown_variables_are_refused(self, run, variables, message):
        with pytest.raises(sg.ArgumentError, match=message):
            run.to_arviz(variables=variables)

    def test_names_that_would_become_the_same_are_refused(self, run):
        twins = replace(run, variables=lambda draws: {"a/b": draws, "a.b": draws})
        with pytest.raises(sg.ArgumentError, match="differ by a slash"):
            twins.to_arviz()


class TestSampleStats:
    @pytest.mark.parametrize(("burn_in", "thin"), [(0, 1), (0, 4), (20, 3)])
    def test_each_draw_by_hand(self, burn_in, thin):
        """Walk through the trace and note what was true when each draw was made."""
        run = sample(burn_in=burn_in, thin=thin)
        stats = run.to_arviz().sample_stats
        found = {name: variable.values for name, variable in stats.data_vars.items()}
        for s, chain in enumerate(run.trace.chains):
            update, since, draw = 0, [], 0
            for row in range(len(chain)):
                if update >= burn_in:
                    since.append(bool(chain.accepted[row]))
                if not chain.accepted[row]:
                    continue
                update += 1
                if update <= burn_in or (update - burn_in) % thin:
                    continue
                for name in ("step_size", "staleness", "worker", "time"):
                    assert found[name][s, draw] == getattr(chain, name)[row], name
                assert found["accepted"][s, draw] == pytest.approx(np.mean(since))
                since, draw = [], draw + 1
            assert draw == stats.sizes["draw"] == run.draws.shape[1]
        assert stats["staleness"].max() <= 6
        assert 0 < stats["accepted"].min() < stats["accepted"].max() == 1
        assert_array_equal(stats["gradient_norm"], run.stats.gradient_norm)
        assert_array_equal(stats["kinetic_temperature"], run.stats.kinetic_temperature)
        assert all(variable.dims == ("chain", "draw") for variable in stats.data_vars.values())

    def test_temperature_is_there_for_chains_with_momentum(self):
        assert "kinetic_temperature" not in sample(SGLD).to_arviz().sample_stats
        mixed = sample([SGHMC, SGLD]).to_arviz().sample_stats["kinetic_temperature"]
        assert_array_equal(np.isnan(mixed).all("draw"), [False, True])
        assert not np.isnan(mixed[0]).any()

    def test_a_trace_without_times(self):
        trace = sg.Trace.constant_staleness(2, 9, chains=2)
        run = sg.replay(trace, sg.potentials.GaussianMean(DATA), SGHMC)
        stats = run.to_arviz().sample_stats
        assert sorted(stats.data_vars) == [
            "accepted", "gradient_norm", "kinetic_temperature", "staleness", "step_size", "worker"
        ]  # fmt: skip
        assert_array_equal(stats["staleness"][0], np.minimum(np.arange(9), 2))
        assert_array_equal(stats["accepted"], 1)


class TestAttributes:
    def test_they_say_how_the_run_was_made(self, run):
        tree = run.to_arviz(thin=2)
        for node in (tree, tree.posterior, tree.sample_stats):
            found = node.attrs
            assert found["inference_library"] == "stalegrad"
            assert found["inference_library_version"] == sg.__version__
            settings = {name: found[name] for name in ("engine", "workers", "max_staleness", "policy", "seed")}
            assert settings == {"engine": "inline", "workers": 6, "max_staleness": 6, "policy": "drop", "seed": 3}
            assert (found["burn_in"], found["thin"]) == (20, 6)
            assert json.loads(found["kernels"]) == list(run.trace.record.kernels)

    def test_no_bound_is_no_attribute(self):
        assert "max_staleness" not in sample(max_staleness=None).to_arviz().attrs

    def test_the_tree_survives_a_file(self, tmp_path):
        tree = sample(seed=2**64 - 1, max_staleness=None).to_arviz()
        tree.to_zarr(tmp_path / "run.zarr", consolidated=False)
        with xarray.open_datatree(tmp_path / "run.zarr", engine="zarr", consolidated=False) as again:
            xarray.testing.assert_identical(again.load(), tree)


class TestSelection:
    @pytest.mark.parametrize("thin", [2, 7, 60])
    def test_thinning_is_as_if_the_run_had_kept_no_others(self, run, thin):
        sparse = sg.replay(run.trace, sg.potentials.GaussianMean(DATA, batch_size=4), SGHMC, thin=3 * thin)
        found, expected = run.to_arviz(thin=thin), sparse.to_arviz()
        for group in ("posterior", "sample_stats"):
            xarray.testing.assert_equal(found[group].to_dataset(), expected[group].to_dataset())
        assert found.attrs == expected.attrs

    def test_chains_that_ended_early_give_what_all_have(self, run):
        chains = tuple(chain.head(steps) for chain, steps in zip(run.trace.chains, (50, 90), strict=True))
        short = sg.replay(replace(run.trace, chains=chains), sg.potentials.GaussianMean(DATA, batch_size=4), SGHMC)
        found, whole = short.to_arviz(), run.to_arviz()
        assert found.posterior.sizes["draw"] == 10
        for group in ("posterior", "sample_stats"):
            xarray.testing.assert_equal(found[group].to_dataset(), whole[group].to_dataset().isel(draw=slice(10)))

    def test_a_run_without_draws_is_refused(self, run):
        empty = replace(run, draws=run.draws[:, :0], stats=type(run.stats)(*(column[:, :0] for column in run.stats)))
        with pytest.raises(sg.ArgumentError, match="holds none: the run kept no draws"):
            empty.to_arviz()
        with pytest.raises(sg.ArgumentError, match="thin=61: leaves none of 60 draws"):
            run.to_arviz(thin=61)

    def test_more_chains_than_draws(self):
        assert dict(sample(steps=26, servers=3).to_arviz().posterior.sizes) == {"chain": 3, "draw": 2, "theta_dim_0": 5}

    def test_repetitions_are_converted_one_by_one(self, run):
        model = sg.potentials.GaussianMean(DATA, batch_size=4)
        repeated = sg.replay(run.trace, model, SGHMC, repeats=3)
        with pytest.raises(sg.ArgumentError, match=r"holds 3 repetitions\. Take one: run\.repetition\(0\)\.to_arviz"):
            repeated.to_arviz()
        alone = sg.replay(run.trace, model, SGHMC, first_repeat=2)
        xarray.testing.assert_equal(repeated.repetition(2).to_arviz(), alone.to_arviz())
        assert_array_equal(repeated.repetition(2).chain_draws[1], alone.chain_draws[1])
        assert_allclose(repeated.repetition(0).stats.gradient_norm, run.stats.gradient_norm)
        with pytest.raises(sg.ArgumentError, match="number=3: is out of range"):
            repeated.repetition(3)
        with pytest.raises(sg.ArgumentError, match="is of a run without repeats"):
            run.repetition(0)


def test_without_arviz_the_error_says_what_to_install(fresh_python):
    code = """
import sys
sys.modules["arviz_base"] = None
import numpy as np, stalegrad as sg
run = sg.sample(
    sg.potentials.GaussianMean(np.zeros(3)), sg.SGLD(step_size=0.01), steps=4, engine="inline", progress=False
)
try:
    run.to_arviz()
except sg.MissingExtra as error:
    print(error)
"""
    done = fresh_python("-c", code)
    assert done.stdout.strip() == "to_arviz needs an optional dependency: pip install 'stalegrad[arviz]'", done.stderr
