"""Simulated clusters: traces in virtual time."""

from stalegrad.simulation.cluster import simulate
from stalegrad.simulation.laws import Constant, Exponential, Law, LogNormal, Network

__all__ = ["Constant", "Exponential", "Law", "LogNormal", "Network", "simulate"]
