"""Softmax regression on MNIST, 7,850 weights: the speedup of 16 workers at equal MSE, plain and compensated.

All 60,000 images, pixels from 0 to 1 and a constant, the prior N(0, 1), minibatches of 500 with control variates, in
coordinates that are only nearly white (:class:`WhitenedSoftmax`); for the rest see
:mod:`stalegrad.experiments.free_staleness.mse`.

The truth is that of BAOAB with exact gradients, which has no error on a Gaussian at any step. Chains start at one draw
of it, and not at the mode, from which the softest directions would take long to come.
"""

from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.datasets import Dataset, mnist
from stalegrad.experiments.free_staleness.mse import Settings, measured
from stalegrad.experiments.free_staleness.softmax_model import WhitenedSoftmax
from stalegrad.experiments.parts import kept
from stalegrad.kernels import BAOAB
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay

SOFTMAX = Settings(
    name="softmax", workers=(1, 16), runs=40, block=5, steps=700, thin=10, batch_size=500, step_sizes=(0.008, 0.016),
    common_step=0.008, relaxations=2.0, truth_steps=160,
)  # fmt: skip
_TRUTH_CHAINS = 5
_TRUTH_KERNEL = BAOAB(step_size=0.5, friction=1.5)


def measure(
    out: Path, settings: Settings, report: Report, data: Dataset | None = None, deadline: float = float("inf")
) -> dict[str, Any]:
    """Biases at one step size, speedups at equal MSE, and how white the coordinates are.

    Args:
        out: the experiment's folder; chains that are in it are not made again.
        settings: the constants.
        report: called with what is being done and the share that is done.
        data: in place of MNIST.
        deadline: by :func:`time.time`, after which no further block of repetitions is begun.
    """
    report(f"{settings.name}: mode", 0.0)
    data = data or mnist()
    images, tests = (_regressors(part) for part in (data.X, data.X_test))
    model = WhitenedSoftmax(images, np.asarray(data.y, np.int64), settings.batch_size)
    labels = np.asarray(data.y_test, np.int64)

    def functions(z: Array) -> Array:
        losses = [_loss(theta, tests, labels) for row in z for theta in model.original(row)]
        return np.column_stack([losses, (z.astype(np.float64) ** 2).mean(1)])

    def exact() -> dict[str, Any]:
        report(f"{settings.name}: truth", 0.0)
        return _truth(model, functions, settings)

    truth = kept(out / "units" / f"{settings.name}-truth-{settings.truth_steps}.json", exact)
    start = np.array(truth.pop("start"), np.float32)
    found = measured(out, settings, model, functions, truth, report, start, deadline)
    spread = kept(out / "units" / f"{settings.name}-curvatures.json", lambda: {"quantiles": _curvatures(model)})
    return {**found, "size": model.size, "curvatures": spread["quantiles"]}


def _regressors(images: Array) -> Array:
    flat = np.asarray(images, np.float32).reshape(len(images), -1)
    return np.column_stack([flat / max(float(flat.max()), 1.0), np.ones(len(flat), np.float32)]).astype(np.float32)


def _loss(theta: Array, X: Array, y: Array) -> float:
    logits = (X @ theta.T).astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]))


def _truth(model: WhitenedSoftmax, functions: Any, settings: Settings) -> dict[str, Any]:
    """Posterior means, their standard errors over independent chains, and a draw."""
    burn_in = settings.truth_steps // 4
    run = replay(
        Trace.constant_staleness(0, steps=settings.truth_steps), model.with_batch_size(model.n_data), _TRUTH_KERNEL,
        burn_in=burn_in, thin=4, repeats=_TRUTH_CHAINS, seed=settings.seed + 1, initial=np.zeros(model.size),
    )  # fmt: skip
    draws = run.draws[:, 0]
    phi = functions(draws.reshape(-1, draws.shape[-1])).reshape(*draws.shape[:2], -1).mean(1)
    error = phi.std(0, ddof=1) / np.sqrt(_TRUTH_CHAINS)
    return {"mean": phi.mean(0).tolist(), "error": error.tolist(), "start": draws[0, -1].tolist()}


def _curvatures(model: WhitenedSoftmax, steps: int = 25) -> dict[str, float]:
    """Quantiles of the Hessian's eigenvalues at the mode, by Lanczos' method from a random vector; and the largest."""
    random = np.random.Generator(np.random.Philox(key=0))
    first = random.standard_normal(model.size)
    vectors, diagonal, beside = [first / np.linalg.norm(first)], [], []
    for _ in range(steps):
        v = vectors[-1]
        image = (model.full_gradient(3 * v).astype(np.float64) - model.full_gradient(-3 * v)) / 6
        diagonal.append(float(image @ v))
        for _ in range(2):
            for vector in vectors:
                image = image - vector * float(vector @ image)
        beside.append(float(np.linalg.norm(image)))
        vectors.append(image / beside[-1])
    matrix = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    values, components = np.linalg.eigh(matrix)
    weights = np.cumsum(components[0] ** 2)
    found = {f"{q:g}": float(values[np.searchsorted(weights, q)]) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
    return {**found, "largest": float(values[-1])}
