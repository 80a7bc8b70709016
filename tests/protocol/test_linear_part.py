"""A that is more than a number: a diagonal, a matrix, a few directions. Laws, bits, records and refusals."""

import json
import pickle

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad._internal.jit import compiled
from stalegrad.engines import Inline
from stalegrad.potentials import Linear
from stalegrad.protocol import executor
from stalegrad.protocol.architectures import architecture_from_table, architecture_table
from stalegrad.protocol.foresight import ForesightChain
from stalegrad.protocol.linear_part import MOST_ENTRIES, LinearPart, add_linear
from stalegrad.testing import small_logistic
from stalegrad.theory import Direction

FALSE_ALARM = 1e-6
SIZE = 6
FACTOR = np.random.default_rng(5).normal(size=(SIZE, 2)) * [3.0, 1.5]
SCALES = np.sqrt(np.array([0.5, 1.0, 3.0, 8.0, 15.0, 24.0]))
FORMS = {
    "diagonal": 1 + SCALES**2,
    "dense": np.eye(SIZE) + FACTOR @ FACTOR.T,
    "low rank": sg.LowRank(1.0, FACTOR),
}


def gaussian(form, dtype=np.float64):
    """A Gaussian around 0 whose Hessian is that of the form."""
    rows = np.diag(SCALES) if form == "diagonal" else FACTOR.T
    return Linear(rows, np.zeros(len(rows)), dtype=np.dtype(dtype))


def relative_variances(form, architecture, kernel, staleness=16, repeats=64):
    """Σ over directions of their mean square over that of a fresh chain, by the number of directions; a run each."""
    hessian = LinearPart.of(FORMS[form])
    curvatures, directions = np.linalg.eigh(np.array([hessian.times(e) for e in np.eye(SIZE)]))
    h = float(kernel.schedule(0))
    fresh = np.array([kernel.recursion(h, 0, Direction(float(c))).variance for c in curvatures])
    trace = sg.Trace.constant_staleness(staleness, steps=1600)
    run = sg.replay(trace, gaussian(form), kernel, repeats=repeats, burn_in=400, thin=4, architecture=architecture)
    return ((run.draws[:, 0] @ directions) ** 2 / fresh).mean(axis=(1, 2))


class TestTheLaw:
    KERNELS = (sg.SGLD(step_size=0.004), sg.SGHMC(step_size=0.03, friction=6.0))

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("kernel", KERNELS, ids=["SGLD", "SGHMC"])
    def test_with_its_whole_hessian_owned_a_gaussian_is_sampled_as_with_fresh_gradients(self, form, kernel):
        found = relative_variances(form, sg.StaleGradients(linear=FORMS[form]), kernel)
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - 1) < stats.t.isf(FALSE_ALARM / 2, len(found) - 1) * error

    @pytest.mark.parametrize("kernel", KERNELS, ids=["SGLD", "SGHMC"])
    def test_a_plain_chain_would_have_been_caught(self, kernel):
        found = relative_variances("diagonal", sg.StaleGradients(), kernel)
        assert found.min() > 1.5  # of 64 runs


class TestTheBits:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_compiled_products_are_those_of_matrices(self, form, dtype):
        theta = np.random.default_rng(1).normal(size=(3, SIZE)).astype(dtype)
        part, out = LinearPart.of(FORMS[form]), np.ones((3, SIZE), dtype)
        add_linear(out, part.bound(np.dtype(dtype)), theta, -1)
        expected = 1 - np.array([part.times(row) for row in theta])
        np.testing.assert_allclose(out, expected, rtol=1e-4 if dtype == np.float32 else 1e-12)

    def test_code_that_calls_it_gets_the_bits_that_python_gets(self):
        @compiled
        def within(out, linear, theta):
            add_linear(out, linear, theta, -1)

        theta = np.random.default_rng(2).normal(size=(1, SIZE)).astype(np.float32)
        for form in FORMS.values():
            bound = LinearPart.of(form).bound(np.dtype(np.float32))
            one, other = np.ones((2, 1, SIZE), np.float32)
            add_linear(one, bound, theta, -1)
            within(other, bound, theta)
            np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize("form", ["dense", "low rank"])
    def test_replay_store_and_resume(self, form, tmp_path):
        model, kernel = gaussian(form, np.float32), sg.SGHMC(step_size=0.02, friction=5.0)
        architecture = sg.StaleGradients(linear=FORMS[form], look_ahead="auto")
        settings = {"workers": 3, "architecture": architecture, "progress": False}
        sg.sample(model, kernel, steps=40, engine="threads", store=tmp_path / "run", **settings)
        run = sg.resume(tmp_path / "run", model, steps=80, engine="inline", progress=False)
        assert run.trace.architecture == architecture
        assert run.trace.architecture != sg.StaleGradients(linear=FORMS["diagonal"], look_ahead="auto")
        run.trace.save(tmp_path / "trace.npz")
        trace = sg.Trace.load(tmp_path / "trace.npz")
        np.testing.assert_array_equal(sg.replay(trace, model, kernel).draws, np.asarray(run.draws))
        assert not np.array_equal(
            sg.replay(trace, model, kernel, architecture=sg.StaleGradients()).draws, np.asarray(run.draws)
        )

    @pytest.mark.long
    @pytest.mark.parametrize("form", FORMS)
    def test_in_compiled_blocks(self, form, monkeypatch):
        settings = {
            "steps": 150, "workers": 3, "engine": Inline(), "progress": False,
            "architecture": sg.StaleGradients(linear=FORMS[form]),
        }  # fmt: skip
        kernel, model = sg.SGLD(step_size=0.01), gaussian(form, np.float32)
        plain = sg.sample(model, kernel, **settings)
        used, real = [], executor.execute_block
        monkeypatch.setattr(executor, "execute_block", lambda *a: used.append(1) or real(*a))
        monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
        blocks = sg.sample(model, kernel, **settings)
        assert used
        np.testing.assert_array_equal(blocks.draws, plain.draws)

    def test_a_chain_out_of_a_pickle(self):
        kernel = sg.SGHMC(step_size=0.1, friction=2.0)
        chain = ForesightChain(
            kernel, np.ones((1, SIZE)), seed=1, chain=0, updates_ahead=2.0, linear=LinearPart.of(FORMS["low rank"])
        )
        chain.advance(np.ones((1, SIZE)))
        again = pickle.loads(pickle.dumps(chain))
        np.testing.assert_array_equal(again.point, chain.point)
        np.testing.assert_array_equal(again.weighted(np.ones((1, SIZE)), 0), chain.weighted(np.ones((1, SIZE)), 0))


class TestRecords:
    @pytest.mark.parametrize("linear", [0.0, 2.5, *FORMS.values(), sg.LowRank(SCALES, FACTOR)], ids=str)
    def test_tables_give_it_back_to_the_last_bit(self, linear):
        architecture = sg.StaleGradients(linear=linear, look_ahead=3.0, course="expected")
        table = json.loads(json.dumps(architecture_table(architecture)))
        assert architecture_from_table(table) == architecture
        assert hash(architecture_from_table(table)) == hash(architecture)

    def test_the_owned_curvature_along_a_direction(self):
        for form in FORMS.values():
            part, v = LinearPart.of(form), np.arange(1.0, SIZE + 1)
            assert sg.StaleGradients(linear=form).owned_along(v) == pytest.approx(v @ part.times(v))
        assert sg.StaleGradients().owned_along(np.ones(3)) == 0


@pytest.mark.parametrize(("linear", "warned"), [(0.0, True), (FORMS["dense"], False), (FORMS["low rank"], False)])
def test_diagnose_counts_what_is_owned_along_the_stiffest_direction(linear, warned):
    model, trace = gaussian("dense"), sg.Trace.constant_staleness(6, steps=4000)
    run = sg.replay(trace, model, sg.SGLD(step_size=0.002), burn_in=500, architecture=sg.StaleGradients(linear=linear))
    found = run.diagnose(model, kernel=sg.SGLD(step_size=0.002))
    assert ("staleness" in [finding.measurement.name for finding in found]) == warned


class TestRefusals:
    @pytest.mark.parametrize(
        ("linear", "problem"),
        [
            (-1.0, "linear"),
            ([1.0, -2.0], "below 0"),
            ([[1.0, 2.0]], "not square"),
            ([[1.0, 2.0], [0.0, 1.0]], "not symmetric"),
            ([[1.0, 2.0], [2.0, 1.0]], "curves downwards"),
            ([1.0, float("nan")], "NaN"),
            (np.ones((2, 2, 2)), "not square"),
            (sg.LowRank(1.0, np.ones(3)), "2 dimensions"),
            (sg.LowRank([1.0, 2.0], np.ones((3, 1))), "3, 1"),
            (sg.LowRank(-1.0, np.ones((3, 1))), "below 0"),
            (np.zeros((501, 501)), f"{MOST_ENTRIES:,}"),
            ("much", "linear"),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_what_is_no_curvature(self, linear, problem):
        with pytest.raises(sg.ArgumentError, match=r"^linear") as raised:
            sg.StaleGradients(linear=linear)
        assert problem in str(raised.value)

    def test_one_of_another_size_than_the_model(self):
        with pytest.raises(sg.ArgumentError, match=r"linear.*for 6 parameters, and the model has 3"):
            sg.sample(
                small_logistic(), sg.SGLD(step_size=0.001), steps=10, progress=False,
                architecture=sg.StaleGradients(linear=FORMS["dense"]),
            )  # fmt: skip

    @pytest.mark.parametrize("table", [{"diagonal": 1.0}, {"factor": [[1.0]], "rank": 1}])
    def test_a_table_that_is_not_complete(self, table):
        with pytest.raises(sg.ArgumentError, match="linear"):
            architecture_from_table({"name": "StaleGradients", "linear": table})

    def test_an_unknown_course(self):
        with pytest.raises(sg.ArgumentError, match="course"):
            sg.StaleGradients(look_ahead=1.0, course="crooked")
