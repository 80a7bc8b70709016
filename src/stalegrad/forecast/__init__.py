"""How to choose S, W, J and h for a job: short measurements on this machine, then a simulated cluster.

``calibration.py`` has the clock, ``contention.py`` the machine at hand, ``step_sizes.py`` the curvature, ``advice.py``
the choice and its reasons, and ``forecast.py`` puts them together. ``stalegrad plan job.toml`` prints what comes out.
"""

from stalegrad.forecast.advice import Advice, Wishes, advise
from stalegrad.forecast.calibration import Calibration, RoundTrip, calibrate
from stalegrad.forecast.cluster import Cluster
from stalegrad.forecast.contention import Times, times_here
from stalegrad.forecast.forecast import Forecast, forecast
from stalegrad.forecast.row import Row
from stalegrad.forecast.step_sizes import StepSizes

__all__ = [
    "Advice",
    "Calibration",
    "Cluster",
    "Forecast",
    "RoundTrip",
    "Row",
    "StepSizes",
    "Times",
    "Wishes",
    "advise",
    "calibrate",
    "forecast",
    "times_here",
]
