"""Softmax regression of MNIST's shape: 784 pixels and an intercept, ten classes, 7,850 weights, on made-up images.

Too many weights for a dense matrix of coordinates, and curvatures from that of the prior, in the many directions that
no image has anything to say of, to some thousand times it along the mean image. A common shift of all classes is known
from the prior alone.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic, Values

SIDE, CLASSES, PRIOR = 28, 10, 0.5


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


def softmax() -> Classic:
    """2,000 images; for NUTS in coordinates that whiten the second moments of the pixels."""
    pixels, labels = images(2000, np.random.default_rng(191))
    x = np.column_stack([np.ones(len(pixels)), pixels])
    curvature = x.T @ x * (CLASSES - 1) / CLASSES**2 + np.eye(x.shape[1]) / PRIOR**2
    root = np.linalg.inv(np.linalg.cholesky(curvature)).T

    def whiten(z: Values) -> Values:
        return {"weights": jnp.asarray(root) @ z["weights"]}

    return Classic(model, {"x": x, "y": labels}, batch_size=100, whiten=whiten, nuts=(2, 150, 400))
