"""Softmax regression of MNIST's shape: 784 pixels and an intercept, ten classes, 7,850 weights, on made-up images.

Too many weights for a dense matrix of coordinates, and curvatures from that of the prior, in the many directions that
no image has anything to say of, to some thousand times it along the mean image. A common shift of all classes is known
from the prior alone. 7,850 weights would make a reference of half a megabyte, so that it is judged by 200 quantities
of all kinds: some weights, some random sums of all of them, and the logits of images that it has not seen.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic, Values

SIDE, CLASSES, PRIOR = 28, 10, 0.5
UNSEEN, PROJECTIONS, SINGLE = 10, 50, 50
"""Images whose logits are looked at, random projections of the weights, and weights."""


def model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """y ~ Categorical(softmax(x W)), entries of W ~ N(0, ½²)."""
    weights = numpyro.sample("weights", dist.Normal(0.0, PRIOR).expand([x.shape[1], CLASSES]).to_event(2))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Categorical(logits=x[batch] @ weights), obs=y[batch])


def images(rows: int, rng: Any) -> tuple[Any, Any]:
    """Blobs that are a class's own, moved a little, over noise, with a dark frame of four pixels; and the classes."""
    grid = np.arange(SIDE)
    centres, labels = rng.uniform(8, 20, (CLASSES, 3, 2)), rng.integers(CLASSES, size=rows)
    where = centres[labels] + rng.normal(0, 2.0, (rows, 3, 2))
    bumps = np.exp(-np.square(grid - where[..., None]) / 8.0)
    pixels = np.einsum("nba,nbc->nac", bumps[:, :, 0], bumps[:, :, 1])
    pixels = np.clip(pixels + rng.normal(0, 0.1, pixels.shape), 0, 1)
    frame = (grid >= 4) & (grid < SIDE - 4)
    return (pixels * np.outer(frame, frame)).reshape(rows, -1), labels.astype(np.int32)


def _judged(rng: Any, size: int, unseen: Any) -> Any:
    """The logits, then the projections, then the weights themselves."""
    directions = rng.normal(size=(PROJECTIONS, size)) / np.sqrt(size)
    single = np.sort(rng.choice(size, SINGLE, replace=False))

    def predictions(sites: Values) -> Any:
        weights = sites["weights"]
        flat = weights.ravel()
        parts = (jnp.asarray(unseen, flat.dtype) @ weights).ravel(), jnp.asarray(directions, flat.dtype) @ flat
        return jnp.concatenate([*parts, flat[single]])

    return predictions


def _mode(x: Any, y: Any) -> Any:
    """The weights at which U is least."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    wanted = np.eye(CLASSES)[y]

    def energy(flat: Any) -> tuple[float, Any]:
        weights = flat.reshape(-1, CLASSES)
        logs = log_softmax(x @ weights, axis=1)
        slope = x.T @ (np.exp(logs) - wanted) + weights / PRIOR**2
        return float(np.square(weights).sum() / (2 * PRIOR**2) - (logs * wanted).sum()), slope.ravel()

    found = minimize(energy, np.zeros(x.shape[1] * CLASSES), jac=True, method="L-BFGS-B", options={"maxiter": 400})
    return found.x.reshape(-1, CLASSES)


@dataclass(frozen=True, eq=False)
class Whitening:
    """Coordinates for NUTS: along the sum of the classes the prior's scale, along what differs between them a root.

    The root is of the curvature at the mode, averaged over the contrasts of the classes: Xᵀ diag(d) X + I/½² with
    d = Σ_k p_k (1 − p_k)/9. In these coordinates the curvatures of 2,000 images were 0.015 to 5.3.
    """

    x: Any
    y: Any

    @cached_property
    def _factors(self) -> tuple[Any, Any]:
        from scipy.linalg import helmert
        from scipy.special import softmax as probabilities

        p = probabilities(self.x @ _mode(self.x, self.y), axis=1)
        weights = (p * (1 - p)).sum(axis=1) / (CLASSES - 1)
        curvature = (self.x * weights[:, None]).T @ self.x + np.eye(self.x.shape[1]) / PRIOR**2
        return np.linalg.inv(np.linalg.cholesky(curvature)).T, helmert(CLASSES, full=True)

    def __call__(self, z: Values) -> Values:
        """From z to the weights."""
        root, classes = (jnp.asarray(each) for each in self._factors)
        common, contrasts = PRIOR * z["weights"][:, :1], root @ z["weights"][:, 1:]
        return {"weights": jnp.concatenate([common, contrasts], axis=1) @ classes}


def softmax() -> Classic:
    """1,000 images."""
    rng = np.random.default_rng(191)
    pixels, labels = images(1000 + UNSEEN, rng)
    x = np.column_stack([np.ones(len(pixels)), pixels])
    x, unseen, y = x[:-UNSEEN], x[-UNSEEN:], labels[:-UNSEEN]
    return Classic(
        model, {"x": x, "y": y}, batch_size=100, whiten=Whitening(x, y), nuts=(3, 150, 1000), acceptance=0.8,
        predictions=_judged(rng, CLASSES * x.shape[1], unseen),
    )  # fmt: skip
