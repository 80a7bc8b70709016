"""Conformance suites for kernels, potentials, engines and architectures, ours and yours.

A check raises AssertionError that names the broken promise. Public: what passes here works with all the rest.
"""

from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.testing.architectures import check_architecture
from stalegrad.testing.engines import (
    ARCHITECTURES,
    HOSTILE,
    KERNELS,
    check_architectures,
    check_bound,
    check_engine,
    check_faults,
    check_hostile_network,
    check_replay,
    check_shards,
    check_step_size_per_chain,
    check_variance_reduction,
)
from stalegrad.testing.faulty_model import FaultyModel
from stalegrad.testing.kernels import check_kernel, example_kernels
from stalegrad.testing.potentials import check_potential
from stalegrad.testing.promises import small_logistic, small_model

__all__ = [
    "ARCHITECTURES",
    "HOSTILE",
    "KERNELS",
    "FaultyModel",
    "HostileNetwork",
    "check_architecture",
    "check_architectures",
    "check_bound",
    "check_engine",
    "check_faults",
    "check_hostile_network",
    "check_kernel",
    "check_potential",
    "check_replay",
    "check_shards",
    "check_step_size_per_chain",
    "check_variance_reduction",
    "example_kernels",
    "small_logistic",
    "small_model",
]
