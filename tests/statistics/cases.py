"""Every kernel as the statistical checks run it: its step size, the linear chain that it is, and what that leaves out.

Most kernels that have a theory *are* linear chains on a normal target, which they name themselves. pSGLD is one while
its metric rests: it is SGLD with the step hG. SGNHT is none, but close to one, and what is known of its error is in
:func:`thermostat_error`.

Step sizes are relative to the target: a relative step r means hλ = r for SGLD, hGλ = r for pSGLD, and h√λ = 2.5 r for
the kernels with momentum, whose friction is the critical 2√λ. Errors of stale gradients are then about alike in SGLD
and SGHMC, and every kernel forgets its start in a few times 1/r updates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import stalegrad as sg
from stalegrad.kernels import Kernel
from stalegrad.testing import example_kernels
from stalegrad.theory import Direction, LinearRecursion, stale_sghmc, stale_sgld

from .conjugate import NormalMean

STALENESS = {
    "fresh": lambda steps: sg.Trace.constant_staleness(0, steps),
    "constant": lambda steps: sg.Trace.constant_staleness(2, steps),
    "random": lambda steps: sg.Trace.random_staleness([1, 1, 1, 1, 1], steps, seed=11),  # 0 to 4, on average 2
}

MEMORY = 1 - 1e-5  # of pSGLD: its metric moves by a few percent in a whole run


@dataclass(frozen=True)
class Case:
    """A kernel on a model.

    Args:
        kernel: with its step size.
        recursion: the linear chain, from staleness τ, gradient variance v and temperature.
        beyond: bound on the relative error of the variance of θ that the linear chain does not know of, from the
            largest staleness.
        prepare: brings what a state has beside θ and momentum into its stationary law.
    """

    kernel: Kernel
    recursion: Callable[[int, float, float], LinearRecursion]
    beyond: Callable[[int], float] = lambda tau: 0.0
    prepare: Callable[[Any, np.random.Generator], None] = lambda state, rng: None


def case(name: str, model: NormalMean, relative_step: float, *, temperature: float = 1.0) -> Case:
    """The kernel of that name. Any temperature but 1 makes it wrong; the linear chain is that of temperature 1."""
    kernel = EXAMPLES[name]
    return _SPECIAL.get(type(kernel), _linear)(kernel, model, relative_step, temperature)


def _linear(example: Kernel, model: NormalMean, relative_step: float, temperature: float) -> Case:
    """A chain that its own theory knows exactly."""
    h, friction = _inertial(model, relative_step) if example.inertial else (relative_step / model.curvature, None)
    scales = {} if example.fixed_friction is None else {"friction": friction}
    kernel = replace(example, step_size=h, temperature=temperature, **scales)
    return Case(
        kernel,
        lambda tau, v, heat: replace(kernel, temperature=heat).recursion(h, tau, Direction(model.curvature, v)),
    )


def _baoab(example: Kernel, model: NormalMean, relative_step: float, temperature: float) -> Case:
    """As if a step had just been made, whose last kick is due: the state is then θ and q as they are."""
    linear = _linear(example, model, relative_step, temperature)
    h = float(linear.kernel.schedule(0))

    def recursion(tau: int, v: float, heat: float) -> LinearRecursion:
        embedding = np.vstack([np.eye(2), np.tile([1.0, 0.0], (tau, 1))])
        return replace(linear.recursion(tau, v, heat), embedding=embedding)

    return Case(linear.kernel, recursion, prepare=lambda state, rng: state.last.fill(h / 2))


def _sgnht(example: sg.SGNHT, model: NormalMean, relative_step: float, temperature: float) -> Case:
    h, noise = _inertial(model, relative_step)
    v = float(model.gradient_variance())

    def prepare(state: Any, rng: np.random.Generator) -> None:
        """ξ ~ N(A + hv/2, 1/n), or with variance 1 where every coordinate has its own."""
        xi = state.thermostat
        xi[...] = rng.normal(
            noise + h * v / 2, model.coordinates**-0.5 if example.thermostats == "shared" else 1.0, xi.shape
        )

    return Case(
        replace(example, step_size=h, noise=noise, temperature=temperature),
        # The thermostat absorbs what staleness and minibatches do to the momentum: the chain as if there were none.
        lambda tau, v, heat: stale_sghmc(model.curvature, h, noise, temperature=heat, integrator="splitting"),
        lambda tau: thermostat_error(model.curvature, h, noise, tau, v, euler=example.integrator == "euler"),
        prepare,
    )


def _psgld(example: sg.PSGLD, model: NormalMean, relative_step: float, temperature: float) -> Case:
    """V rests at E ḡ² = (λ + v)/N²."""
    mean_square = model.curvature + float(model.gradient_variance())
    squares = mean_square / model.n_data**2
    metric = 1 / (sg.PSGLD.floor + squares**0.5)
    h = relative_step / model.curvature
    return Case(
        replace(
            example, step_size=h / metric, decay=MEMORY, temperature=temperature,
            n_data=model.n_data, batch_size=model.batch_size,
        ),
        lambda tau, v, heat: stale_sgld(model.curvature, h, tau, gradient_variance=v, temperature=heat),
        lambda tau: metric_error(relative_step, MEMORY, model.curvature / mean_square),
        lambda state, rng: state.squares.fill(squares),
    )  # fmt: skip


def _inertial(model: NormalMean, relative_step: float) -> tuple[float, float]:
    """h and the critical friction."""
    return 2.5 * relative_step / model.curvature**0.5, 2 * model.curvature**0.5


def thermostat_error(curvature: float, h: float, noise: float, tau: int, v: float, *, euler: bool) -> float:
    """Bound on the relative error of the variance of θ under SGNHT, on a normal target.

    Where the law is stationary E q² = T, whatever the noise: that is the thermostat's own equation. For Euler, putting
    the same of θ² and of θq together gives, exactly,

        λ E θ_l θ_{l−τ} = 1 − E ξ_l θ_l q_l        with E θ_l q_l = h/2,

    so to first order λ Var θ = 1 − Fh/2, with F = A + hv/2 + τhλ the friction at which ξ settles. The splitting has
    no error of first order. Neither gets one from stale gradients: θ moves by qτh meanwhile, which costs λ(τh)²/2. The
    other terms of second order are of the size of (F² + λ)h²/4. ``test_exact_law`` holds this against runs.
    """
    friction = noise + h * v / 2 + tau * h * curvature
    second = curvature * (tau * h) ** 2 / 2 + (friction**2 + curvature) * h**2 / 4
    return second + (friction * h / 2 if euler else 0.0)


def metric_error(relative_step: float, memory: float, share: float) -> float:
    """Bound on the relative error of the variance of θ under pSGLD without Γ, on a normal target.

    V follows θ² by a fraction f ≤ (1 − α)/2r, the rate of V over the rate at which θ² relaxes. Of E ḡ² the part s is
    due to θ, the rest to minibatches. So V ∝ 1 + fs (λθ² − 1), to first order. Without Γ a chain whose metric is a
    function of θ has the law of the posterior over G ∝ V^{−½}, and its variance is too large by the relative fs.

    Args:
        relative_step: r.
        memory: α.
        share: s.
    """
    return (1 - memory) / (2 * relative_step) * share


EXAMPLES = {name: kernel for name, kernel in example_kernels().items() if kernel.has_theory()}
KERNELS = tuple(EXAMPLES)
_SPECIAL: dict[type[Kernel], Callable[..., Case]] = {sg.BAOAB: _baoab, sg.SGNHT: _sgnht, sg.PSGLD: _psgld}
