"""posteriors (PyTorch): its SGLD and SGHMC in the Python loop that its documentation has.

The log posterior is the mean log-likelihood plus the prior over N, at temperature 1/N, as it recommends. Minibatches
are gathered from tensors by random indices, which is faster than a ``DataLoader``. A second way lets it update its
state in place, an option of its own. ``torch.compile`` is left out: it needs a C++ compiler at hand.
"""

import warnings
from collections.abc import Callable
from typing import Any

import harness
from samplers import Sampler

LogPosterior = Callable[[Any, Any], Any]


def posteriors() -> Any:
    """The package, without what tensordict says about the definition of its classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import posteriors as package
    return package


class Chain:
    """A chain that goes on where it stopped.

    Args:
        log_posterior: of parameters and a minibatch, with something beside it.
        parameters: where it starts; they are copied.
        minibatch: gives the next one.
        n_data: N.
        sampler: which, and its numbers.
        inplace: let posteriors change its state in place.
    """

    def __init__(
        self,
        log_posterior: LogPosterior,
        parameters: dict[str, Any],
        minibatch: Callable[[], Any],
        n_data: int,
        sampler: Sampler,
        *,
        inplace: bool = False,
    ) -> None:
        module, numbers = sampler.posteriors(n_data)
        self._transform = module.build(log_posterior, **numbers)
        self.state = self._transform.init({name: value.detach().clone() for name, value in parameters.items()})
        self._minibatch, self._inplace = minibatch, inplace

    def run(self, steps: int) -> None:
        """Make so many steps."""
        state, minibatch, update, inplace = self.state, self._minibatch, self._transform.update, self._inplace
        for _ in range(steps):
            state, _ = update(state, minibatch(), inplace=inplace)
        self.state = state


def cases(
    log_posterior: LogPosterior,
    parameters: dict[str, Any],
    minibatch: Callable[[], Any],
    n_data: int,
    sampler: Sampler,
    steps: int,
) -> list[harness.Case]:
    """As documented, and in place."""
    found = []
    for name, inplace in (("posteriors, documented", False), ("posteriors, in place", True)):
        chain = Chain(log_posterior, parameters, minibatch, n_data, sampler, inplace=inplace)
        found.append(harness.Case(name, lambda chain=chain: chain.run(steps), steps))
    return found


def gathered(rows: tuple[Any, ...], batch_size: int) -> Callable[[], Any]:
    """Minibatches of J random rows, with replacement."""
    import torch

    count = len(rows[0])

    def minibatch() -> Any:
        indices = torch.randint(count, (batch_size,))
        return tuple(row[indices] for row in rows)

    return minibatch


def linear(X: Any, y: Any, classes: int = 1) -> tuple[LogPosterior, dict[str, Any], tuple[Any, ...]]:
    """Logistic regression (labels in {0, 1}), or softmax regression of several classes, with the prior N(0, 1).

    Returns the log posterior, where to start and the data as tensors.
    """
    import torch
    from torch.nn import functional as F

    rows = torch.from_numpy(X), torch.from_numpy(y)
    n_data, several = len(X), classes > 1

    def log_posterior(parameters: Any, batch: Any) -> Any:
        x, y = batch
        logits = x @ parameters["weight"]
        loss = F.cross_entropy(logits, y) if several else F.binary_cross_entropy_with_logits(logits, y)
        return posteriors_prior(parameters) / n_data - loss, logits

    posteriors_prior = posteriors().diag_normal_log_prob
    shape = (X.shape[1], classes) if several else (X.shape[1],)
    return log_posterior, {"weight": torch.zeros(shape)}, rows


def whitened(model: Any) -> tuple[LogPosterior, dict[str, Any], tuple[Any, ...]]:
    """As :func:`linear`, for logistic regression in the coordinates of :class:`posterior.WhitenedRows`."""
    import torch
    from torch.nn import functional as F

    rows = tuple(torch.from_numpy(part) for part in (model.X, model.offset, model.y))
    shift, inverse = torch.from_numpy(model.shift), torch.from_numpy(model.inverse)

    def log_posterior(parameters: Any, batch: Any) -> Any:
        z, (x, offset, y) = parameters["z"], batch
        logits = x @ z + offset
        prior = -(shift @ z) - 0.5 * (z @ (inverse @ z))
        return prior / model.n_data - F.binary_cross_entropy_with_logits(logits, y), logits

    return log_posterior, {"z": torch.zeros(model.X.shape[1])}, rows
