"""An architecture of your own: workers that clip their gradients before they send them.

python examples/own_architecture.py

What a worker answers is the ``answer`` of a model around the user's; the server does what it always does. The trace
names the architecture by its module and class, so that a replay, a resumed run and a job file find it again.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

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

    addressed: ClassVar[bool] = True

    def __init__(self, potential, most):
        super().__init__(potential)
        self.most = potential.dtype.type(most)

    def answer(self, points, address, out):
        """The gradient of each repetition, shortened where it is too long."""
        self.potential.answer(points, address, out)
        norms = np.linalg.norm(out, axis=1, keepdims=True)
        out *= np.minimum(1, self.most / np.maximum(norms, np.finfo(out.dtype).tiny))


if __name__ == "__main__":
    # As a module, and not as __main__, so that traces and stores can name it.
    sys.path.insert(0, str(Path(__file__).parent))
    from own_architecture import ClippedGradients as Own

    sg.testing.check_architecture(Own(most=50.0))
    model = sg.testing.small_model()
    run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=5_000, workers=3, architecture=Own(most=50.0), progress=False)
    again = sg.replay(run.trace, model, sg.SGLD(step_size=1e-3))
    print(f"replayed bit for bit: {np.array_equal(again.draws, run.draws)}; {run}")
