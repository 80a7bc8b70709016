"""A linear model whose posterior is a Gaussian with curvatures from 10 to 40, and runs on it."""

import numpy as np

import stalegrad as sg

N, SIZE = 200, 6
CURVATURES = np.linspace(10.0, 40.0, SIZE)
STIFFEST = CURVATURES[-1]

_random = np.random.Generator(np.random.Philox(key=5))
_X = np.linalg.qr(_random.standard_normal((N, SIZE)))[0] * np.sqrt(CURVATURES - 1)  # the prior adds 1
_Y = _X @ _random.standard_normal(SIZE) + _random.standard_normal(N)


def linear(batch_size=None, **options):
    return sg.potentials.Linear(_X, _Y, batch_size=batch_size, **options)


def sampled(kernel, batch_size=None, *, steps=8000, servers=2, seed=3, **options):
    """Inline and silent; two chains, an eighth burnt in, every fourth update kept."""
    options = {"burn_in": steps // 8, "thin": 4, "engine": "inline", "progress": False, **options}
    return sg.sample(linear(batch_size), kernel, steps=steps, servers=servers, seed=seed, **options)


def sgld(h_curvature):
    """By hλ of the stiffest direction."""
    return sg.SGLD(step_size=h_curvature / STIFFEST)


def sghmc(h_frequency, friction, integrator="euler"):
    """By h√λ of the stiffest direction."""
    return sg.SGHMC(step_size=h_frequency / np.sqrt(STIFFEST), friction=friction, integrator=integrator)


def sgnht(h_frequency, noise, integrator="euler", thermostats="shared"):
    step_size = h_frequency / np.sqrt(STIFFEST)
    return sg.SGNHT(step_size=step_size, noise=noise, integrator=integrator, thermostats=thermostats)


def psgld(step_size):
    return sg.PSGLD(step_size=step_size, decay=0.999, floor=1e-3)
