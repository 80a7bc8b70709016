"""What a kernel says of itself to those who do not look inside: diagnostics, planner, architectures, tests.

A kernel that says nothing is unknown, and is treated so: no theory is applied to it, and no advice given.
"""

from typing import ClassVar, Literal, Self

from stalegrad._internal.types import Array
from stalegrad.theory import Direction, LinearRecursion, Staleness


class Declared:
    """The defaults: all is unknown, or absent."""

    order: ClassVar[int] = 1
    """K: on a closed-form target the bias falls as h^K."""

    inertial: ClassVar[bool | None] = None
    """Whether a momentum carries θ on, so that what counts is h√λ and not hλ. None if unknown."""

    noise_coefficient: ClassVar[int | None] = None
    """Which of the ``coefficients`` is σ, where gradient and noise enter the formula as −h g + σ ζ and not apart. With
    σ = 0 the fused loop makes no noise at all."""

    remembers: ClassVar[bool] = False
    """Whether auxiliary variables other than a momentum, which may be drawn afresh, have to be kept between updates."""

    learns_metric: ClassVar[bool] = False
    """Whether it scales coordinates by what gradients have taught it, see :meth:`metric_scale`."""

    made_of_functions: ClassVar[bool] = False
    """Whether its settings are Python functions, which no table can hold."""

    theory_error: ClassVar[float] = 0.0
    """By how much the variance of real chains may differ from that of :meth:`recursion`, relative to it."""

    @property
    def takes_natural_gradients(self) -> bool:
        """Whether it wants G g in place of g, see :func:`stalegrad.potentials.natural`."""
        return False

    @property
    def fixed_friction(self) -> float | None:
        """B, where stale gradients take τhλ off a friction that could be made larger; None without one."""
        return None

    @property
    def thermostat(self) -> Literal["shared", "each"] | None:
        """Whether a friction adapts to what heats the momentum: one for all coordinates, or one for each."""
        return None

    @property
    def is_plain_langevin(self) -> bool:
        """Whether its updates are SGLD's: θ alone, moved by −h g + σ ζ."""
        return self.inertial is False and self.noise_coefficient is not None and not self.remembers

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One for each form that it has, to be tested on a posterior of curvature 41; see :mod:`stalegrad.testing`."""
        return ()

    @classmethod
    def has_theory(cls) -> bool:
        """Whether :meth:`recursion` is known."""
        return cls.recursion is not Declared.recursion

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """The chain along one direction of a Gaussian posterior, in coordinates θ divided by :meth:`metric_scale`.

        Args:
            h: step size.
            staleness: τ, or the probabilities of τ = 0, 1, 2, …
            direction: its curvature and gradient noise, in the same coordinates.
        """
        raise NotImplementedError(f"there is no theory of {type(self).__name__}")

    def metric_scale(self, mean_squares: Array, n_data: int) -> Array | float:
        """√G of the metric that gradients with these mean squares teach, with N data; 1 without one."""
        return 1.0

    def free_kinetic_temperature(self, h: float) -> float | None:
        """E q² of a momentum that no force acts on, which the integrator's error in the friction makes differ from T.

        None without a momentum.
        """
        return None

    def relative_noise(self, h: float, direction: Direction) -> float | None:
        """By how much gradient noise heats a direction, relative to T, to first order in h; None if unknown.

        An update adds gradient noise of variance h²v to injected noise: of 2hT without a momentum, so hv/(2T), and of
        2BhT with a friction, so hv/(2BT).
        """
        return None

    def drift_ahead(self, h: float, updates: float, owned: float = 0.0) -> float | None:
        """c: from the point of a gradient the chain is expected to move by c q in so many updates of step h.

        None for a chain without a momentum, which is expected to stay where it is.

        Args:
            h: step size.
            updates: τ, not necessarily whole.
            owned: a, of a force −aθ on the way.
        """
        return None

    def stability_limit(self, curvature: float, staleness: int) -> float | None:
        """The step size beyond which it blows up along a direction of curvature λ; None if there is no formula."""
        return None
