"""Geweke's joint-distribution test: two ways to simulate parameters and data together must agree.

The marginal-conditional simulator draws θ from the prior and data given θ. The successive-conditional simulator goes on
from such a pair: new data given θ, a block of updates of the sampler given the data, new data, and so on. If the
sampler leaves the posterior invariant, the pair keeps its joint law, whatever the length of a block and however little
it mixes. What is compared are averages of

    θ,  θ²,  θ d̄  (d̄ the mean of the data that the block was given),  θ_c θ_{c+1}  (neighbouring coordinates).

*One chain goes on throughout.* Momentum, thermostat and metric stay as a block leaves them: they are independent of the
data, so the joint law of everything stays invariant. Stale gradients at the start of a block are taken at points of the
block before, as on a server to whose model new data come.

*Standard errors need no estimate of autocorrelation.* There are many independent chains, each of them in its
stationary law from the first update on. The averages of whole chains are compared, by Welch's t test.

*The sampler's own error is allowed for, and small.* E θ² and E θ d̄ of the successive-conditional simulator are known
exactly (:func:`~.exact_law.joint_moments`); the difference counts only as far as it goes beyond that.

References:
    J. Geweke (2004). Getting it right: joint distribution tests of posterior simulators. JASA 99.
"""

import numpy as np
from scipy import stats

from stalegrad.protocol.chain import Chain, Each
from stalegrad.protocol.executor import Executor
from stalegrad.protocol.trace import Trace

from .cases import Case
from .conjugate import NormalMean
from .exact_law import joint_moments

MOMENTS = ("θ", "θ²", "θ·data", "θθ′")


def marginal_conditional(model: NormalMean, *, pairs: int, seed: int) -> np.ndarray:
    """Moments of independent pairs, (pair, moment)."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    moments = np.empty((pairs, len(MOMENTS)))
    for number in range(pairs):
        theta = model.parameters(rng)
        moments[number] = _moments(theta, model.data(theta, rng))
    return moments


def successive_conditional(
    case: Case, trace: Trace, model: NormalMean, believed: NormalMean, *, block: int, chains: int, seed: int
) -> np.ndarray:
    """Moments on average over each chain, (chain, moment).

    Args:
        case: the sampler.
        trace: which every chain executes, a whole number of blocks.
        model: from which parameters and data come.
        believed: from which the sampler's potential comes; the same, unless the sampler is to be wrong.
        block: updates between new data.
        chains: how many.
        seed: of everything.
    """
    rng = np.random.Generator(np.random.Philox(key=seed))
    moments = np.zeros((chains, len(MOMENTS)))
    for number in range(chains):
        theta = model.parameters(rng)
        data = model.data(theta, rng)
        potential = believed.potential(data)
        chain = Chain(case.kernel, theta[np.newaxis], seed, number)
        case.prepare(chain.state, rng)
        execution = Executor(trace.chains[0], potential, chain, Each(lambda *_: None))
        blocks = 0
        while not execution.done:
            data[...] = model.data(chain.position[0], rng)
            execution.advance(block)
            moments[number] += _moments(chain.position[0], data)
            blocks += 1
        moments[number] /= blocks
    return moments


def _moments(theta: np.ndarray, data: np.ndarray) -> np.ndarray:
    """On average over coordinates, which are alike."""
    return np.array([
        theta.mean(), (theta**2).mean(), (theta * data.mean(axis=0)).mean(), (theta[1:] * theta[:-1]).mean()
    ])  # fmt: skip


def allowances(case: Case, trace: Trace, model: NormalMean, *, block: int) -> np.ndarray:
    """How far the sampler's own error may move each moment.

    Means are 0 and coordinates uncorrelated whatever the step size. What the linear chain does not know of the
    variance, ``case.beyond``, counts as that much more temperature.
    """
    staleness = trace.chains[0].staleness.tolist()
    v, variance = float(model.gradient_variance()), model.prior_scale**2
    given = {"prior": variance, "weight": model.weight_of_data, "error": model.noise_scale**2 / model.n_data}

    def moments(temperature: float) -> np.ndarray:
        return np.array(joint_moments(lambda tau: case.recursion(tau, v, temperature), staleness, block, **given))

    known = moments(1.0)
    bound = np.abs(known - variance) + (moments(1 + case.beyond(max(staleness))) - known)
    return np.array([0.0, *bound, 0.0])


def compare(successive: np.ndarray, marginal: np.ndarray, allowance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z, the differences in standard errors, and p-values of what is beyond the allowance."""
    difference = successive.mean(axis=0) - marginal.mean(axis=0)
    allowed = np.clip(difference, -allowance, allowance)
    beyond = stats.ttest_ind(successive - allowed, marginal, equal_var=False)
    return difference / standard_errors(successive, marginal), beyond.pvalue


def standard_errors(successive: np.ndarray, marginal: np.ndarray) -> np.ndarray:
    """Of the differences."""
    return np.sqrt(sum(values.var(axis=0, ddof=1) / len(values) for values in (successive, marginal)))
