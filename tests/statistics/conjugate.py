"""The conjugate model of the statistical checks: a normal prior, normal data around it, a normal posterior."""

from dataclasses import dataclass

import numpy as np

from stalegrad.potentials import GaussianMean


@dataclass(frozen=True)
class NormalMean:
    """θ_c ~ N(0, ς²) and d_ic ~ N(θ_c, σ²) for i = 1, …, N, in n independent coordinates c; gradients see J of N data.

    The posterior of a coordinate is N(κ d̄, 1/λ) with λ = 1/ς² + N/σ² and κ = N/(σ²λ). Few and noisy data keep the
    posterior (variance ⅓) near the prior (variance 1), so that neither check has to wait for a slow joint chain.

    Args:
        coordinates: n.
        n_data: N.
        batch_size: J.
        noise_scale: σ.
        prior_scale: ς.
    """

    coordinates: int
    n_data: int = 8
    batch_size: int = 2
    noise_scale: float = 2.0
    prior_scale: float = 1.0

    def parameters(self, rng: np.random.Generator) -> np.ndarray:
        """θ from the prior."""
        return self.prior_scale * rng.standard_normal(self.coordinates)

    def data(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Data (N, n) given θ."""
        return theta + self.noise_scale * rng.standard_normal((self.n_data, self.coordinates))

    def potential(self, data: np.ndarray) -> GaussianMean:
        """What the sampler is given. It keeps the array itself, so new data may be written into it."""
        scales = {"noise_scale": self.noise_scale, "prior_scale": self.prior_scale}
        return GaussianMean(data, batch_size=self.batch_size, dtype=np.float64, **scales)

    @property
    def curvature(self) -> float:
        """λ."""
        return self.prior_scale**-2 + self.n_data * self.noise_scale**-2

    @property
    def weight_of_data(self) -> float:
        """κ."""
        return self.n_data * self.noise_scale**-2 / self.curvature

    def gradient_variance(self, sample_variance: np.ndarray | None = None) -> np.ndarray:
        """v = (N²/J)(1 − J/N) s²/σ⁴ of a gradient on a random subset; s² is σ² on average over data sets."""
        spread = self.noise_scale**2 if sample_variance is None else sample_variance
        share = self.batch_size / self.n_data
        return np.asarray(self.n_data**2 / self.batch_size * (1 - share) * spread / self.noise_scale**4)
