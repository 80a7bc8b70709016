"""The largest curvature of the potential at some draws and of their average, from differences of gradients."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import whole_number
from stalegrad.potentials import Potential

_MOST_ITERATIONS = 20
_FEWEST_ITERATIONS = 6
_ROUGHLY = 3  # iterations for a direction on average: more of them fit the few draws that there are
_MOST_BYTES = 1 << 29  # of iterates
_LEAST = 2 * (_FEWEST_ITERATIONS + 1)  # gradients: one minibatch to find the direction, one to measure along it
_FIRST_COUNT = 1_000_000  # minibatches from here on are nobody else's

Product = Callable[[Array], Array]
"""v ↦ ∇²U v."""


class Curvature(NamedTuple):
    """The largest eigenvalue of ∇²U."""

    value: float
    """Mean over the points."""
    points: Array
    """At each of them, (point,)."""
    direction: Array
    """Of the last point, of length 1: where the posterior is narrowest."""
    data: int
    """How many data each value rests on."""


class AverageCurvature(NamedTuple):
    """The largest eigenvalue of E ∇²U."""

    value: float
    error: float
    """Its standard error."""
    direction: Array
    """Of length 1."""


def largest_curvature(
    potential: Potential,
    points: Array,
    *,
    scale: Array | float = 1.0,
    start: Array | None = None,
    gradients: int = 256,
    seed: int = 0,
) -> Curvature:
    """λ_max of the Hessian of U at some points, by Lanczos' method on differences of gradients.

    ∇²U v ≈ (g̃(θ + εv) − g̃(θ − εv)) / 2ε on the same data. For |v| = 1, ε = ∛u · |θ| with u the machine precision, where
    what rounding and what higher derivatives do to the difference are usually in balance; but it is kept between ∛u w
    and w = 1/√|∇²U v|, about the width of the posterior, and above u^{2/3} |θ|, where rounding of θ costs a hundredth.
    That works in float32. Lanczos' method is the power iteration that keeps all its iterates: as many gradients, and
    the best value in the space that they span. It is the curvature along a direction, hence never more than λ_max but
    for rounding.

    Data: all of them if ``gradients`` allows. If not, the Hessian of a part of the data would have too large a largest
    eigenvalue, the more so the fewer data. So the direction comes from one half of the minibatches that can be afforded
    and the curvature along it from the other half: unbiased for that direction, and so not above λ_max on average.

    Args:
        potential: the model.
        points: where to measure, (point, n).
        scale: √G, for the largest eigenvalue of √G ∇²U √G in place of ∇²U; a number or n of them.
        start: a first guess at the direction. A difference of gradients at two draws is a good one; without it, random.
        gradients: how many gradients of the model's minibatch size may be computed, at least 14.
        seed: of the minibatches and the random start.

    >>> from stalegrad.potentials import from_gradient
    >>> bowl = from_gradient(lambda theta, indices: theta * [1.0, 5.0, 25.0], size=3, n_data=1, dtype=np.float64)
    >>> largest_curvature(bowl, np.ones((1, 3))).value
    25.0
    """
    points = np.atleast_2d(np.asarray(points))
    if points.ndim != 2 or points.shape[1] != potential.size or not np.isfinite(points).all():
        remedy = f"Give finite numbers, (point, {potential.size})."
        raise ArgumentError("points", points, f"has shape {points.shape}, or is not finite", remedy)
    gradients = whole_number("gradients", gradients, least=_LEAST)
    plan = _plan(potential, gradients, seed)
    points = points[-max(1, gradients // plan.cost) :]
    if start is None or not np.linalg.norm(start) > 0:
        start = np.random.Generator(np.random.Philox(key=seed)).standard_normal(potential.size)
    values, direction = [], start
    for theta in points:
        value, direction = _lanczos(_product(potential, theta, plan.fitted, scale), start, plan.iterations)
        if plan.held_out:
            value = float(direction @ _product(potential, theta, plan.held_out, scale)(direction))
        values.append(value)
    data = sum(map(len, plan.held_out or plan.fitted))
    return Curvature(float(np.mean(values)), np.array(values), direction, data)


def average_curvature(
    potential: Potential, points: Array, *, scale: Array | float = 1.0, gradients: int = 128, seed: int = 0
) -> AverageCurvature:
    """The largest eigenvalue of E ∇²U, the Hessian averaged over draws and data.

    That is what the law of θ along a direction knows of curvature to first order: by Stein's lemma the force on a
    normal θ acts on its variance as a linear one with the average slope would. At a single draw some direction is
    always flatter and some steeper than that, and the more so on a part of the data.

    Every minibatch is taken at a draw of its own. One half of what may be spent finds the direction, the other half
    measures along it: the value is unbiased for that direction, and how much its parts differ gives its standard error.

    Args:
        potential: the model.
        points: draws, (point, n), in any order, of which as many are used as can be afforded.
        scale: √G, as in :func:`largest_curvature`.
        gradients: how many gradients of the model's minibatch size may be computed, at least 32.
        seed: of the minibatches and the random start.

    >>> from stalegrad.potentials import from_gradient
    >>> cubic = from_gradient(lambda theta, indices: theta**3, size=1, n_data=1, dtype=np.float64)
    >>> average_curvature(cubic, np.array([[1.0], [-1.0], [2.0], [-2.0]])).value  # of 3θ²
    7.5
    """
    gradients = whole_number("gradients", gradients, least=32)
    iterations = min(potential.size, _ROUGHLY)
    fitted = max(1, gradients // (4 * iterations))
    held_out = max(2, gradients // 2 - fitted * iterations)
    minibatches = potential.minibatches

    def products(first: int, count: int) -> list[Product]:
        places = np.linspace(0, len(points) - 1, count).round().astype(int)
        return [
            _product(
                potential, points[place], [minibatches.draw_outside_run(seed, 3 * _FIRST_COUNT + first + k)], scale
            )
            for k, place in enumerate(places)
        ]

    parts = products(0, fitted)
    start = np.random.Generator(np.random.Philox(key=seed)).standard_normal(potential.size)
    _, direction = _lanczos(lambda v: np.mean([part(v) for part in parts], axis=0), start, iterations)
    values = [float(direction @ part(direction)) for part in products(fitted, held_out)]
    return AverageCurvature(float(np.mean(values)), float(np.std(values, ddof=1)) / held_out**0.5, direction)


def mean_curvature(potential: Potential, points: Array, *, gradients: int = 64, seed: int = 0) -> float:
    """tr ∇²U / n, averaged over some points, as the mean of zᵀ∇²U z/n for vectors z of random signs (Hutchinson 1989).

    Each vector takes two gradients, on a minibatch of its own. Its standard deviation is below √(2 Σλ²)/Σλ of the mean.

    Args:
        potential: the model.
        points: where to measure, (point, n).
        gradients: how many gradients may be computed, at least 2.
        seed: of the minibatches and the signs.

    >>> from stalegrad.potentials import from_gradient
    >>> bowl = from_gradient(lambda theta, indices: theta * [1.0, 5.0, 24.0], size=3, n_data=1, dtype=np.float64)
    >>> mean_curvature(bowl, np.ones((1, 3)))
    10.0
    """
    vectors = whole_number("gradients", gradients, least=2) // 2
    random = np.random.Generator(np.random.Philox(key=seed))
    values = []
    for k in range(vectors):
        signs = random.choice([-1.0, 1.0], size=potential.size)
        batch = potential.minibatches.draw_outside_run(seed, 2 * _FIRST_COUNT + k)
        values.append(signs @ _product(potential, points[k % len(points)], [batch], 1.0)(signs) / potential.size)
    return float(np.mean(values))


class _Plan(NamedTuple):
    """What is spent on a point."""

    fitted: list[IntArray]
    """Minibatches that give the direction."""
    held_out: list[IntArray]
    """Minibatches to measure along it; none if the others are all data."""
    iterations: int

    @property
    def cost(self) -> int:
        """Gradients."""
        return 2 * (self.iterations * len(self.fitted) + len(self.held_out))


def _plan(potential: Potential, gradients: int, seed: int) -> _Plan:
    """All data are cut into minibatches of the usual size, because a model compiled for that size need not be compiled
    again; what does not fill the last one is left out.
    """
    size, parts = potential.batch_size, potential.n_data // potential.batch_size
    room = max(_FEWEST_ITERATIONS, _MOST_BYTES // (8 * potential.size))
    enough, fewest = (min(potential.size, number) for number in (min(_MOST_ITERATIONS, room), _FEWEST_ITERATIONS))
    if 2 * parts * min(potential.size, 2 * fewest) <= gradients:
        order: IntArray = np.random.Generator(np.random.Philox(key=seed)).permutation(potential.n_data)
        batches = [order[k * size : (k + 1) * size] for k in range(parts)]
        return _Plan(batches, [], min(enough, gradients // (2 * parts)))
    count = gradients // (2 * (fewest + 1))
    batches = [potential.minibatches.draw_outside_run(seed, _FIRST_COUNT + k) for k in range(2 * count)]
    return _Plan(batches[:count], batches[count:], min(enough, gradients // (2 * count) - 1))


def _product(potential: Potential, theta: Array, batches: list[IntArray], scale: Array | float) -> Product:
    theta = theta.astype(np.float64)
    length, precision = float(np.linalg.norm(theta)) or 1.0, float(np.finfo(potential.dtype).eps)
    root = precision ** (1 / 3)
    step, least = root * length, root * root * length

    def gradient(at: Array) -> Array:
        rounded = np.ascontiguousarray(at, potential.dtype)
        total = np.zeros(potential.size)
        for indices in batches:
            total += potential.gradient(rounded, indices)
        return total / len(batches)

    def difference(v: Array) -> Array:
        return np.asarray((gradient(theta + step * v) - gradient(theta - step * v)) / (2 * step))

    def product(v: Array) -> Array:
        nonlocal step
        along = scale * v
        norm = float(np.linalg.norm(along)) or 1.0
        image = difference(along / norm)
        width = float(np.linalg.norm(image)) ** -0.5 if np.any(image) else step
        better = max(min(max(step, root * width), width), least)
        if not 0.5 <= better / step <= 2:
            step = better
            image = difference(along / norm)
        return np.asarray(scale * norm * image)

    return product


def _lanczos(product: Product, start: Array, iterations: int) -> tuple[float, Array]:
    """The largest Ritz value of a symmetric matrix and its vector, each new vector made orthogonal to all before it."""
    basis = [start / np.linalg.norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        rest = product(basis[-1])
        size = float(np.linalg.norm(rest))
        diagonal.append(float(basis[-1] @ rest))
        for _ in range(2):  # once more, because rounding leaves a little of each
            for vector in basis:
                rest -= (vector @ rest) * vector
        length = float(np.linalg.norm(rest))
        if len(diagonal) == iterations or length <= 1e-6 * size:
            break
        beside.append(length)
        basis.append(rest / length)
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    direction = sum(
        (weight * vector for weight, vector in zip(vectors[:, -1], basis, strict=True)), np.zeros_like(rest)
    )
    return float(values[-1]), np.asarray(direction / np.linalg.norm(direction))
