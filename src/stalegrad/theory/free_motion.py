"""Kinetic Langevin motion without a force, dθ = q dt, dq = −Bq dt + √(2BT) dW: its exact law over a time t."""

from math import exp, expm1, sqrt, tanh

_SMALL = 0.05  # below it x − tanh x is taken from its series, which is good to 1e-12 there; above it no digits are lost


def flow_coefficients(friction: float, t: float, temperature: float) -> tuple[float, ...]:
    """keep, drift, sigma, along and across of U over the time t.

    With η = e^{−Bt}: q ← η q + √(T(1−η²)) z and θ ← θ + q(1−η)/B + noise. The noise of θ has the covariance T(1−η)²/B
    with that of q and the variance T(2Bt − 3 + 4η − η²)/B². So it is √T (1−η) √tanh(Bt/2)/B times z, and what is left
    has the variance T(2Bt − 4 tanh(Bt/2))/B², of a second normal.
    """
    x, lost, root = friction * t / 2, -expm1(-friction * t), sqrt(temperature)
    sigma, along = root * sqrt(-expm1(-2 * friction * t)), root * lost * sqrt(tanh(x)) / friction
    return exp(-friction * t), lost / friction, sigma, along, 2 * root * sqrt(_x_minus_tanh(x)) / friction


def _x_minus_tanh(x: float) -> float:
    if x > _SMALL:
        return x - tanh(x)
    s = x * x
    return x * s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * 62 / 2835)))
