"""How to choose S, W, J and h for a job: short measurements on this machine, then a simulated cluster.

``timing.py`` has the clock, ``calibration.py`` the measurements, ``contention.py`` the machine at hand,
``step_sizes.py`` the curvature, ``advice.py`` the choice and its reasons, and ``forecast.py`` puts them together.
``machines.py`` lays chains and workers out on machines that are named, ``layout_advice.py`` chooses among them.
``stalegrad plan job.toml`` prints what comes out.
"""

from stalegrad.planning.advice import Advice, Targets, advise
from stalegrad.planning.calibration import Calibration, calibrate
from stalegrad.planning.cluster import Cluster
from stalegrad.planning.contention import Times, times_here
from stalegrad.planning.forecast import Forecast, forecast
from stalegrad.planning.layout_advice import advise_layout
from stalegrad.planning.machines import Layout, Machines, layouts
from stalegrad.planning.row import Row
from stalegrad.planning.step_sizes import StepSizes
from stalegrad.planning.timing import RoundTrip

__all__ = [
    "Advice",
    "Calibration",
    "Cluster",
    "Forecast",
    "Layout",
    "Machines",
    "RoundTrip",
    "Row",
    "StepSizes",
    "Targets",
    "Times",
    "advise",
    "advise_layout",
    "calibrate",
    "forecast",
    "layouts",
    "times_here",
]
