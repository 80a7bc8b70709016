"""One file a question. A check takes the evidence and gives its figure, with a finding if that is beyond its limit.

Limits are set such that both are needed: an effect that matters, and evidence that it is not chance. A check says what
it asks of the next run (:class:`~stalegrad.analysis.diagnostics.recommendation.Advice`), and sets no numbers.
"""

from stalegrad.analysis.diagnostics.checks.arrival import check_arrival
from stalegrad.analysis.diagnostics.checks.dropped import check_dropped
from stalegrad.analysis.diagnostics.checks.funnel import check_funnel
from stalegrad.analysis.diagnostics.checks.halving import check_step_halving
from stalegrad.analysis.diagnostics.checks.mixing import check_agreement, check_effective_draws
from stalegrad.analysis.diagnostics.checks.modes import check_modes
from stalegrad.analysis.diagnostics.checks.noise import check_gradient_noise
from stalegrad.analysis.diagnostics.checks.owned import check_owned
from stalegrad.analysis.diagnostics.checks.scales import check_scales
from stalegrad.analysis.diagnostics.checks.stiffness import check_staleness, check_step_size
from stalegrad.analysis.diagnostics.checks.tails import check_tails
from stalegrad.analysis.diagnostics.checks.temperatures import (
    check_configurational_temperature,
    check_kinetic_temperature,
)
from stalegrad.analysis.diagnostics.checks.transient import check_transient
from stalegrad.analysis.diagnostics.checks.warm_up import check_warm_up

__all__ = [
    "check_agreement",
    "check_arrival",
    "check_configurational_temperature",
    "check_dropped",
    "check_effective_draws",
    "check_funnel",
    "check_gradient_noise",
    "check_kinetic_temperature",
    "check_modes",
    "check_owned",
    "check_scales",
    "check_staleness",
    "check_step_halving",
    "check_step_size",
    "check_tails",
    "check_transient",
    "check_warm_up",
]
