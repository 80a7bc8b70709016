"""The public conformance suite, every kernel and many models, in compiled loops."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Threads
from stalegrad.potentials import GaussianMean, Linear, Logistic, Softmax, control_variates
from stalegrad.potentials.wrappers.whitened import Whitened
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.testing import KERNELS, check_engine, check_replay

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("compiled")]

_rng = np.random.default_rng(5)
X = _rng.normal(size=(60, 3))
MODELS = {
    "logistic": Logistic(X, _rng.integers(2, size=60), batch_size=7, intercept=True),
    "softmax": Softmax(X, _rng.integers(3, size=60), batch_size=7, dtype=np.float64),
    "linear": Linear(X, _rng.normal(size=60), batch_size=7),
    "reshuffled": GaussianMean(X, batch_size=7, scheme="reshuffle"),
}
MODELS["whitened"] = Whitened(MODELS["linear"], np.array([0.3, 0.1, -0.2]), np.linalg.cholesky(9 * np.eye(3) + 1))
MODELS["anchored"] = control_variates(MODELS["logistic"], np.full(4, 0.5, np.float32))


def test_keeps_every_promise(in_compiled_loops):
    check_engine(Threads(), workers=(1, 4, 64))
    assert len(in_compiled_loops) >= 15


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_kernel(in_compiled_loops, kernel):
    """Those that compiled loops cannot update go the other way, and keep the same promises."""
    check_replay(Threads(), kernel, servers=2, workers=4, steps=300)


@pytest.mark.parametrize("name", MODELS)
def test_every_model(in_compiled_loops, name):
    model, kernel = MODELS[name], sg.SGLD(step_size=1e-4)
    run = sg.sample(model, kernel, steps=2000, workers=5, seed=3, engine="threads", progress=False)
    assert in_compiled_loops
    assert run.trace.chains[0].applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, model, kernel).draws, run.draws)


@pytest.mark.parametrize("step_size", [2e-2, sg.schedules.Polynomial(2e-2, 1.0, 0.3)], ids=["constant", "schedule"])
def test_a_server_that_owns_the_linear_part_and_looks_ahead(in_compiled_loops, step_size):
    model, kernel = MODELS["linear"], sg.SGHMC(step_size=step_size, friction=5.0)
    architecture = StaleGradients(linear=20.0, look_ahead="auto", tame=0.1)
    run = sg.sample(
        model, kernel, steps=2000, workers=5, seed=3, engine="threads", architecture=architecture, progress=False
    )
    assert in_compiled_loops
    np.testing.assert_array_equal(sg.replay(run.trace, model, kernel).draws, run.draws)
    plain = sg.replay(run.trace, model, kernel, architecture=StaleGradients())
    assert not np.array_equal(plain.draws, run.draws)
