"""Potentials of PyTorch modules: parameters as one flat vector, minibatches as tensors, gradients by autograd.

The only folder of potentials that imports torch, and only when a model is made.
"""

from stalegrad.potentials.frontends.torch.potential import TorchPotential

__all__ = ["TorchPotential"]
