"""Many updates of a model in JAX as one program: near to single calls, and the same bits however a run is cut."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal.errors import GradientError
from stalegrad.engines.simulation import LogNormal
from stalegrad.kernels import Kernel, Update
from stalegrad.kernels.noise import Stream, normals, normals_of_updates
from stalegrad.potentials import ControlVariates, from_jax
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol import executor as executors
from stalegrad.protocol.architectures import StaleGradients

jnp = jax.numpy

_rng = np.random.default_rng(5)
X, Y = _rng.normal(size=(60, 3)).astype(np.float32), _rng.integers(2, size=60).astype(np.float32)


def log_prior(theta):
    return -0.5 * jnp.vdot(theta, theta)


def log_likelihood(theta, datum):
    x, y = datum
    return y * (x @ theta) - jax.nn.softplus(x @ theta)


MODEL = from_jax(log_prior, log_likelihood, (X, Y), jnp.zeros(3), batch_size=7)
KERNEL = sg.SGHMC(step_size=2e-2, friction=5.0)


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch):
    monkeypatch.setattr(executors, "WORTH_A_SCAN", 1)


def run(model=MODEL, kernel=KERNEL, *, scanned=True, **settings):
    """A run that is known to have been made by programs of many updates, or not."""
    made = sg.sample(
        model, kernel, **{"steps": 150, "workers": 3, "engine": "inline", "progress": False, "seed": 11} | settings
    )
    for chain in made.trace.chains:
        assert np.all(chain.updates().scanned == scanned)
    return made


def one_by_one(trace):
    """The trace, to be executed with a call for every gradient."""
    return replace(trace, chains=tuple(replace(c, scanned=np.zeros(len(c), np.int8)) for c in trace.chains))


def assert_near(ours, theirs):
    np.testing.assert_allclose(ours.draws, theirs.draws, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.stats.gradient_norm, theirs.stats.gradient_norm, rtol=1e-3)
    np.testing.assert_allclose(ours.stats.kinetic_temperature, theirs.stats.kinetic_temperature, rtol=1e-3, atol=1e-6)


def assert_replays(made, model=MODEL, kernel=None):
    again = sg.replay(made.trace, model, kernel)
    np.testing.assert_array_equal(again.draws, made.draws)
    np.testing.assert_array_equal(again.stats.gradient_norm, made.stats.gradient_norm)


def check(model=MODEL, kernel=KERNEL, **settings):
    """Near to single calls, and bit for bit its own replay."""
    made = run(model, kernel, **settings)
    assert_near(made, sg.replay(one_by_one(made.trace), model, kernel))
    assert_replays(made, model, kernel)
    return made


def test_normals_of_many_updates_are_those_of_each():
    streams = np.array([int(Stream.UPDATE), int(Stream.UPDATE_2)])
    many = np.empty((5, 2, 300), np.float32)
    normals_of_updates(many, 2**64 - 3, streams, 4, 6, 1000)
    for update in range(5):
        for k, stream in enumerate(streams):
            (one,) = normals(np.empty((1, 300), np.float32), 2**64 - 3, stream, 4, 1000 + update, first_repeat=6)
            np.testing.assert_array_equal(many[update, k], one)


def test_fresh_gradients_and_thinning():
    check(kernel=sg.SGLD(step_size=1e-3), workers=1, burn_in=13, thin=4)


def test_eight_simulated_workers_two_chains_and_a_schedule():
    kernel = sg.SGLD(step_size=sg.schedules.Polynomial(2e-3, 5.0, 0.4))
    engine = sg.engines.Inline(compute=LogNormal(1.0, 0.7))
    made = check(kernel=kernel, workers=8, servers=2, engine=engine)
    assert made.trace.chains[0].staleness.max() > 8  # beyond the smallest ring, so that the run had to enlarge it


@pytest.mark.long
def test_dropped_gradients():
    made = check(workers=5, max_staleness=4, engine=sg.engines.Inline(compute=LogNormal(1.0, 0.7)))
    assert made.trace.chains[0].steps < len(made.trace.chains[0])


def test_all_data_in_order():
    check(from_jax(log_prior, log_likelihood, (X, Y), jnp.zeros(3)))


KERNELS = {
    "splitting": sg.SGHMC(step_size=2e-2, friction=5.0, integrator="splitting"),
    "shared thermostat": sg.SGNHT(step_size=2e-2, noise=5.0),
    "psgld": sg.PSGLD(step_size=1e-3),
    "baoab": sg.BAOAB(step_size=sg.schedules.Polynomial(2e-2, 1.0, 0.3), friction=5.0),
    "harmonic": sg.Harmonic(step_size=2e-2, friction=5.0, curvature=30.0),
    "ubu": sg.UBU(step_size=2e-2, friction=5.0),
    "cold": sg.SGHMC(step_size=2e-2, friction=5.0, temperature=0.0),
}


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_kernels(kernel):
    check(kernel=kernel)


CENTRE = np.array([0.3, 0.1, -0.2], np.float32)
DENSE = Coordinates(CENTRE, factor=np.triu(_rng.normal(size=(3, 3)) * 0.1 + 0.2 * np.eye(3)).astype(np.float32))
DIAGONAL = Coordinates(CENTRE, scale=np.array([0.1, 0.2, 0.3], np.float32))
DIRECTIONS = Coordinates(
    CENTRE, scale=DIAGONAL.scale, basis=np.array([[0.6, 0.8, 0.0]], np.float32), stretch=np.array([2.0], np.float32)
)
WRAPPED = {
    "control variates": ControlVariates(MODEL, CENTRE),
    "dense": InCoordinates(MODEL, replace(DENSE, anchor_gradient=MODEL.full_gradient(CENTRE))),
    "diagonal": InCoordinates(MODEL, DIAGONAL),
    "low rank": InCoordinates(MODEL, DIRECTIONS),
}


@pytest.mark.parametrize("model", ["dense", pytest.param("control variates", marks=pytest.mark.long),
                                   pytest.param("diagonal", marks=pytest.mark.long),
                                   pytest.param("low rank", marks=pytest.mark.long)])  # fmt: skip
def test_wrappers(model):
    check(WRAPPED[model])


ARCHITECTURES = {
    "number": StaleGradients(linear=1.0),
    "low rank": StaleGradients(linear=sg.LowRank(0.5, np.array([[1.0], [2.0], [0.0]]))),
    "matrix": StaleGradients(linear=np.diag([1.0, 2.0, 3.0]) + 0.1),
    "ahead": StaleGradients(look_ahead="auto"),
    "both": StaleGradients(linear=[1.0, 2.0, 3.0], look_ahead=2, course="expected"),
    "turning": StaleGradients(linear=1.0, look_ahead="auto", course="turning"),
    "tamed": StaleGradients(linear=1.0, look_ahead="auto", tame=0.05),
}


@pytest.mark.long
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_architectures(architecture):
    check(architecture=architecture)


def test_cuts_do_not_change_bits():
    """In pieces of many lengths, through an executor of its own."""
    whole = run(workers=4)
    trace = replace(whole.trace.chains[0], step_size=None, time=None)
    from stalegrad.protocol.chain import Chain
    from stalegrad.protocol.draws import Thinning
    from stalegrad.runs.recorders.memory import Recorder

    recorder = Recorder(None, 1, 150, Thinning(), MODEL)
    executor = executors.Executor(trace, MODEL, Chain(KERNEL, MODEL.initial()[None], seed=11, chain=0), recorder.of(0))
    for piece in (1, 2, 3, 50, 1, None):
        executor.advance(piece)
    np.testing.assert_array_equal(recorder.draws, whole.draws)
    np.testing.assert_array_equal(executor.trace.step_size, whole.trace.chains[0].step_size)


@pytest.mark.parametrize("architecture", [None, pytest.param(ARCHITECTURES["both"], marks=pytest.mark.long)])
def test_resumed_runs_replay(tmp_path, architecture):
    """Stopped after 40 of 150 updates and resumed, with a cut that no call has made."""
    settings = {"workers": 3, "architecture": architecture, "store": tmp_path / "run"}
    run(steps=40, **settings)
    resumed = sg.resume(tmp_path / "run", MODEL, steps=150, progress=False)
    assert np.all(resumed.trace.chains[0].scanned == 1)
    assert_replays(resumed)
    np.testing.assert_array_equal(sg.load(tmp_path / "run").trace.chains[0].scanned, 1)


def test_engines_that_take_turns_replay(tmp_path):
    """Programs of many updates first, then threads, which ask for gradients one by one, then programs again."""
    run(steps=40, store=tmp_path / "run")
    sg.resume(tmp_path / "run", MODEL, steps=60, engine="threads", progress=False)
    resumed = sg.resume(tmp_path / "run", MODEL, steps=100, engine="inline", progress=False)
    assert resumed.trace.chains[0].updates().scanned.tolist() == [1] * 40 + [0] * 20 + [1] * 40
    assert_replays(resumed)
    resumed.trace.save(tmp_path / "trace.npz")
    np.testing.assert_array_equal(sg.replay(sg.Trace.load(tmp_path / "trace.npz"), MODEL).draws, resumed.draws)


def test_repetitions_are_runs_of_their_own():
    made = run()
    many = sg.replay(made.trace, MODEL, repeats=3)
    np.testing.assert_array_equal(many.draws[0], made.draws)
    other = sg.replay(made.trace, MODEL, repeats=1, first_repeat=2)
    np.testing.assert_array_equal(many.draws[2], other.draws[0])


def test_a_bad_gradient_is_refused_where_it_is():
    """The chain runs away along a potential that is infinite beyond 30: the same update is named."""

    def runaway(theta):
        return jnp.where(theta[0] > 30, jnp.inf, 1.0) * theta[0] * 400

    model = from_jax(runaway, log_likelihood, (X, Y), jnp.zeros(3), batch_size=7)
    kernel = sg.SGLD(step_size=1e-2)
    with pytest.raises(GradientError) as by_program:
        run(model, kernel)
    trace = sg.simulate(workers=3, steps=150, seed=11)
    with pytest.raises(GradientError) as one_at_a_time:
        sg.replay(one_by_one(trace), model, kernel)
    assert str(by_program.value).startswith(str(one_at_a_time.value))  # and then says how to go on
    assert "update" in str(by_program.value)


class State(NamedTuple):
    position: Any
    momentum: Any


def formula(theta, q, g, z, keep, h, sigma):
    q = keep * q - h * g + sigma * z
    return theta + h * q, q


@dataclass(frozen=True, kw_only=True)
class Own(Kernel):
    """A user's own sampler."""

    updates = Update(State, formula)

    def start(self, position, address):
        return State(position, np.zeros_like(position))

    def coefficients(self, h, h_next):
        return 0.9, h, 0.4


class OneWay(NamedTuple):
    position: Any


def with_a_branch(theta, g, z, h):
    return theta - h * g + h * z if h > 0 else theta


@dataclass(frozen=True, kw_only=True)
class Branching(Kernel):
    """Its formula looks at a number, which JAX cannot follow."""

    updates = Update(OneWay, with_a_branch)

    def start(self, position, address):
        return OneWay(position)

    def coefficients(self, h, h_next):
        return (h,)


@dataclass(frozen=True, kw_only=True)
class OwnAdvance(Own):
    """It has its own idea of an update."""

    def advance(self, state, gradient, coefficients, address, split=None):
        state.position[...] = -gradient


@dataclass(frozen=True, kw_only=True)
class OwnInPython(Own):
    """The same sampler, whose point JAX is not asked to follow."""

    def point(self, state):
        return super().point(state)


@pytest.mark.long
def test_own_kernels():
    check(kernel=Own(step_size=1e-2))
    run(kernel=Branching(step_size=1e-3), scanned=False)
    run(kernel=OwnAdvance(step_size=1e-3), scanned=False)


def test_a_model_that_overrides_its_gradient_is_asked(monkeypatch):
    class Halved(type(MODEL)):
        def gradient(self, theta, indices):
            return super().gradient(theta, indices) / 2

    model = Halved(log_prior, log_likelihood, (X, Y), jnp.zeros(3), 7, "subset", None)
    run(model, scanned=False)
    assert ControlVariates(model, CENTRE).traced is None


def test_a_replay_that_cannot_have_the_same_bits_says_so():
    """And following what it says gives them: the model of the run, the kernel of the run."""
    made = run()

    class Followed(type(MODEL)):
        def gradient(self, theta, indices):
            return super().gradient(theta, indices)

    model = Followed(log_prior, log_likelihood, (X, Y), jnp.zeros(3), 7, "subset", None)
    with pytest.warns(
        UserWarning, match=r"chain 0: 150 updates of the trace .* JAX cannot follow .*\(Followed\)"
    ) as told:
        again = sg.replay(made.trace, model)
    assert len(told) == 1
    assert "give the model that made the trace" in str(told[0].message)
    assert_near(again, made)
    own = run(kernel=Own(step_size=1e-2))
    with pytest.warns(UserWarning, match="OwnInPython, the architecture or what is recorded needs Python"):
        sg.replay(own.trace, MODEL, OwnInPython(step_size=1e-2))
    assert_replays(made, MODEL)
    assert_replays(own, MODEL, Own(step_size=1e-2))


def test_short_runs_are_not_worth_a_program(monkeypatch):
    monkeypatch.setattr(executors, "WORTH_A_SCAN", 151)
    run(scanned=False)


def test_programs_are_made_once():
    model = from_jax(log_prior, log_likelihood, (X, Y), jnp.zeros(3), batch_size=7)
    run(model, workers=8)
    (program,) = model.traced.programs.values()
    run(model, workers=2, steps=20)
    assert list(model.traced.programs.values()) == [program]
    assert program._cache_size() == 1


@pytest.mark.long
def test_double_precision():
    jax.config.update("jax_enable_x64", True)
    try:
        model = from_jax(log_prior, log_likelihood, (X.astype(float), Y), np.zeros(3), batch_size=7)
        assert model.dtype == np.float64
        check(model, workers=8, architecture=StaleGradients(look_ahead="auto"))
    finally:
        jax.config.update("jax_enable_x64", False)


def test_models_of_numpyro():
    import numpyro
    from numpyro import distributions as dist

    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([3]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        with numpyro.plate("data", len(x), subsample_size=7) as batch:
            numpyro.sample("y", dist.Normal(x[batch] @ weights, scale), obs=y[batch])

    check(sg.potentials.from_numpyro(model, X, X @ np.float32([1, 2, 3])), sg.SGLD(step_size=1e-5))
