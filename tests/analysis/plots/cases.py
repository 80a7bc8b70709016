"""Runs to draw: small real ones, and draws made up to have known properties."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import stalegrad as sg
from stalegrad.engines import Inline
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import DrawStats
from stalegrad.protocol.trace import Trace

DATA = np.random.Generator(np.random.Philox(key=12)).standard_normal((40, 5))
STRAGGLER = Inline(compute=sg.LogNormal(1.0, 0.4, factors={2: 4.0}), update=0.01)


def model():
    return sg.potentials.GaussianMean(DATA, batch_size=4)


def sample(kernel=None, **options):
    """Three chains of three workers, the last of whom is slow, and a bound that drops some of his gradients."""
    usual = {
        "steps": 300, "servers": 3, "workers": 3, "max_staleness": 6, "burn_in": 30, "thin": 2, "engine": STRAGGLER,
        "progress": False,
    }  # fmt: skip
    return sg.sample(model(), kernel or sg.SGHMC(step_size=0.02, friction=5.0), **{**usual, **options})


def uneven(lengths=(200, 120, 60)):
    """Chains of different lengths, as in a run that was stopped."""
    run = sample(steps=200, burn_in=0, thin=1)
    chains = tuple(chain.head(length) for chain, length in zip(run.trace.chains, lengths, strict=True))
    return sg.replay(replace(run.trace, chains=chains), model(), sg.SGHMC(step_size=0.02, friction=5.0))


def without_draws():
    """Stopped during burn-in."""
    run = sample()
    chains = tuple(chain.head(10) for chain in run.trace.chains)
    empty = {"draws": run.draws[:, :0], "chain_draws": tuple(chain[:0] for chain in run.chain_draws)}
    stats = DrawStats(*(column[:, :0] for column in run.stats))
    return replace(run, trace=replace(run.trace, chains=chains), stats=stats, **empty)


@dataclass(frozen=True, eq=False)
class Made:
    """What pictures need of a run, around draws (chain, draw, n) of any kind."""

    draws: Any
    trace: Trace = field(init=False)
    chain_draws: tuple = ()
    events: tuple = ()
    timing: Any = None

    def variables(self, draws):
        return {"theta": draws}

    def __post_init__(self):
        chains, draws, _ = self.draws.shape
        chain = Trace.constant_staleness(0, draws).chains[0].columns()
        chain |= {"step_size": np.full(draws, 0.1), "time": np.arange(1.0, draws + 1)}
        object.__setattr__(self, "trace", Trace((ChainTrace(**chain),) * chains))

    @property
    def stats(self):
        return DrawStats(*np.full((2, *self.draws.shape[:2]), np.nan))


def autoregression(rho, shape, seed):
    """Stationary, mean 0, variance 1: x_l = ρ x_{l−1} + √(1 − ρ²) ε_l along the second axis."""
    noise = np.random.Generator(np.random.Philox(key=seed)).standard_normal(shape)
    x = np.empty(shape)
    x[:, 0] = noise[:, 0]
    for step in range(1, shape[1]):
        x[:, step] = rho * x[:, step - 1] + np.sqrt(1 - rho**2) * noise[:, step]
    return x
