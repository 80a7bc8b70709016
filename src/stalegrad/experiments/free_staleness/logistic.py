"""Logistic regression on a9a, whole, whitened at its mode: what old gradients cost, and what is left of that.

SGLD with control variates and minibatches of 50; see :mod:`stalegrad.experiments.free_staleness.mse`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.datasets import Dataset, a9a
from stalegrad.experiments.fig2_posterior import posterior
from stalegrad.experiments.free_staleness.mse import Settings, measured
from stalegrad.experiments.free_staleness.truth import posterior_means
from stalegrad.experiments.parts import kept
from stalegrad.potentials import control_variates
from stalegrad.potentials.wrappers.whitened import InCoordinates


def measure(out: Path, settings: Settings, report: Report, data: Dataset | None = None) -> dict[str, Any]:
    """Biases at one step size, and speedups at equal MSE.

    Args:
        out: the experiment's folder; chains that are in it are not made again.
        settings: the constants.
        report: called with what is being done and the share that is done.
        data: in place of a9a.
    """
    report("a9a: mode", 0.0)
    data = data or a9a()
    model = posterior(data, settings.batch_size)

    def functions(z: Array) -> Array:
        return np.column_stack([model.phi(z.astype(np.float32)), (z.astype(np.float64) ** 2).mean(1)])

    def exact() -> dict[str, Any]:
        found = posterior_means(data, model, functions, steps=settings.truth_steps, seed=settings.seed)
        return {"mean": found.mean.tolist(), "error": found.error.tolist(), "accepted": found.accepted}

    truth = kept(out / "units" / f"a9a-truth-{settings.truth_steps}.json", exact)
    whitened = model.potential
    anchored = InCoordinates(control_variates(whitened.potential, whitened.centre), whitened.coordinates)
    return measured(out, settings, anchored, functions, truth, report)
