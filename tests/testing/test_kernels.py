"""Every kernel keeps the promises of the conformance suite, and the suite notices kernels that do not."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels import SAMPLERS, Kernel, Overdamped, Update, jitable
from stalegrad.testing import check_kernel, example_kernels

EXAMPLES = example_kernels()


@pytest.mark.parametrize("name", EXAMPLES)
def test_stalegrads_own(name):
    kernel = EXAMPLES[name]
    exact = "SGNHT" not in name or name == "SGNHT-each-euler"  # others sum over coordinates, or use exp
    check_kernel(kernel, exact=exact, statistics=not kernel.takes_natural_gradients)  # those are for positive θ


def test_every_sampler_has_examples():
    assert {type(kernel) for kernel in EXAMPLES.values()} == {s for s in SAMPLERS.values() if not s.made_of_functions}


# A sampler of a user's own, with public names alone: BBK-like Langevin dynamics in a fixed diagonal metric.


@jitable
def scaled(g: Any, scale: Any) -> Any:
    return scale * g


def formula(theta, g, z, h, sigma, scale):
    """θ ← θ − h s g + √s σ ζ."""
    return theta - h * scaled(g, scale) + sigma * z


class State(NamedTuple):
    position: Any


@dataclass(frozen=True, kw_only=True)
class Scaled(Kernel):
    """The short way: state, formula, start, coefficients."""

    scale: float = 2.0

    updates = Update(State, formula)

    def start(self, position, address):
        return State(position)

    def coefficients(self, h, h_next):
        return h, sqrt(2 * h * self.temperature * self.scale), self.scale


def test_a_kernel_of_ones_own_that_says_nothing_of_itself():
    kernel = Scaled(step_size=0.002)
    check_kernel(kernel, exact=True)
    assert not kernel.has_theory()
    assert kernel.inertial is None


@pytest.mark.long
def test_a_kernel_of_ones_own_in_a_compiled_block(monkeypatch):
    from stalegrad.protocol import executor

    model = sg.potentials.GaussianMean(np.arange(30.0).reshape(10, 3) / 10, batch_size=2)
    trace, kernel = sg.Trace.constant_staleness(2, 300, seed=5), Scaled(step_size=0.01)
    plain = sg.replay(trace, model, kernel)
    used = []
    real = executor.execute_block
    monkeypatch.setattr(executor, "execute_block", lambda *a: used.append(1) or real(*a))
    monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
    np.testing.assert_array_equal(sg.replay(trace, model, kernel).draws, plain.draws)
    assert used


def test_what_is_unknown_is_not_advised_on():
    model = sg.potentials.GaussianMean(np.zeros((10, 2)), batch_size=2)
    with pytest.raises(sg.ArgumentError, match="is no sampler whose theory is known here"):
        sg.find_step_size(model, Scaled(step_size="auto"), progress=False)


class WrongState(NamedTuple):
    position: Any


@dataclass(frozen=True, kw_only=True)
class TooHot(Scaled):
    """√(2hT) in place of √(2hTs): a variance of a half."""

    updates = Update(WrongState, formula)

    def start(self, position, address):
        return WrongState(position)

    def coefficients(self, h, h_next):
        return h, sqrt(2 * h * self.temperature), self.scale


@dataclass(frozen=True, kw_only=True)
class TooProud(Scaled):
    """An order that Euler's scheme does not have."""

    order: ClassVar[int] = 2


@dataclass(frozen=True, kw_only=True)
class OtherTheory(Scaled, Overdamped):
    """SGLD's theory, which knows nothing of the scale."""


@dataclass(frozen=True, kw_only=True)
class Forgetful(Scaled):
    """Its updates depend on how many there were in this process."""

    def advance(self, state, gradient, coefficients, address, split=None):
        _made.append(address)
        super().advance(state, gradient * (1 + 0.01 * len(_made)), coefficients, address)


_made: list[Any] = []


@dataclass(frozen=True, kw_only=True)
class Misplaced(Scaled):
    """Names h for σ."""

    noise_coefficient: ClassVar[int | None] = 0


@pytest.mark.parametrize(
    ("kernel", "promise"),
    [
        (TooHot(step_size=0.002), "at half of it .* does not fall as h|far off"),
        (TooProud(step_size=0.002), r"does not fall as h\^2, which is the order declared"),
        (OtherTheory(step_size=0.002), "its theory says"),
        (Forgetful(step_size=0.002), "differs from|goes on otherwise"),
        (Misplaced(step_size=0.002), "coefficient number 0 is not σ"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Kernel) else "",
)
def test_a_broken_promise_is_named(kernel, promise):
    with pytest.raises(AssertionError, match=promise):
        check_kernel(kernel)
