"""Whitened coordinates: θ = c + Sz with S = L⁻ᵀ, and gradients by the chain rule."""

import numpy as np

import stalegrad as sg
from stalegrad.potentials.wrappers.whitened import Whitened

FACTOR = np.array([[2.0, 0.0, 0.0], [0.5, 1.5, 0.0], [-0.3, 0.2, 3.0]])
CENTRE = np.array([0.3, -1.0, 2.0])


def test_points_and_gradients():
    random = np.random.Generator(np.random.Philox(4))
    model = sg.potentials.Linear(random.standard_normal((20, 3)), random.standard_normal(20), dtype=np.float64)
    whitened, spread = Whitened(model, CENTRE, FACTOR), np.linalg.inv(FACTOR).T
    z, rows = random.standard_normal((2, 3)), np.array([[1, 5], [7, 2]])
    theta = CENTRE + z @ spread.T
    np.testing.assert_allclose(whitened.original(z), theta, rtol=1e-12)
    out = np.empty_like(z)
    whitened.gradients(z, rows, out)
    for k in range(2):
        expected = spread.T @ model.gradient(theta[k], rows[k])
        np.testing.assert_allclose(out[k], expected, rtol=1e-11)
        np.testing.assert_allclose(whitened.gradient(z[k], rows[k]), expected, rtol=1e-11)
