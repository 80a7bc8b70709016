"""Does the noise of minibatches drown the noise that the sampler injects?"""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.theory import Direction

LIMIT = 1.0
MEAN_LIMIT = 0.2


def check_gradient_noise(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Gradient noise above the injected noise along some direction, or above a fifth of it on average.

    SGLD adds gradient noise h²V to injected noise 2hT, so the measure is V against 2T/h; for other samplers see
    :meth:`stalegrad.kernels.Kernel.relative_noise`. Where the ratio is 1 the variance of that
    direction comes out twice as large as it is. Near a mode V is about N/J times the curvature, so it is the stiffest
    directions that suffer, by N/J times as much as from the step size itself. Looked at are the mean of all
    coordinates, the principal direction of the noise and the stiffest direction of the posterior.

    From 16 pairs of gradients, the least there are, the ratio along a direction is known to some 35 % (√(2/16)) and
    does not err on the high side on average: a true ratio of a half is called too large about once in a hundred runs,
    and more seldom where more gradients can be afforded. Minibatches that are reshuffled make less noise over an epoch
    than independent ones, which is not taken into account.
    """
    kernels, noise = evidence.need_kernels(), evidence.noise
    directions = {"along its principal direction": (noise.largest, noise.direction)}
    if evidence.curvature.value > 0:
        stiffest = evidence.curvature.direction
        directions["along the posterior's stiffest direction"] = (noise.along(stiffest), stiffest)
    found: list[tuple[float, float, str, int]] = []
    for chain, kernel in enumerate(kernels):
        h = float(evidence.steps[chain])
        found += [
            (
                _relative_noise(kernel, h, _direction(kernel, variance, v, noise.mean, noise.variances)),
                LIMIT,
                name,
                chain,
            )
            for name, (variance, v) in directions.items()
        ]
        if kernel.thermostat is None:  # the thermostat absorbs the mean
            found.append((_relative_noise(kernel, h, Direction(0, noise.mean)), MEAN_LIMIT, "on average", chain))
    ratio, limit, where, chain = max(found, key=lambda entry: entry[0] / entry[1])
    what = f"{where}, the noise of minibatches is {ratio:.2g} times the injected noise"
    measured = Measurement("gradient noise", ratio, limit, what)
    if ratio <= limit:
        return measured, None
    return measured, Finding(
        measured,
        "serious" if ratio > 3 * limit else "warning",
        f"It adds {ratio:.0%} to variances {where}, and nothing in the sampler makes up for it.",
        "A shorter step or larger minibatches.",
        Advice(noise=limit / (2 * ratio)),
    )


def _relative_noise(kernel: Kernel, h: float, direction: Direction) -> float:
    ratio = kernel.relative_noise(h, direction)
    if ratio is None:
        raise NotChecked("the kernel does not say how gradient noise heats it")
    return ratio


def _direction(kernel: Kernel, variance: float, v: Array, mean: float, variances: Array) -> Direction:
    """Thermostats of each coordinate see the mean over the coordinates that the direction is made of."""
    if kernel.thermostat == "each":
        mean = float(np.square(v) @ variances)
    return Direction(0, variance, mean_noise=mean)


def batch_size_for(potential: Potential, less: float) -> int:
    """The minibatch with ``less`` times the noise, which goes as 1/J − 1/N without replacement, and as 1/J with it."""
    rest = 0.0 if potential.minibatches.scheme == "replacement" else 1 / potential.n_data
    return int(np.ceil(1 / (rest + (1 / potential.batch_size - rest) * less)))
