"""What every model must promise, as a check that anybody can run on their own: :func:`check_potential`."""

import math
import threading

import cloudpickle
import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels import SGLD, Kernel
from stalegrad.potentials import Potential
from stalegrad.potentials.address import GradientAddress
from stalegrad.runs.replay import replay
from stalegrad.runs.sample import sample
from stalegrad.testing.promises import promise

_BATCHES = 1000  # minibatches behind the mean that is compared with the full gradient
_DEVIATIONS = 6.0  # a coordinate is off by so many standard errors with a probability of 2e-9


def check_potential(
    potential: Potential,
    kernel: Kernel | None = None,
    *,
    theta: Array | None = None,
    engines: tuple[str, ...] = ("inline", "threads", "processes"),
    steps: int = 40,
) -> None:
    """Raise AssertionError, naming the promise, unless a model keeps all promises.

    A replay finds the same bits only if a gradient is a function of θ and of its address alone; and a chain samples
    the posterior only if minibatch gradients are unbiased.

    Args:
        potential: to be checked.
        kernel: a sampler whose steps are small enough for it; None for SGLD with a step of a thousandth of 1/|∇U|.
        theta: where gradients are looked at; None for a point beside the model's start.
        engines: those on which short runs are made and replayed; what cannot be pickled leaves out ``"processes"``.
        steps: of these runs.

    >>> import stalegrad as sg
    >>> check_potential(sg.testing.small_logistic(), engines=("inline",))
    """
    start = _check_start(potential)
    if theta is None:
        nearby = np.random.Generator(np.random.Philox(key=5)).standard_normal(potential.size)
        theta = start + nearby.astype(potential.dtype) / 10
    theta = np.ascontiguousarray(theta, potential.dtype)
    _check_gradient(potential, theta)
    _check_answer(potential, theta)
    _check_mean(potential, theta)
    _check_variables(potential, theta)
    if "processes" in engines:
        _check_pickle(potential, theta)
    scale = max(float(np.linalg.norm(potential.full_gradient(start).astype(np.float64))), 1.0)
    _check_runs(potential, kernel or SGLD(step_size=1e-3 / scale), engines, steps)


def _check_start(potential: Potential) -> Array:
    start = potential.initial()
    promise(start.shape == (potential.size,), f"initial() has shape {start.shape}, not ({potential.size},)")
    promise(start.dtype == potential.dtype, f"initial() is {start.dtype}, and the model's dtype {potential.dtype}")
    promise(bool(np.isfinite(start).all()), "initial() is not finite")
    start += 1
    promise(not np.array_equal(potential.initial(), start), "initial() gives the same array twice, not a fresh copy")
    return potential.initial()


def _check_gradient(potential: Potential, theta: Array) -> None:
    """Shape, type, the same bits again, also for many repetitions at once, and arguments left alone."""
    indices = potential.minibatches.draw_many(3, 0, [0], [1], 3)[0]
    points = np.ascontiguousarray(np.stack([theta, theta + theta.dtype.type(0.01), theta]))
    before, drawn = points.copy(), indices.copy()
    out = np.empty_like(points)
    potential.gradients(points, indices, out)
    promise(np.array_equal(points, before), "gradients() changes θ")
    promise(np.array_equal(indices, drawn), "gradients() changes the indices")
    promise(bool(np.isfinite(out).all()), "the gradient is not finite beside the model's start")
    for row in range(3):
        alone = np.asarray(potential.gradient(points[row], indices[row]))
        promise(alone.shape == (potential.size,), f"gradient() has shape {alone.shape}, not ({potential.size},)")
        promise(alone.dtype == potential.dtype, f"gradient() is {alone.dtype}, not {potential.dtype}")
        promise(np.array_equal(alone, out[row]), "gradients() and gradient() differ in their bits")
        again = np.asarray(potential.gradient(points[row], indices[row]))
        promise(np.array_equal(alone, again), "gradient() gives other bits when it is called again")


def _check_answer(potential: Potential, theta: Array) -> None:
    """A function of the point and the address alone, for whoever computes it and however many do so at once."""
    address = GradientAddress(seed=2**64 - 1, chain=1, worker=2, count=0)
    answers = [np.empty((1, potential.size), potential.dtype) for _ in range(3)]

    def compute(out: Array) -> None:
        potential.for_worker().answer(theta[None].copy(), address, out)

    compute(answers[0])
    threads = [threading.Thread(target=compute, args=(out,)) for out in answers[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    promise(all(np.array_equal(answers[0], out) for out in answers[1:]), "threads that compute at once get other bits")


def _check_mean(potential: Potential, theta: Array) -> None:
    """Minibatch gradients average to ∇U, within six standard errors of every coordinate."""
    full = np.asarray(potential.full_gradient(theta), np.float64)
    promise(full.shape == (potential.size,), f"full_gradient() has shape {full.shape}, not ({potential.size},)")
    sums, squares = np.zeros(potential.size), np.zeros(potential.size)
    for count in range(_BATCHES):
        deviation = potential.gradient(theta, potential.minibatches.draw(11, 0, 0, count)).astype(np.float64) - full
        sums += deviation
        squares += deviation**2
    mean = sums / _BATCHES
    error = np.sqrt(np.maximum(squares / _BATCHES - mean**2, 0) / (_BATCHES - 1))
    rounding = 64 * np.finfo(potential.dtype).eps * (np.abs(full).max() + math.sqrt(squares.max() / _BATCHES) + 1)
    off = np.abs(mean) - _DEVIATIONS * error - rounding
    worst = int(np.argmax(off))
    promise(
        off[worst] <= 0,
        f"minibatch gradients are biased: coordinate {worst} averages to {full[worst] + mean[worst]:.6g} ± "
        f"{error[worst]:.2g} over {_BATCHES} minibatches, and ∇U is {full[worst]:.6g}",
    )


def _check_variables(potential: Potential, theta: Array) -> None:
    size = sum(math.prod(shape) for shape in potential.layout.values())
    promise(size == potential.size, f"the layout has {size} entries, and θ {potential.size}")
    for name, value in potential.variables(np.stack([theta, theta])[None]).items():
        promise(value.shape[:2] == (1, 2), f"variable {name} of draws (1, 2, n) has shape {value.shape}")


def _check_pickle(potential: Potential, theta: Array) -> None:
    copy = cloudpickle.loads(cloudpickle.dumps(potential))
    indices = potential.minibatches.draw(3, 0, 0, 0)
    same = np.array_equal(copy.gradient(theta, indices), potential.gradient(theta, indices))
    promise(same, "a copy that went through a pickle computes other bits")


def _check_runs(potential: Potential, kernel: Kernel, engines: tuple[str, ...], steps: int) -> None:
    for engine in engines:
        run = sample(potential, kernel, steps=steps, workers=2, seed=7, engine=engine, progress=False)
        again = replay(run.trace, potential, kernel)
        promise(np.array_equal(again.draws, run.draws), f"engine {engine}: the replay differs")
