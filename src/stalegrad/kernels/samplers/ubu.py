"""UBU: kicks between exact pieces of free kinetic Langevin motion (Sanz-Serna and Zygalakis, JMLR 2021)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stalegrad._internal.jit import jitable
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, initial_momentum, start_normals
from stalegrad.kernels.families import Kinetic
from stalegrad.kernels.fused import Update
from stalegrad.kernels.noise import Stream
from stalegrad.theory import Direction, LinearRecursion, Staleness, stale_ubu
from stalegrad.theory.free_motion import flow_coefficients


@jitable
def flow(theta: Any, q: Any, z: Any, y: Any, keep: Any, drift: Any, sigma: Any, along: Any, across: Any) -> Any:
    """U: dθ = q dt, dq = −Bq dt + √(2BT) dW, solved exactly with two normals; see :func:`flow_coefficients`."""
    return theta + drift * q + along * z + across * y, keep * q + sigma * z


def formula(
    _: Any, q: Any, point: Any, g: Any, z: Any, y: Any, x: Any, w: Any, h: Any,
    keep: Any, drift: Any, sigma: Any, along: Any, across: Any,
    keep_next: Any, drift_next: Any, sigma_next: Any, along_next: Any, across_next: Any,
) -> Any:  # fmt: skip
    """q ← q − h g at the point, then U over h/2 to θ and over h'/2, half the next step, to the next point."""
    theta, q = flow(point, q - h * g, z, y, keep, drift, sigma, along, across)
    point, q = flow(theta, q, x, w, keep_next, drift_next, sigma_next, along_next, across_next)
    return theta, q, point


class State(NamedTuple):
    """What a UBU chain carries: θ, and half a step further on the point of the gradient with the momentum there."""

    position: Any
    momentum: Any
    point: Any


@dataclass(frozen=True, kw_only=True)
class UBU(Kinetic):
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

    order: ClassVar[int] = 2
    n_normals: ClassVar[int] = 4
    updates = Update(State, formula)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One, as it has a single form."""
        return (cls(step_size=0.02, friction=5.0),)

    def start(self, position: Array, address: Address) -> State:
        """θ, and where half a step of U leads from there with q ~ N(0, T I)."""
        half = float(self.schedule(address.update)) / 2
        c = np.array(flow_coefficients(self.damping, half, self.temperature), position.dtype)
        z, y = (start_normals(position, address, stream) for stream in (Stream.START_2, Stream.START_3))
        point, momentum = flow(position, initial_momentum(position, self.temperature, address), z, y, *c)
        return State(position, momentum, point)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, and those of U over h/2 and over h'/2."""
        halves = [flow_coefficients(self.damping, step / 2, self.temperature) for step in (h, h_next)]
        return h, *halves[0], *halves[1]

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """The exact law of UBU, whatever h is."""
        return self.along(direction, stale_ubu, h, staleness)
