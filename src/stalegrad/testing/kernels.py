"""What every kernel must promise, as checks that anybody can run on their own: :func:`check_kernel`.

Randomness is addressed, so the checks of statistics have fixed outcomes: a kernel that passes once always passes. Their
false-alarm rate of one in a million is over the choice of the seed.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.tables import OPAQUE
from stalegrad._internal.types import Array
from stalegrad.engines import Engine, Inline, Threads
from stalegrad.kernels import SAMPLERS, Address, Kernel, kernel_from_table, kernel_table
from stalegrad.kernels.noise import TILE
from stalegrad.potentials import GaussianMean, Potential, natural
from stalegrad.protocol.chain import Chain
from stalegrad.runs.replay import replay
from stalegrad.runs.sample import sample
from stalegrad.testing.promises import promise
from stalegrad.theory import Direction

FALSE_ALARM = 1e-6
_REPEATS, _SIZE = 2, 300
_SURE = -NormalDist().inv_cdf(FALSE_ALARM / 2)  # standard errors, two-sided
_COPIES = 1024  # of a target in one dimension
_UPDATES = 6000  # kept, after a third as many that are not
_LEEWAY = 1.3  # on the ratio of two biases, for terms of higher order


def label(kernel: Kernel) -> str:
    """A kernel's class and the forms that it has, as a name for a test.

    >>> from stalegrad.kernels import SGNHT
    >>> label(SGNHT(step_size=0.1, thermostats="each"))
    'SGNHT-each-euler'
    """
    values = {f.name: getattr(kernel, f.name) for f in fields(kernel) if f.init}
    words = [value if isinstance(value, str) else name for name, value in values.items()
             if isinstance(value, str) or value is True]  # fmt: skip
    return "-".join([type(kernel).__name__, *words])


def example_kernels() -> dict[str, Kernel]:
    """Every form of every sampler of stalegrad's that gives examples of itself, by :func:`label`.

    >>> kernels = example_kernels()
    >>> "SGLD" in " ".join(kernels)
    True
    """
    made = [kernel for sampler in SAMPLERS.values() for kernel in sampler.examples()]
    return {label(kernel): kernel for kernel in made}


def check_kernel(
    kernel: Kernel,
    *,
    exact: bool = False,
    statistics: bool = True,
    step_size: float | None = None,
    gradient: Callable[[Array], Array] | None = None,
    variance: float = 1.0,
) -> None:
    """Raise AssertionError, naming the promise, unless a kernel keeps all promises.

    Those on bits: the compiled update is the formula, repetitions and threads change nothing, a chain goes on from a
    snapshot, runs can be replayed, a table holds the kernel. Those on laws: on a target with the standard deviation 1
    its variance is what its own theory says, or else within what its order leaves of it, and the bias falls as h^K.

    Args:
        kernel: with a step size for a posterior of curvature 41, of five parameters and 40 data.
        exact: demand that the compiled update has the very bits of the formula, not all but the last ones. It has them
            where the formula is arithmetic and square roots.
        statistics: check the laws, too.
        step_size: for the target of the laws; None for the kernel's own, scaled to its curvature.
        gradient: of that target, of many copies in one dimension, where it is not N(0, 1). Its mean must be 0.
        variance: of that target.

    >>> import stalegrad as sg
    >>> check_kernel(sg.SGLD(step_size=0.002), statistics=False)
    """
    kernel = kernel.for_model(40, 4)
    for check in (_declares_itself, _repetitions, _parts, _snapshot, _table, _coefficients):
        check(kernel)
    _formula(kernel, exact)
    model = small_model_for(kernel)
    for engine in (Inline(), Threads()):
        check_kernel_replays(kernel, engine, model)
    if statistics:
        h = step_size or float(kernel.schedule(0)) * (41**0.5 if kernel.inertial else 41)
        _law(kernel, h, gradient or np.copy, variance)


def small_model_for(kernel: Kernel) -> Potential:
    """Forty data in five dimensions, in minibatches of four, as the kernel takes its gradients."""
    data = np.random.Generator(np.random.Philox(key=1)).standard_normal((40, 5))
    model = GaussianMean(data, batch_size=4, dtype=np.float64)
    metric = getattr(kernel, "metric", None)
    return natural(model, metric) if kernel.takes_natural_gradients and metric is not None else model


def check_kernel_replays(kernel: Kernel, engine: Engine, model: Potential) -> None:
    """A run of three workers has all its draws, which are finite, and replays bit for bit."""
    start = np.full(model.size, 0.5)
    run = sample(model, kernel, steps=60, workers=3, seed=7, initial=start, engine=engine, progress=False)
    what = f"a run of {label(kernel)} on {type(engine).__name__}"
    promise(run.draws.shape == (1, 60, model.size), f"{what} has draws of shape {run.draws.shape}")
    promise(bool(np.isfinite(run.draws).all()), f"{what} has draws that are not finite")
    again = replay(run.trace, model, kernel, initial=start)
    promise(np.array_equal(again.draws, run.draws), f"{what} differs from its replay")


def _declares_itself(kernel: Kernel) -> None:
    promise(kernel.with_step_size(1e-4).schedule(0) == 1e-4, "with_step_size(1e-4) has another step size")
    promise(kernel.order >= 1, f"the order is {kernel.order}")


def _coefficients(kernel: Kernel) -> None:
    """σ is where it is said to be: it is 0 at temperature 0, so that no noise is made, and only there."""
    place = kernel.noise_coefficient
    if place is not None:
        hot, cold = (replace(kernel, temperature=heat).coefficients(0.02, 0.03) for heat in (1.0, 0.0))
        promise(place < len(hot) and hot[place] > 0 == cold[place], f"coefficient number {place} is not σ")


def _table(kernel: Kernel) -> None:
    """The table makes an equal kernel, if there is no function among the settings."""
    table = kernel_table(kernel)
    if OPAQUE in table or any(isinstance(v, dict) and OPAQUE in v for v in table.values()):
        return
    promise(kernel_from_table(table) == kernel, f"the table {table} makes another kernel")


def _start(kernel: Kernel, dtype: Any, first: int = 0, rows: int = _REPEATS) -> tuple[Any, Array]:
    """Positive positions, which every kernel can start from, and a gradient."""
    theta, gradient = np.random.Generator(np.random.Philox(key=5)).standard_normal((2, _REPEATS, _SIZE))
    chosen = slice(first, first + rows)
    state = kernel.start(np.abs(theta[chosen]).astype(dtype), Address(7, 3, 0, first_repeat=first))
    return state, gradient[chosen].astype(dtype)


def _advance(kernel: Kernel, state: Any, gradient: Array, update: int = 0, first: int = 0, **options: Any) -> None:
    c = np.array(kernel.coefficients(0.002, 0.003), gradient.dtype)
    kernel.advance(state, gradient, c, Address(7, 3, update, first_repeat=first), **options)


def _formula(kernel: Kernel, exact: bool) -> None:
    for dtype in (np.float32, np.float64):
        (fused, gradient), (plain, _) = _start(kernel, dtype), _start(kernel, dtype)
        close = 0.0 if exact else 20 * float(np.finfo(dtype).eps)
        for update in range(3):
            noise = kernel.noise_at(plain, Address(7, 3, update))
            plain = kernel.step(plain, gradient, noise, 0.002, 0.003)
            _advance(kernel, fused, gradient, update)
            for name, ours, theirs in zip(fused._fields, fused, plain, strict=True):
                what = f"{name} after advance, in {np.dtype(dtype).name}"
                promise(theirs.dtype == dtype, f"step makes {theirs.dtype} of the {name}")
                promise(bool(np.isfinite(ours).all()), f"{what}, is not finite")
                same = np.allclose(ours, theirs, rtol=close, atol=close)
                promise(same, f"{what}, is not what step makes of it with the noise of noise_at")


def _repetitions(kernel: Kernel) -> None:
    (both, gradient), (second, own) = _start(kernel, np.float32), _start(kernel, np.float32, first=1, rows=1)
    _advance(kernel, both, gradient)
    _advance(kernel, second, own, first=1)
    same = all(np.array_equal(a[1:], b) for a, b in zip(both, second, strict=True))
    promise(same, "a repetition among others differs from the same repetition alone")


def _parts(kernel: Kernel) -> None:
    def in_pieces(part: Any, n: int) -> None:
        for start, stop in ((TILE, 2 * TILE), (2 * TILE, n), (0, TILE)):
            part(start, stop)

    (whole, gradient), (pieces, _) = _start(kernel, np.float32), _start(kernel, np.float32)
    _advance(kernel, whole, gradient)
    _advance(kernel, pieces, gradient, split=in_pieces)
    same = all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))
    promise(same, "an update in several parts differs from the whole")


def _snapshot(kernel: Kernel) -> None:
    (_, gradient), start = _start(kernel, np.float64), np.full((_REPEATS, _SIZE), 0.5)
    chain, other = Chain(kernel, start, 7, 3), Chain(kernel, start + 1, 7, 3)
    for _ in range(3):
        chain.advance(gradient)
    other.restore(chain.version, chain.snapshot())
    for _ in range(3):
        chain.advance(gradient)
        other.advance(gradient)
    same = all(np.array_equal(array, other.snapshot()[name]) for name, array in chain.snapshot().items())
    promise(same, "a chain that was restored from a snapshot goes on otherwise: the state leaves something out")


class _Measured(NamedTuple):
    """A variance, with its standard error over copies."""

    value: float
    error: float


def _law(kernel: Kernel, h: float, gradient: Callable[[Array], Array], variance: float) -> None:
    if kernel.has_theory() and gradient is np.copy:
        _theory(kernel, h)
        return
    large, small = (_measure(kernel, step, gradient, variance) for step in (h, h / 2))
    biases = [abs(m.value / variance - 1) for m in (large, small)]
    error = _SURE * (small.error + large.error / 2**kernel.order) / variance
    promise(
        biases[0] < 0.5 + _SURE * large.error / variance,
        f"the variance at h = {h:.3g} is {large.value:.4g}, that of the target {variance:.4g}: far off",
    )
    promise(
        biases[1] <= _LEEWAY * biases[0] / 2**kernel.order + error,
        f"the bias of the variance is {biases[0]:.3g} at h = {h:.3g} and {biases[1]:.3g} at half of it (± {error:.1g}):"
        f" it does not fall as h^{kernel.order}, which is the order declared",
    )


def _theory(kernel: Kernel, h: float) -> None:
    """Real chains have the variance of the recursion, whose bias falls as h^K."""
    scale = float(kernel.metric_scale(np.ones(()), 40))  # of gradients of N(0, 1), whose mean square is 1
    direction = Direction(scale**2, mean_curvature=scale**2)
    h = h / scale**2
    expected = [kernel.recursion(step, 0, direction).variance * scale**2 for step in (h, h / 2, h / 4)]
    tolerance = 1e-9 + 0.01 * kernel.theory_error
    biases = [abs(value / kernel.temperature - 1) for value in expected]
    falls = all(b <= _LEEWAY * a / 2**kernel.order + tolerance for a, b in pairwise(biases))
    promise(falls, f"by its own theory the bias falls as {biases} at h, h/2, h/4, not as h^{kernel.order}")
    found = _measure(kernel, h, np.copy, 1.0)
    off = abs(found.value - expected[0])
    promise(
        off <= _SURE * found.error + kernel.theory_error * expected[0],
        f"the variance at h = {h:.3g} is {found.value:.4g} ± {found.error:.2g}, its theory says {expected[0]:.4g}",
    )


def _measure(kernel: Kernel, h: float, gradient: Callable[[Array], Array], variance: float) -> _Measured:
    """The mean of θ² over time and copies, from the target's own law."""
    start = np.random.Generator(np.random.Philox(key=9)).standard_normal((1, _COPIES)) * variance**0.5
    chain = Chain(kernel.with_step_size(h), start, 11, 0)
    total = np.zeros(_COPIES)
    for update in range(_UPDATES + _UPDATES // 3):
        chain.advance(gradient(chain.point))
        if update >= _UPDATES // 3:
            total += chain.position[0] ** 2
    averages = total / _UPDATES
    return _Measured(float(averages.mean()), float(averages.std() / _COPIES**0.5))
