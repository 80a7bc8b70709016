"""What does clipping gradients do to a posterior?
===============================================

Optimisers clip gradients that are too long. Here workers do, by an architecture of its own in forty lines, and the
posterior says what it costs. ``python examples/own_architecture.py``
"""

# %%
# What a worker answers is the ``answer`` of a model around the user's; the server does what it always does. The trace
# names the architecture by its module and class, so that a replay, a resumed run and a job file find it again.

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import stalegrad as sg
from stalegrad.potentials import Wrapper
from stalegrad.protocol.architectures import Architecture


@dataclass(frozen=True)
class ClippedGradients(Architecture):
    """Workers answer with g̃ · min(1, c/|g̃|): no answer is longer than c, and small ones are as they were.

    Args:
        most: c.
    """

    most: float = 100.0

    stale_gradients: ClassVar[bool] = True

    def __post_init__(self):
        """Refuse what is no length."""
        if not self.most > 0:
            raise sg.ArgumentError("most", self.most, "is not a length", "Give a number > 0.")

    def work(self, potential, kernels, workers):
        """The model whose answers are clipped."""
        return Clipped(potential, self.most)


class Clipped(Wrapper):
    """A model whose workers answer with a clipped gradient."""

    addressed = True

    def __init__(self, potential, most):
        super().__init__(potential)
        self.most = potential.dtype.type(most)

    def answer(self, points, address, out):
        """The gradient of each repetition, shortened where it is too long."""
        self.potential.answer(points, address, out)
        norms = np.linalg.norm(out, axis=1, keepdims=True)
        out *= np.minimum(1, self.most / np.maximum(norms, np.finfo(out.dtype).tiny))


# %%
# Checked, then run with three workers and replayed; then with clips from "never" to "nearly always".

if __name__ == "__main__":
    # As a module, and not as __main__, so that traces and stores can name it.
    from own_architecture import ClippedGradients as Own

    sg.testing.check_architecture(Own(most=50.0))
    model, kernel = sg.testing.small_model(), sg.SGLD(step_size=1e-3)
    run = sg.sample(model, kernel, steps=5_000, workers=3, architecture=Own(most=50.0), progress=False)
    again = sg.replay(run.trace, model, kernel)
    print(f"replayed bit for bit: {np.array_equal(again.draws, run.draws)}")

    import matplotlib.pyplot as plt

    mean, variance = model.posterior()
    settings: dict[str, Any] = {"steps": 40_000, "burn_in": 4_000, "workers": 3, "engine": "inline", "progress": False}
    lengths = np.geomspace(10.0, 1_000.0, 9)
    ratios, moved = [], []
    for length in lengths:
        draws = sg.sample(model, kernel, architecture=Own(most=length), **settings).draws[0]
        ratios.append(draws.var(axis=0) / variance)
        moved.append((draws.mean(axis=0) - mean) / np.sqrt(variance))
    print(f"variance over the posterior's, clipped at {lengths[0]:.0f}: {ratios[0].round(2)}")
    print(f"variance over the posterior's, clipped at {lengths[-1]:.0f}: {ratios[-1].round(2)}")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharex=True, constrained_layout=True)
    left.plot(lengths, ratios, "o-", ms=4, color="C0", alpha=0.6)
    left.axhline(1, color="0.7", zorder=0)
    left.set(xscale="log", yscale="log", xlabel="gradients are clipped at", title="variances over the posterior's")
    right.plot(lengths, moved, "o-", ms=4, color="C1", alpha=0.6)
    right.axhline(0, color="0.7", zorder=0)
    right.set(xlabel="gradients are clipped at", title="means, in posterior deviations from the exact ones")
    plt.show()

# %%
# Clipping weakens the pull towards the mode and leaves the noise as it is, so that the chain goes too far: a line for
# each of five parameters. What is left on the right, where nothing is clipped, is due to the step and to minibatches of
# four. What is harmless to an optimiser is another posterior here.
