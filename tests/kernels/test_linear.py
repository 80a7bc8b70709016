"""A sampler of one's own has its theory from its formula, and so everything that depends on it."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels import Linear, Update
from stalegrad.kernels.samplers import sghmc
from stalegrad.theory import Direction, stale_sghmc

DIRECTION = Direction(curvature=3.0, noise=2.0, owned=1.0)
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def own(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_kernel

    yield own_kernel.ExactFriction
    sys.modules.pop("own_kernel", None)


@dataclass(frozen=True, kw_only=True)
class Borrowed(Linear):
    """The update of a sampler of stalegrad's, whose own recursion nobody has written down here."""

    of: Any = None

    def start(self, position, address):
        return self.of.start(position, address)

    def coefficients(self, h, h_next):
        return self.of.coefficients(h, h_next)


@pytest.mark.parametrize("staleness", [0, 3, [0.5, 0.2, 0.3]])
@pytest.mark.parametrize("integrator", ["euler", "splitting"])
def test_the_recursion_of_sghmc_from_its_formula(integrator, staleness):
    kernel = Borrowed(step_size=0.1, of=sghmc.SGHMC(step_size=0.1, friction=2.0, integrator=integrator))
    found = kernel.recursion(0.1, staleness, DIRECTION._replace(ahead=0.05))
    known = stale_sghmc(3.0, 0.1, 2.0, staleness, integrator=integrator, gradient_variance=2.0, owned=1.0, ahead=0.05)
    assert found.variance == pytest.approx(known.variance, rel=1e-9)
    assert found.spectral_radius == pytest.approx(known.spectral_radius, rel=1e-9)


def test_what_is_not_linear_is_refused():
    class State(NamedTuple):
        position: Any

    @dataclass(frozen=True, kw_only=True)
    class Curved(Linear):
        updates = Update(State, lambda theta, g, z, h, sigma: theta - h * g * g + sigma * z)

        def start(self, position, address):
            return State(position)

        def coefficients(self, h, h_next):
            return h, (2 * h) ** 0.5

    with pytest.raises(sg.ArgumentError, match=r"Curved.*is not linear"):
        Curved(step_size=0.1).recursion(0.1, 0, DIRECTION)


@pytest.mark.long
def test_auto_finds_a_step_for_a_sampler_of_ones_own(own):
    model = sg.potentials.GaussianMean(np.random.default_rng(0).normal(size=(200, 3)), batch_size=200)
    run = sg.sample(model, own(friction=2.0), steps=4000, workers=2, engine="inline", progress=False)
    assert run.warmup is not None
    mean, variance = model.posterior()
    np.testing.assert_allclose(run.draws.mean((0, 1)), mean, atol=6 * np.sqrt(variance / 300).max())
    np.testing.assert_allclose(run.draws.var((0, 1)), variance, rtol=0.35)
    assert "step size" in {measured.name for measured in run.diagnose(model).measurements}


def test_a_job_file_names_it_and_leaves_the_step_to_be_found(own, tmp_path):
    (tmp_path / "job.toml").write_text(
        'model = {function = "stalegrad.datasets.models:gaussian", arguments = {n_data = 40, batch_size = 40}}\n'
        'steps = 500\nengine = "inline"\n[kernel]\nname = "own_kernel:ExactFriction"\nfriction = 2.0\n'
    )
    from stalegrad.runs.jobs import JobFile

    job = JobFile.read(tmp_path / "job.toml")
    potential = job.potential()
    run = sg.sample(potential, **job.arguments(potential), progress=False)
    assert run.trace.record.kernels[0]["name"] == "own_kernel:ExactFriction"
    assert run.trace.record.kernels[0]["step_size"] > 0
