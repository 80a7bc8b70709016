"""Samplers: what a kernel is, and stalegrad's own.

A sampler is registered by its line below. Its name in tables and on the command line, its place in the conformance
tests and all other lists of kernels follow from that.
"""

from stalegrad._internal.jit import jitable as jitable
from stalegrad.kernels import metrics as metrics
from stalegrad.kernels import schedules as schedules
from stalegrad.kernels import temperatures as temperatures
from stalegrad.kernels.base import SAMPLERS as SAMPLERS
from stalegrad.kernels.base import Address as Address
from stalegrad.kernels.base import Kernel as Kernel
from stalegrad.kernels.base import initial_momentum as initial_momentum
from stalegrad.kernels.families import Kinetic as Kinetic
from stalegrad.kernels.families import Overdamped as Overdamped
from stalegrad.kernels.fused import Update as Update
from stalegrad.kernels.linear import Linear as Linear
from stalegrad.kernels.samplers.baoab import BAOAB as BAOAB
from stalegrad.kernels.samplers.harmonic import Harmonic as Harmonic
from stalegrad.kernels.samplers.psgld import PSGLD as PSGLD
from stalegrad.kernels.samplers.recipe import Auxiliary as Auxiliary
from stalegrad.kernels.samplers.recipe import Recipe as Recipe
from stalegrad.kernels.samplers.sghmc import SGHMC as SGHMC
from stalegrad.kernels.samplers.sgld import SGLD as SGLD
from stalegrad.kernels.samplers.sgnht import SGNHT as SGNHT
from stalegrad.kernels.samplers.sgrld import SGRLD as SGRLD
from stalegrad.kernels.samplers.ubu import UBU as UBU
from stalegrad.kernels.tables import kernel_from_table as kernel_from_table
from stalegrad.kernels.tables import kernel_table as kernel_table
