"""The complete recipe: a sampler from any D(x) and Q(x) (Ma, Chen and Fox, NeurIPS 2015)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError, MissingExtra
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.kernels.base import Address, Kernel, start_normals
from stalegrad.kernels.fused import Split, whole
from stalegrad.kernels.noise import Stream, normals

if TYPE_CHECKING:
    from stalegrad.kernels.recipe_jax import Dynamics

POSITION = "position"

Blocks = Any
"""What D and Q return: a mapping from (row, column) names to blocks, a matrix (m, m), a diagonal (m,) or a number."""


@dataclass(frozen=True)
class Auxiliary:
    """A block of auxiliary variables.

    Args:
        size: how many; None for as many as θ has.
        start: the value that they start from; None for N(0, T).

    >>> Auxiliary(size=1, start=0.5)
    Auxiliary(size=1, start=0.5)
    """

    size: int | None = None
    start: float | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            whole_number("size", self.size, least=1)
        if self.start is not None:
            real_number("start", self.start)


def _one_momentum() -> dict[str, Auxiliary]:
    return {"momentum": Auxiliary()}


class State(NamedTuple):
    """What a chain of a recipe carries: θ, and the auxiliary variables of all blocks side by side."""

    position: Any
    auxiliary: Any


@dataclass(frozen=True, kw_only=True)
class Recipe(Kernel):
    r"""The diffusion that has p(θ|D)^(1/T) for a marginal, whatever the positive semidefinite D and the skew Q.

    .. math:: dx = \bigl[−(D(x)+Q(x))\,∇H(x) + T\,Γ(x)\bigr]\,dt + \sqrt{2T\,D(x)}\,dW,\quad
        Γ_i = \sum_j \frac{∂}{∂x_j}\bigl(D_{ij}(x)+Q_{ij}(x)\bigr)

    x is θ and the auxiliary variables, and H(x) = U(θ) + energy(x). The gradient of U is what workers send. The
    gradient of the energy and Γ come from automatic differentiation by JAX: D, Q and the energy are functions of JAX's,
    of a mapping from the names of the blocks ("position", "momentum", …) to vectors. The result of D and Q may be

    * a mapping from pairs of names to blocks, in which a number c stands for c I, a vector for a diagonal or for a
      block of one row or column, one name for the pair of it with itself, and what is missing for zero;
    * a matrix (m, m) for all m variables in the order of the blocks, a vector (m,) or a number for a diagonal.

    Every such diffusion is a sampler, and every sampler of this kind is such a diffusion. SGHMC is

    >>> friction = 2.0
    >>> kernel = Recipe(
    ...     D=lambda x: {"momentum": friction},
    ...     Q=lambda x: {("position", "momentum"): -1.0, ("momentum", "position"): 1.0},
    ...     step_size=1e-2,
    ...     sequence=("momentum", "position"),
    ... )

    and the Riemannian SGRHMC has √G(θ) in place of 1 in Q, with a minus sign in the upper half, and G(θ) in D.

    The integrator is Euler's, order K = 1: of all blocks at once, or, with ``sequence``, of one after the other with
    drifts from the newest values of the others, which is far more stable where there is a momentum.

    Matrices are dense, and Γ takes m³ numbers: it is for models of up to some hundred parameters. Where a built-in
    sampler does the same, it is much faster.

    Args:
        D: positive semidefinite; checked where a chain starts and at points around.
        Q: skew-symmetric; checked as well. None for zero.
        step_size: h, a number or a schedule.
        auxiliary: blocks of auxiliary variables by name. One momentum like θ by default; {} for none.
        energy: what H has besides U, a number; None for half the squared length of the auxiliary variables.
        sequence: the names of all blocks, in the order in which they are updated; None for all at once.
        temperature: T, 1 for the posterior.
    """

    D: Callable[[Mapping[str, Any]], Blocks] = field(kw_only=False)
    Q: Callable[[Mapping[str, Any]], Blocks] | None = field(default=None, kw_only=False)
    auxiliary: Mapping[str, Auxiliary] = field(default_factory=_one_momentum, hash=False)
    energy: Callable[[Mapping[str, Any]], Any] | None = None
    sequence: Sequence[str] | None = None

    made_of_functions: ClassVar[bool] = True
    remembers: ClassVar[bool] = True  # nobody but its author knows which blocks may be drawn afresh

    _compiled: dict[Any, "Dynamics"] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("D", "Q", "energy"):
            function = getattr(self, name)
            if not (callable(function) or (function is None and name != "D")):
                raise ArgumentError(name, function, "cannot be called", "Give a function of the blocks of x.")
        object.__setattr__(self, "auxiliary", dict(self.auxiliary))
        for name, block in self.auxiliary.items():
            if not isinstance(block, Auxiliary) or name == POSITION:
                remedy = 'Give blocks besides the position, such as {"momentum": sg.Auxiliary()}.'
                raise ArgumentError("auxiliary", {name: block}, "is no block of auxiliary variables", remedy)
        if self.sequence is not None:
            object.__setattr__(self, "sequence", tuple(self.sequence))
            if sorted(self.sequence) != sorted((POSITION, *self.auxiliary)):
                names = ", ".join(map(repr, (POSITION, *self.auxiliary)))
                raise ArgumentError("sequence", self.sequence, "is not all blocks, each once", f"Order these: {names}.")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": {}}  # programs are made anew where they are wanted

    def start(self, position: Array, address: Address) -> State:
        """θ and the auxiliary variables, from N(0, T) or at their values; D and Q are looked at here."""
        sizes = self._sizes(position.shape[1])
        others = np.empty((position.shape[0], sum(sizes.values()) - position.shape[1]), position.dtype)
        others = start_normals(others, address) * others.dtype.type(np.sqrt(self.temperature))
        low = 0
        for name, block in self.auxiliary.items():
            if block.start is not None:
                others[:, low : low + sizes[name]] = block.start
            low += sizes[name]
        self._dynamics(position).check(np.concatenate([position[0], others[0]]))
        return State(position, others)

    def momentum(self, state: State) -> Array | None:
        """The block "momentum", if it is there and its energy is the usual one."""
        if "momentum" not in self.auxiliary or self.energy is not None:
            return None
        sizes = self._sizes(state.position.shape[1])
        names = list(self.auxiliary)
        low = sum(sizes[name] for name in names[: names.index("momentum")])
        part: Array = state.auxiliary[:, low : low + sizes["momentum"]]
        return part

    def noise_at(self, state: State, address: Address) -> Array:
        """One normal for each of the m variables, (R, m), those of θ first."""
        rows, size = state.position.shape
        seed, chain, update, repeat = address
        drawn = np.empty((rows, size + state.auxiliary.shape[1]), state.position.dtype)
        return normals(drawn, seed, Stream.UPDATE, chain, update, first_repeat=repeat)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h and T; everything else comes from the user's functions."""
        return h, self.temperature

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of NumPy arrays."""
        theta, others = (np.asarray(array) for array in state)
        c = np.array(self.coefficients(h, h), theta.dtype)
        x = self._dynamics(theta).advance(np.concatenate([theta, others], axis=1), np.asarray(gradient), noise, *c)
        return State(x[:, : theta.shape[1]], x[:, theta.shape[1] :])

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One update in place, of all coordinates together: they depend on each other."""
        moved = self.step(state, gradient, self.noise_at(state, address), float(coefficients[0]))
        for array, new in zip(state, moved, strict=True):
            array[...] = new

    def _sizes(self, size: int) -> dict[str, int]:
        return {POSITION: size, **{name: block.size or size for name, block in self.auxiliary.items()}}

    def _dynamics(self, position: Array) -> "Dynamics":
        """The compiled step for a position of this size and type."""
        key = position.shape[1], position.dtype.str
        if key not in self._compiled:
            try:
                from stalegrad.kernels.recipe_jax import Dynamics
            except ModuleNotFoundError as error:
                if error.name is None or error.name.partition(".")[0] not in ("jax", "jaxlib"):
                    raise
                raise MissingExtra("Recipe", "jax") from error
            sizes = self._sizes(position.shape[1])
            self._compiled[key] = Dynamics(self.D, self.Q, self.energy, sizes, self.sequence, position.dtype)
        return self._compiled[key]
