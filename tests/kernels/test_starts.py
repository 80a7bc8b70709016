"""How chains start where a sampler draws more than a momentum: its normals are all different ones."""

import numpy as np

from stalegrad.kernels import UBU, Address
from stalegrad.kernels.noise import Stream, normals
from stalegrad.theory.free_motion import flow_coefficients


def test_ubu_starts_with_half_a_step_of_free_motion():
    """θ + drift q + along z + across y and keep q + σ z, with q, z and y of three streams."""
    theta, address, temperature = np.linspace(-1, 1, 300)[None], Address(7, 3, 0), 2.0
    q, z, y = (
        normals(np.empty_like(theta), address.seed, stream, address.chain, address.update)
        for stream in (Stream.START, Stream.START_2, Stream.START_3)
    )
    q *= np.sqrt(temperature)
    state = UBU(step_size=0.5, friction=1.5, temperature=temperature).start(theta.copy(), address)
    keep, drift, sigma, along, across = flow_coefficients(1.5, 0.25, temperature)
    np.testing.assert_allclose(state.point, theta + drift * q + along * z + across * y, rtol=1e-12)
    np.testing.assert_allclose(state.momentum, keep * q + sigma * z, rtol=1e-12)
    np.testing.assert_array_equal(state.position, theta)
