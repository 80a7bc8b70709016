"""The numbers of a recipe for SGD with momentum, in the units of a sampler."""

from math import sqrt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.kernels.schedules import Inverse


def step_and_friction(
    lr: float, momentum: float, n_data: int, gamma: float, power: float
) -> tuple[float | Inverse, float]:
    """h = √(lr/N), which decays where lr does, and B = (1 − m)/h; see :meth:`stalegrad.SGHMC.from_sgd`.

    >>> step_and_friction(0.01, 0.9, 100, 0.0, 0.75)
    (0.01, 10.0)
    """
    lr = real_number("lr", lr, above=0)
    m = real_number("momentum", momentum, least=0)
    if m >= 1:
        raise ArgumentError("momentum", momentum, "leaves no friction", "Give a number in [0, 1), such as 0.9.")
    h = sqrt(lr / whole_number("n_data", n_data, least=1))
    decays = real_number("gamma", gamma, least=0) > 0
    return Inverse(h, gamma, real_number("power", power, least=0) / 2) if decays else h, (1 - m) / h
