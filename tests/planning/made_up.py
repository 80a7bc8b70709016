"""Calibrations that nobody measured, whose forecasts are known in closed form."""

from stalegrad.planning import Calibration, RoundTrip
from stalegrad.protocol.settings import Settings
from stalegrad.runs.jobs import JobFile, ModelFunction

GRADIENT, SERVED, EXCHANGE = 10e-3, 0.5e-3, 1.5e-3
CYCLE = GRADIENT + SERVED + EXCHANGE


def trip(workers, *, rate=None, gradient=GRADIENT, served=SERVED):
    """A run with W workers that do not disturb each other, unless another rate is given."""
    rate = workers / CYCLE if rate is None else rate
    return RoundTrip(workers, gradient, served, rate, workers - 1.0)


def calibration(*trips, **changes):
    settings = {
        "engine": "processes",
        "cores": 2,
        "servers": 1,
        "parameters": 1000,
        "message_bytes": 4000,
        "wire_bytes": (4000, 4000),
        "n_data": 10_000,
        "batch_size": 100,
        "gradients": {50: 6e-3, 100: 10e-3, 200: 18e-3, 400: 34e-3},
        "variation": 0.0,
        "update": 0.1e-3,
        "busy_elsewhere": 0.0,
        "round_trips": trips or (trip(1), trip(2)),
    }
    return Calibration(**settings | changes)


def job(step_size=1e-4, **changes):
    settings = {
        "model": ModelFunction("stalegrad.datasets.models:gaussian", {"n_data": 100, "batch_size": 10}),
        "kernel": {"name": "SGLD", "step_size": step_size},
        "settings": Settings(steps=11_000, burn_in=1000),
    }
    return JobFile(**settings).changed(**changes)
