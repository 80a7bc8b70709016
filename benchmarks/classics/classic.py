"""A model with its data, as a user would write it, and what is compared with its reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Classic:
    """One posterior.

    Args:
        model: in NumPyro, a function of ``data`` and, if it can be subsampled, of ``batch_size``.
        data: the keyword arguments of the model: made-up arrays, and constants.
        batch_size: J of its plate; None if every gradient looks at all data.
        predictions: from the model's unconstrained sites to the numbers by which it is judged; None for the
            unconstrained parameters themselves.
        reference_model: a model of the same law that NUTS can sample; None for the model itself.
        to_sites: from draws of the sites of the reference model, on their own scale, to those of the model's.
        whiten: for NUTS, from sites z that have about unit curvature to the model's, a linear map; None for the model
            as it is.
        nuts: chains, draws for adaptation and draws of the reference.
        acceptance: that NUTS adapts its step for: higher where the posterior has narrow places.
        start: where NUTS starts, sites by name on their own scale; None for a random place.
    """

    model: Callable[..., Any]
    data: Mapping[str, Any]
    batch_size: int | None = None
    predictions: Callable[[Values], Any] | None = None
    reference_model: Callable[..., Any] | None = None
    to_sites: Callable[[Values], Values] | None = None
    whiten: Callable[[Values], Values] | None = None
    nuts: tuple[int, int, int] = (8, 600, 1000)
    acceptance: float = 0.9
    start: Mapping[str, Any] | None = None

    def potential(self) -> Any:
        """As a user makes it: ``from_numpyro`` and nothing else."""
        from stalegrad.potentials import from_numpyro

        subsample = {} if self.batch_size is None else {"batch_size": self.batch_size}
        return from_numpyro(self.model, **self.data, **subsample)

    def judged(self, potential: Any, draws: Any) -> dict[str, Any]:
        """What is compared, by name: draws (chain, draw, n) as arrays (chain, draw, …)."""
        if self.predictions is None:
            return split(draws, potential.layout)
        rows = np.asarray(draws, potential.dtype).reshape(-1, potential.size)
        return {"predictions": self.predictor(potential)(rows).reshape(*draws.shape[:2], -1)}

    def predictor(self, potential: Any) -> Callable[[Any], Any]:
        """From rows of θ, (row, n), to what they predict, (row, k): compiled once for each number of rows."""
        import jax

        predict = jax.jit(lambda rows: jax.lax.map(lambda row: self.predictions(potential.unravel(row)), rows))
        return lambda rows: np.asarray(predict(rows))


def split(draws: Any, layout: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Flat draws (…, n) as arrays (…, size), one for each site of the layout."""
    sizes = [int(np.prod(shape)) for shape in layout.values()]
    parts = np.split(np.asarray(draws), np.cumsum(sizes)[:-1], axis=-1)
    return dict(zip(layout, parts, strict=True))
