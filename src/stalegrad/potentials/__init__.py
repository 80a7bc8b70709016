"""Models in: the gradient of a potential on a minibatch, as the workers compute it.

Here are what a model is (``base.py``), which data a gradient sees (``minibatches/``), built-in models (``glm/``),
models of other libraries (``frontends/``), other gradients of the same posterior (``wrappers/``), priors, networks and
modes. Flat vectors only: nothing here depends on chains, servers or engines.
"""

from stalegrad.potentials import networks, priors
from stalegrad.potentials.base import Potential
from stalegrad.potentials.frontends import from_gradient, from_jax, from_loader, from_numpyro, from_torch
from stalegrad.potentials.glm import GaussianMean, Linear, Logistic, Softmax
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.wrappers import (
    SVRG,
    ControlVariates,
    VarianceReport,
    Wrapper,
    control_variates,
    natural,
    svrg,
)

__all__ = [
    "SVRG",
    "ControlVariates",
    "GaussianMean",
    "Linear",
    "Logistic",
    "Minibatches",
    "Potential",
    "Softmax",
    "VarianceReport",
    "Wrapper",
    "control_variates",
    "find_mode",
    "from_gradient",
    "from_jax",
    "from_loader",
    "from_numpyro",
    "from_torch",
    "natural",
    "networks",
    "priors",
    "svrg",
]
