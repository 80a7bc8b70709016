"""Samplers, one file each: the update formula, its fused loop, its state and the kernel a user holds."""

from stalegrad.kernels.baoab import BAOAB
from stalegrad.kernels.base import Address, Kernel
from stalegrad.kernels.psgld import PSGLD
from stalegrad.kernels.recipe import Auxiliary, Recipe
from stalegrad.kernels.sghmc import SGHMC
from stalegrad.kernels.sgld import SGLD
from stalegrad.kernels.sgnht import SGNHT
from stalegrad.kernels.sgrld import SGRLD
from stalegrad.kernels.tables import kernel_from_table, kernel_table
from stalegrad.kernels.ubu import UBU

__all__ = [
    "BAOAB",
    "PSGLD",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRLD",
    "UBU",
    "Address",
    "Auxiliary",
    "Kernel",
    "Recipe",
    "kernel_from_table",
    "kernel_table",
]
