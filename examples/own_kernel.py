"""How do I write a sampler of my own?
===================================

Underdamped Langevin dynamics in a file of its own, checked and run like stalegrad's: ``python examples/own_kernel.py``.

A kernel is a formula for one coordinate, what a chain carries, and the numbers in the formula. The compiled loop with
its noise, replay, stores and job files follow. The update is linear, so its theory follows as well: step sizes are
found for it, and runs are diagnosed. docs/samplers.md says more.
"""

# %%
# The formula, what a chain carries, and the numbers in the formula.

from dataclasses import dataclass
from math import exp, sqrt
from typing import Any, NamedTuple

import numpy as np

import stalegrad as sg
from stalegrad.kernels import Linear, Update


def formula(theta, q, g, z, keep, h, sigma):
    """q ← e^{−Bh} q − h g + σ ζ; θ ← θ + h q: friction solved exactly, then a kick and a drift."""
    q = keep * q - h * g + sigma * z
    return theta + h * q, q


class State(NamedTuple):
    """What a chain carries from one update to the next."""

    position: Any
    momentum: Any


@dataclass(frozen=True, kw_only=True)
class ExactFriction(Linear):
    """Underdamped Langevin dynamics, dθ = q dt, dq = −∇U dt − Bq dt + √(2BT) dW, with B's flow solved exactly.

    Invariant law as h → 0: p(θ|D)^(1/T) · N(q; 0, T I). Order K = 1.

    Args:
        step_size: h.
        friction: B.
        temperature: T.
    """

    friction: float = 5.0

    updates = Update(State, formula)
    noise_coefficient = 2  # σ is the third of the coefficients

    def start(self, position, address):
        """θ, and a momentum at rest."""
        return State(position, np.zeros_like(position))

    def coefficients(self, h, h_next):
        """e^{−Bh}, h and σ = √(T(1 − e^{−2Bh}))."""
        keep = exp(-self.friction * h)
        return keep, h, sqrt(self.temperature * (1 - keep**2))


# %%
# Checked against its own formula, its law on a Gaussian and its order; then run with three processes, and replayed.

if __name__ == "__main__":
    # As a module, and not as __main__, so that traces, stores and job files can name it.
    from own_kernel import ExactFriction as Own

    sg.testing.check_kernel(Own(step_size=0.02, friction=5.0))
    kernel = Own(step_size=0.004, friction=20.0)  # minibatches of four are noisy: short steps, strong friction
    model = sg.testing.small_model()
    run = sg.sample(model, kernel, steps=60_000, burn_in=2_000, workers=3, engine="processes", progress=False)
    again = sg.replay(run.trace, model, kernel)
    mean, variance = model.posterior()
    print(f"replayed bit for bit: {np.array_equal(again.draws, run.draws)}")
    print(f"variance over that of the posterior: {(run.draws[0].var(axis=0) / variance).round(2)}")

    import matplotlib.pyplot as plt

    steps = np.geomspace(0.02, 0.4, 30)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    grid = np.linspace(-4, 4, 200)
    scaled = (run.draws[0] - mean) / np.sqrt(variance)
    left.hist(scaled.ravel(), bins=60, density=True, color="#4c72b0", alpha=0.6)
    left.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), "k", lw=1)
    left.set(title="draws of all parameters, in posterior deviations", yticks=[])
    for tau in (0, 1, 4):
        recursions = [Own(step_size=h, friction=2.0).recursion(h, tau, sg.theory.Direction(1.0)) for h in steps]
        right.loglog(steps, [abs(chain.variance - 1) for chain in recursions], label=f"τ = {tau}")
    right.set(title="its theory: error of a variance at λ = 1", xlabel="step size")
    right.legend(frameon=False)
    plt.show()
