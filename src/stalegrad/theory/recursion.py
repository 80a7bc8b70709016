"""Linear recursions with Gaussian noise, and everything about their averages in closed form.

A sampler with constant staleness on a Gaussian target is x_{l+1} = A x_l + B ζ_{l+1}, where x holds θ − μ first, then
whatever else the chain remembers. All laws stay Gaussian, so means and covariances say everything, θ² included.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number


class UnstableRecursion(StalegradError, ArithmeticError):
    """A stale chain that blows up, asked for what only a stable chain has.

    >>> from stalegrad.theory import stale_sgld
    >>> try:
    ...     stale_sgld(1.0, 0.5, 8).variance
    ... except UnstableRecursion:
    ...     print("it explodes")
    it explodes
    """


class StateLaw(NamedTuple):
    """The Gaussian law of the whole state x, in coordinates where the target is centred at 0.

    >>> from stalegrad.theory import stale_sgld
    >>> chain = stale_sgld(1.0, 0.1, 2)
    >>> law = chain.after(chain.start(5.0), 20)
    >>> law.mean.shape, round(float(law.mean[0]), 2)
    ((3,), 0.31)
    """

    mean: Array
    covariance: Array


class Trajectory(NamedTuple):
    """E θ_l and Var θ_l for l = 0, 1, …, L.

    >>> from stalegrad.theory import stale_sgld
    >>> chain = stale_sgld(1.0, 0.1, 2)
    >>> path = chain.trajectory(chain.start(5.0), 40)
    >>> path.mean[[0, 10, 40]].round(2), path.variance[[0, 40]].round(2)
    (array([5.  , 1.3 , 0.02]), array([0.  , 1.29]))
    """

    mean: Array
    variance: Array


class FiniteRun(NamedTuple):
    """Exact quality of φ̂_l = (1/l) Σ_{j=1..l} φ(θ_j), for l = 1, …, L, over the noise and the start.

    >>> from stalegrad.theory import stale_sgld
    >>> chain = stale_sgld(1.0, 0.1, 2)
    >>> found = chain.finite_run(chain.start(5.0), 1000)
    >>> np.allclose(found.mse, found.bias**2 + found.variance), found.bias[[99, 999]].round(3)
    (True, array([0.35 , 0.035]))
    """

    expectation: Array
    bias: Array
    variance: Array
    mse: Array


@dataclass(frozen=True, eq=False)
class LinearRecursion:
    """x_{l+1} = A x_l + B ζ_{l+1} with ζ standard normal. Made by the functions of :mod:`stalegrad.theory.gaussian`.

    Args:
        transition: A, of shape (d, d).
        noise: B, of shape (d, k): one column for each independent source of noise.
        embedding: E, of shape (d, k): a chain whose history is all equal to its start y_0 (θ_0 − μ, and the momentum
            if there is one) has x_0 = E y_0.
        target_mean: μ, what the average of θ should be.
        target_variance: what the variance of θ should be, T/λ.
        description: which chain this is, for messages.
    """

    transition: Array
    noise: Array
    embedding: Array
    target_mean: float
    target_variance: float
    description: str

    @cached_property
    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue of A: the chain forgets its start like this number to the power l."""
        return float(np.abs(np.linalg.eigvals(self.transition)).max())

    @property
    def stable(self) -> bool:
        """Whether the chain has a stationary law."""
        return self.spectral_radius < 1

    def covariance(self) -> Array:
        """Σ = A Σ Aᵀ + B Bᵀ, the stationary covariance of x."""
        return self._lyapunov(self.noise)

    @cached_property
    def variance(self) -> float:
        """The stationary variance of θ; compare with ``target_variance``."""
        return float(self.covariance()[0, 0])

    def autocovariance(self, lags: int) -> Array:
        """Cov(θ_l, θ_{l+k}) = (A^k Σ)_{θθ} of the stationary chain, for k = 0, 1, …, ``lags``."""
        column = self.covariance()[:, 0]
        result = np.empty(whole_number("lags", lags) + 1)
        for k in range(result.size):
            result[k] = column[0]
            column = self.transition @ column
        return result

    def asymptotic_variance(self, *, linear: float = 1.0, quadratic: float = 0.0) -> float:
        """Σ_{k ∈ ℤ} Cov(φ(θ_0), φ(θ_k)) = lim L·Var(φ̂_L), for φ(θ) = ``linear``·θ + ``quadratic``·θ².

        With γ_k the autocovariance of θ and α = linear + 2μ·quadratic, it is α² Σ γ_k + 2 quadratic² Σ γ_k². The first
        sum is |((I − A)⁻¹ B)_θ|². For the second, γ_k = (A^k s)_θ with s = Σ e_θ, so Σ_{k≥0} γ_k² = P_θθ with
        P = A P Aᵀ + s sᵀ.
        """
        alpha, beta = self._coefficients(linear, quadratic)
        covariance = self.covariance()
        gain = np.linalg.solve(np.eye(len(self.noise)) - self.transition, self.noise)[0]
        squares = 2 * self._lyapunov(covariance[:, :1])[0, 0] - covariance[0, 0] ** 2
        return float(alpha**2 * (gain @ gain) + 2 * beta**2 * squares)

    def start(
        self,
        position: float,
        momentum: float = 0.0,
        *,
        position_variance: float = 0.0,
        momentum_variance: float = 0.0,
    ) -> StateLaw:
        """The law of x_0 for a chain that starts at θ_0 ~ N(position, position_variance), likewise its momentum.

        Until update τ a stale gradient is one taken at the start, as on a real server whose workers all read θ_0.
        SGLD has no momentum and ignores it.
        """
        mean = np.array([real_number("position", position) - self.target_mean, real_number("momentum", momentum)])
        spread = [("position_variance", position_variance), ("momentum_variance", momentum_variance)]
        variance = np.array([real_number(name, value, least=0) for name, value in spread])
        size = self.embedding.shape[1]
        return StateLaw(self.embedding @ mean[:size], (self.embedding * variance[:size]) @ self.embedding.T)

    def stationary(self) -> StateLaw:
        """The law that the chain converges to: start from it for a run without transient."""
        return StateLaw(np.zeros(len(self.noise)), self.covariance())

    def after(self, start: StateLaw, steps: int) -> StateLaw:
        """The law of x_l, from x_0 ~ ``start``, with l = ``steps``."""
        return next(islice(self._laws(start), whole_number("steps", steps), None))

    def trajectory(self, start: StateLaw, steps: int) -> Trajectory:
        """E θ_l and Var θ_l for l = 0, …, ``steps``; E(θ_l − μ)² is (mean − μ)² + variance."""
        laws = islice(self._laws(start), whole_number("steps", steps) + 1)
        moments = np.array([(law.mean[0], law.covariance[0, 0]) for law in laws])
        return Trajectory(self.target_mean + moments[:, 0], moments[:, 1])

    def finite_run(self, start: StateLaw, steps: int, *, linear: float = 1.0, quadratic: float = 0.0) -> FiniteRun:
        """Bias, variance and MSE of the sample average of φ(θ) = ``linear``·θ + ``quadratic``·θ², after every update.

        With m_l, P_l mean and covariance of x_l, C_{jl} = Cov(θ_j, θ_l) and α_l = linear + 2 quadratic E θ_l,

            Cov(φ_j, φ_l) = α_j α_l C_{jl} + 2 quadratic² C_{jl}²        (Isserlis).

        Summed over j ≤ l this needs no double loop: C_{jl} = (A^{l−j} P_j e_θ)_θ, so the sums are the first entries of
        u_l = A u_{l−1} + α_l P_l e_θ and G_l = A G_{l−1} Aᵀ + (P_l e_θ)(P_l e_θ)ᵀ. Work: L small matrix products.
        """
        alpha, beta = self._coefficients(linear, quadratic)
        length = whole_number("steps", steps, least=1)
        a, u, g = self.transition, np.zeros(len(self.noise)), np.zeros_like(self.transition)
        expected, covered = np.empty(length), np.empty(length)
        with np.errstate(over="ignore", invalid="ignore"):
            for index, law in enumerate(islice(self._laws(start), 1, length + 1)):
                mean, column = law.mean[0], law.covariance[:, 0]
                slope = alpha + 2 * beta * mean
                u = a @ u + slope * column
                g = a @ g @ a.T + np.outer(column, column)
                # φ(θ) − φ(μ) = α x + β x² with x = θ − μ, and Var(S_l) − Var(S_{l−1}) = 2 Cov(S_l, φ_l) − Var(φ_l).
                expected[index] = alpha * mean + beta * (mean**2 + column[0])
                covered[index] = 2 * (slope * u[0] + 2 * beta**2 * g[0, 0])
                covered[index] -= slope**2 * column[0] + 2 * beta**2 * column[0] ** 2
            count = np.arange(1, length + 1)
            excess = np.cumsum(expected) / count
            bias, variance = excess - beta * self.target_variance, np.cumsum(covered) / count**2
            mse = bias**2 + variance
        if not np.isfinite(mse).all():
            raise UnstableRecursion(self._explanation("it overflowed"))
        at_mean = self.target_mean * (linear + quadratic * self.target_mean)
        return FiniteRun(at_mean + excess, bias, variance, mse)

    def _coefficients(self, linear: float, quadratic: float) -> tuple[float, float]:
        """φ(μ + x) = φ(μ) + α x + β x²."""
        first, second = real_number("linear", linear), real_number("quadratic", quadratic)
        return first + 2 * second * self.target_mean, second

    def _laws(self, start: StateLaw) -> Iterator[StateLaw]:
        mean, covariance = start
        size = len(self.noise)
        if mean.shape != (size,) or covariance.shape != (size, size):
            problem = f"has a state of shape {mean.shape} where this chain's is ({size},)"
            raise ArgumentError("start", start, problem, "Make it with start() or stationary() of the same recursion.")
        a, shock = self.transition, self.noise @ self.noise.T
        while True:
            yield StateLaw(mean, covariance)
            with np.errstate(over="ignore", invalid="ignore"):
                mean, covariance = a @ mean, a @ covariance @ a.T + shock
            if not np.isfinite(covariance[0, 0] + mean[0]):
                raise UnstableRecursion(self._explanation("it overflowed"))

    def _lyapunov(self, columns: Array) -> Array:
        """P = A P Aᵀ + V Vᵀ = Σ_k A^k V Vᵀ A^kᵀ, by doubling: the first 2n terms are P_n + A^n P_n A^nᵀ."""
        if not self.stable:
            raise UnstableRecursion(self._explanation("it has no stationary law"))
        power, total = self.transition, columns @ columns.T
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(64):  # 2⁶⁴ terms: enough for any spectral radius that float64 tells from 1
                more = power @ total @ power.T
                total = total + more
                if np.abs(more).max() <= 1e-17 * np.abs(total).max():
                    return np.asarray((total + total.T) / 2)
                power = power @ power
        raise UnstableRecursion(self._explanation("its stationary law is out of reach of float64"))

    def _explanation(self, consequence: str) -> str:
        return (
            f"{self.description} is unstable, so {consequence}: the spectral radius of its recursion is "
            f"{self.spectral_radius:.6g}, and it must be below 1. Take a smaller step_size or less staleness; "
            "stalegrad.theory.stability_limit(curvature, staleness) is the largest stable step of SGLD."
        )
