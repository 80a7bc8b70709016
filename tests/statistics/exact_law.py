"""The exact law of a linear chain along a trace, whatever its staleness from update to update.

:mod:`stalegrad.theory` knows chains whose staleness is constant: x_{l+1} = A_τ x_l + B ζ, with the state
x = (θ, …, p_{l−1}, …, p_{l−τ}) of what the kernel keeps and the past points that wanted gradients. The state of a
smaller staleness is the front of the state of a larger one. So where staleness varies, the chain is
x_{l+1} = A_{τ_l} x_l + B ζ on the largest state, and its covariance goes along. Nothing is approximated; the start,
where gradients are less stale than they will be, is included.
"""

from collections.abc import Callable, Iterable

import numpy as np

from stalegrad.theory import LinearRecursion, StateLaw

RecursionAt = Callable[[int], LinearRecursion]
"""The chain, with its target centred at 0, at a constant staleness."""


def law_after(recursion_at: RecursionAt, staleness: Iterable[int]) -> StateLaw:
    """Mean and covariance of x after all updates, from θ_0 at the target's mean and a momentum ~ N(0, 1)."""
    staleness = list(staleness)
    deepest = recursion_at(max(staleness))
    transitions, shock = _transitions(recursion_at, deepest, staleness), deepest.noise @ deepest.noise.T
    mean, covariance = deepest.start(0.0, momentum_variance=1.0)
    for tau in staleness:
        covariance = transitions[tau] @ covariance @ transitions[tau].T + shock
    return StateLaw(mean, covariance)


def joint_moments(
    recursion_at: RecursionAt, staleness: Iterable[int], block: int, *, prior: float, weight: float, error: float
) -> tuple[float, float]:
    """E θ² and E θ d̄ at the ends of blocks, on average over a chain that gets new data before each block.

    Before a block d̄ = θ + ε with Var ε = ``error``; within it the target's mean is κ d̄. In z = (x, d̄) an update is
    x ← A x + (I − A) e κ d̄ + B ζ, where e is the state of a chain that rests at θ = 1.

    Args:
        recursion_at: the chain within a block.
        staleness: τ_l of every update.
        block: updates between new data.
        prior: Var θ_0, the variance of the prior.
        weight: κ.
        error: Var d̄ given θ.
    """
    staleness = list(staleness)
    deepest = recursion_at(max(staleness))
    rest, size = deepest.embedding[:, 0], len(deepest.noise)
    updates = {}
    for tau, a in _transitions(recursion_at, deepest, staleness).items():
        updates[tau] = np.eye(size + 1)
        updates[tau][:size, :size] = a
        updates[tau][:size, size] = weight * (rest - a @ rest)
    shock = np.zeros((size + 1, size + 1))
    shock[:size, :size] = deepest.noise @ deepest.noise.T
    joint = np.zeros((size + 1, size + 1))
    joint[:size, :size] = deepest.start(0.0, position_variance=prior, momentum_variance=1.0).covariance
    squares, products = [], []
    for update, tau in enumerate(staleness):
        if update % block == 0:
            joint[size, :] = joint[0, :]  # d̄ = θ + ε
            joint[:, size] = joint[:, 0]
            joint[size, size] = joint[0, 0] + error
        joint = updates[tau] @ joint @ updates[tau].T + shock
        if update % block == block - 1:
            squares.append(joint[0, 0])
            products.append(joint[0, size])
    return float(np.mean(squares)), float(np.mean(products))


def _transitions(
    recursion_at: RecursionAt, deepest: LinearRecursion, staleness: Iterable[int]
) -> dict[int, np.ndarray]:
    """A_τ on the largest state, for every τ that occurs."""
    transitions = {}
    kept = len(recursion_at(0).transition)  # θ and what goes with it; the rest of the state is past points
    for tau in set(staleness):
        own = recursion_at(tau).transition
        transition = deepest.transition.copy()
        transition[:kept] = 0
        transition[:kept, : own.shape[1]] = own[:kept]
        transitions[tau] = transition
    return transitions
