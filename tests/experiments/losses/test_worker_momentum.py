"""Momenta of workers."""

import numpy as np
from numpy.testing import assert_allclose

import stalegrad as sg
from stalegrad.experiments.losses.worker_momentum import WorkerMomentum
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Each


def test_momenta_of_workers_are_their_own():
    """v_w ← m v_w + g of worker w, and θ ← θ − h v_w."""
    kernel = sg.SGLD(step_size=0.1, temperature=0.0)
    chain = WorkerMomentum(0.5).chain(kernel, Place(np.zeros((1, 2)), 0, 0), workers=2)
    velocity, theta = np.zeros((2, 2)), np.zeros(2)
    for step, worker in enumerate((0, 1, 0, 0, 1)):
        gradient = np.array([1.0 + step, -2.0])
        chain.apply(gradient[None].copy(), worker, Each(lambda *update: None))
        velocity[worker] = 0.5 * velocity[worker] + gradient
        theta -= 0.1 * velocity[worker]
    assert_allclose(chain.position[0], theta)
    assert_allclose(chain.snapshot()["velocities"][:, 0], velocity)
