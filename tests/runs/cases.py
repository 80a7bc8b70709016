"""Every sampler and kind of model, small; as a program, prints the digest of the draws of each."""

import hashlib
import json

import numpy as np

import stalegrad as sg
from stalegrad.engines import Inline
from stalegrad.engines.simulation import Exponential

N, SIZE = 40, 5
DATA = np.random.Generator(np.random.Philox(key=12)).standard_normal((N, SIZE))
RANDOM_ORDER = Inline(compute=Exponential(1.0), update=0.05)  # workers that overtake each other

KERNELS = {
    "SGLD": sg.SGLD(step_size=2e-3),
    "SGLD-schedule": sg.SGLD(step_size=sg.schedules.Polynomial(a=4e-3, gamma=0.4)),
    "SGHMC-euler": sg.SGHMC(step_size=0.02, friction=5.0),
    "SGHMC-splitting": sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting"),
    "SGHMC-splitting-schedule": sg.SGHMC(
        step_size=sg.schedules.Cyclical(peak=0.03, period=7, floor=0.005), friction=5.0, integrator="splitting"
    ),
    "SGNHT-shared-euler": sg.SGNHT(step_size=0.02, noise=2.0),
    "SGNHT-each-euler": sg.SGNHT(step_size=0.02, noise=2.0, thermostats="each"),
    "SGNHT-shared-splitting": sg.SGNHT(step_size=0.02, noise=2.0, integrator="splitting"),
    "SGNHT-each-splitting": sg.SGNHT(step_size=0.02, noise=2.0, thermostats="each", integrator="splitting"),
    "PSGLD": sg.PSGLD(step_size=1e-3),
    "PSGLD-divergence": sg.PSGLD(step_size=1e-3, divergence=True),
}


def sample(potential, kernel, **options):
    """Inline and silent, unless told otherwise."""
    return sg.sample(potential, kernel, **{"engine": "inline", "progress": False, **options})


def gaussian(dtype=np.float32, **options):
    return sg.potentials.GaussianMean(DATA, **{"batch_size": 4, "dtype": dtype, **options})


def gradient(theta, indices):
    """The same model as a plain function."""
    return theta + N * (theta - DATA[indices].mean(axis=0))


def from_gradient(dtype=np.float32):
    return sg.potentials.from_gradient(gradient, SIZE, N, batch_size=4, dtype=dtype, initial=np.full(SIZE, 0.5))


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def digests():
    return {
        f"{name}/{dtype.__name__}": digest(
            sample(gaussian(dtype), kernel, steps=100, workers=4, servers=2, seed=5, engine=RANDOM_ORDER).draws
        )
        for name, kernel in KERNELS.items()
        for dtype in (np.float32, np.float64)
    }


if __name__ == "__main__":
    print(json.dumps(digests()))
