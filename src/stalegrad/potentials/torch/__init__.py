"""Potentials of PyTorch modules. The only folder of potentials that imports torch."""

from stalegrad.potentials.torch.potential import TorchPotential

__all__ = ["TorchPotential"]
