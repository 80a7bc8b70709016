"""The same posterior with other gradients: less noise, other coordinates, another metric.

``base.py`` is what a wrapper passes on; ``variance.py`` measures what it gains. A wrapper changes how a gradient is
estimated, never what is sampled.
"""

from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.potentials.wrappers.control_variates import ControlVariates, control_variates
from stalegrad.potentials.wrappers.natural import natural
from stalegrad.potentials.wrappers.svrg import SVRG, svrg
from stalegrad.potentials.wrappers.variance import VarianceReport

__all__ = ["SVRG", "ControlVariates", "VarianceReport", "Wrapper", "control_variates", "natural", "svrg"]
