"""Simulated clusters: traces in virtual time, for any number of workers on one processor.

``cluster.py`` is a queue of events, ``laws.py`` the distributions of computing and travelling times. No gradient is
computed here: the inline engine executes the traces.
"""

from stalegrad.engines.simulation.cluster import simulate
from stalegrad.engines.simulation.laws import Constant, Exponential, Law, LogNormal, Network

__all__ = ["Constant", "Exponential", "Law", "LogNormal", "Network", "simulate"]
