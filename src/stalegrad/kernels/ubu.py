"""UBU: kicks between exact pieces of free kinetic Langevin motion (Sanz-Serna and Zygalakis, JMLR 2021)."""

from dataclasses import dataclass
from math import exp, expm1, sqrt, tanh
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stalegrad.checks import real_number
from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, initial_momentum, start_normals, updates_with, whole
from stalegrad.noise import TILE, Stream, fill_tile, normals, scratch
from stalegrad.types import Array

STREAMS = (Stream.UPDATE, Stream.UPDATE_2, Stream.UPDATE_3, Stream.UPDATE_4)
"""Of the four normals that an update takes for a coordinate."""

_SMALL = 0.05  # below it x − tanh x is taken from its series, which is good to 1e-12 there; above it no digits are lost


def flow(theta: Any, q: Any, z: Any, y: Any, keep: Any, drift: Any, sigma: Any, along: Any, across: Any) -> Any:
    """U: dθ = q dt, dq = −Bq dt + √(2BT) dW, solved exactly with two normals; see :func:`flow_coefficients`."""
    return theta + drift * q + along * z + across * y, keep * q + sigma * z


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


_flow = inlined(flow)


@compiled
def _fused(theta, q, point, g, c, seed, chain, first_repeat, update, start, stop):  # type: ignore[no-untyped-def]
    z, words = scratch(theta)
    y = np.empty_like(z)
    h = c[0]
    keep, drift, sigma, along, across = c[1], c[2], c[3], c[4], c[5]
    keep_next, drift_next, sigma_next, along_next, across_next = c[6], c[7], c[8], c[9], c[10]
    for r in range(theta.shape[0]):
        repeat = first_repeat + r
        for low in range(start, stop, TILE):
            n, tile = min(TILE, stop - low), low // TILE
            t, p, d = theta[r, low : low + n], q[r, low : low + n], g[r, low : low + n]
            x = point[r, low : low + n]
            fill_tile(z, words, seed, Stream.UPDATE, chain, repeat, update, tile, n)
            fill_tile(y, words, seed, Stream.UPDATE_2, chain, repeat, update, tile, n)
            for i in range(n):
                t[i], p[i] = _flow(x[i], p[i] - h * d[i], z[i], y[i], keep, drift, sigma, along, across)
            fill_tile(z, words, seed, Stream.UPDATE_3, chain, repeat, update, tile, n)
            fill_tile(y, words, seed, Stream.UPDATE_4, chain, repeat, update, tile, n)
            for i in range(n):
                x[i], p[i] = _flow(
                    t[i], p[i], z[i], y[i], keep_next, drift_next, sigma_next, along_next, across_next
                )  # fmt: skip


class State(NamedTuple):
    """What a UBU chain carries: θ, and half a step further on the point of the gradient with the momentum there."""

    position: Any
    momentum: Any
    point: Any


@updates_with(State)
def _update(state: Any) -> Any:
    def update(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
        theta, q, x = state.position, state.momentum, state.point
        _fused(theta, q, x, gradient, coefficients, seed, chain, first_repeat, number, 0, theta.shape[1])

    return update


@dataclass(frozen=True, kw_only=True)
class UBU(Kernel):
    r"""Underdamped Langevin dynamics with friction B, whose only error is that the force stands still for a step.

    A step is U(h/2) B(h) U(h/2), order K = 2, where U is the exact solution of the motion without force

    .. math:: dθ = q\,dt,\quad dq = −B\,q\,dt + \sqrt{2BT}\,dW

    and B the kick :math:`q ← q − h\,g`, with the gradient at the point between the two halves of U. An update goes from
    one such point to the next, and the position that it leaves behind is the one between two steps. The momentum in the
    state is the one at the point.

    Invariant law as h → 0: p(θ|D)^(1/T) · N(q; 0, T I). With one gradient an update its paths are of strong order 2,
    which is what it is chosen for in high dimensions. It takes four normals a coordinate where others take one, so its
    updates are dearer where gradients are cheap. Stale or noisy gradients cost it an error of order h.

    Args:
        step_size: h, a number or a schedule.
        friction: B.
        temperature: T, 1 for the posterior.

    >>> UBU(step_size=1e-2, friction=5.0).order
    2
    """

    friction: float

    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("friction", self.friction, above=0)

    def start(self, position: Array, address: Address) -> State:
        """θ, and where half a step of U leads from there with q ~ N(0, T I)."""
        half = float(self.schedule(address.update)) / 2
        c = np.array(flow_coefficients(self.friction, half, self.temperature), position.dtype)
        z, y = (start_normals(position, address, stream) for stream in (Stream.START_2, Stream.START_3))
        point, momentum = flow(position, initial_momentum(position, self.temperature, address), z, y, *c)
        return State(position, momentum, point)

    def point(self, state: State) -> Any:
        """The end of the first half of U."""
        return state.point

    def noise_at(self, state: State, address: Address) -> Array:
        """Four normals a coordinate, of shape (4, R, n)."""
        seed, chain, update, repeat = address
        drawn = [
            normals(np.empty_like(state.position), seed, stream, chain, update, first_repeat=repeat)
            for stream in STREAMS
        ]
        return np.stack(drawn)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, and those of U over h/2 and over h'/2."""
        halves = [flow_coefficients(self.friction, step / 2, self.temperature) for step in (h, h_next)]
        return h, *halves[0], *halves[1]

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays; ``noise`` has four of them."""
        c = self.coefficients(h, h if h_next is None else h_next)
        theta, q = flow(state.point, state.momentum - h * gradient, noise[0], noise[1], *c[1:6])
        point, q = flow(theta, q, noise[2], noise[3], *c[6:])
        return State(theta, q, point)

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place."""
        theta, q, point = state
        seed, chain, update, repeat = address
        split(
            lambda start, stop: _fused(
                theta, q, point, gradient, coefficients, seed, chain, repeat, update, start, stop
            ),
            theta.shape[1],
        )  # fmt: skip
