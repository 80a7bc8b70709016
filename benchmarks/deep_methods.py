"""A classifier by MAP, posteriors, laplace-torch and stalegrad, each written as its own documentation has it.

784–200–200–10 with ReLU, 199,210 weights with the prior N(0, 1), minibatches of 64. Every method is a function of a
:class:`Task`, which has the same network, starts, data and number G of gradients for all, and gives the probabilities
of the test images.

- *MAP*: Adam on the mean loss plus the prior over N. Laplace approximations and the last layer's samplers start there.
- *posteriors*: diagonal variational inference as in its README, 20 samples; its SGHMC in the loop of its documentation,
  with the numbers of ours: G/2 updates at temperature 0, G/2 that sample, of which 20 are kept.
- *laplace-torch*: Kronecker-factored, of the last layer, with the same prior and with the precision of the prior chosen
  by the marginal likelihood, as in its README, and of all weights; predictions by the linearised network and probit.
  Those of all weights take it a fifth of a second an image, so that it makes them for the first 200 only.
- *stalegrad*: SGHMC of all weights, and of the last layer on its cached features, one worker.
"""

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import laplace_peer
from posteriors_peer import gathered, posteriors

DRAWS, BATCH, CLASSES = 20, 64, 10
FEW = 200
"""The test images on which also the slowest predictions are scored."""


@dataclass(frozen=True)
class Rates:
    """Learning rates, as ``--choose`` found them."""

    adam: float = 0.003
    vi: float = 0.003
    vi_log_sd: float = -5.0
    sghmc: float = 0.03
    last: float = 0.01


@dataclass(frozen=True, eq=False)
class Task:
    """Data, on which every method is trained and scored, and what it may spend."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    gradients: int
    seed: int
    rates: Rates

    @property
    def n_data(self) -> int:
        """N."""
        return len(self.X)

    def network(self) -> Any:
        """At its start."""
        import torch

        torch.manual_seed(self.seed)
        linear, relu = torch.nn.Linear, torch.nn.ReLU
        return torch.nn.Sequential(linear(784, 200), relu(), linear(200, 200), relu(), linear(200, CLASSES))

    def minibatches(self) -> Callable[[], Any]:
        """Random rows, from the seed of :meth:`network` on."""
        return gathered((self.X, self.y), BATCH)


def log_posterior(network: Any, n_data: int) -> Callable[[Any, Any], Any]:
    """As in posteriors' README: of parameters by name and a minibatch, over N."""
    from torch import func
    from torch.nn.functional import cross_entropy

    prior = posteriors().diag_normal_log_prob

    def value(parameters: Any, batch: Any) -> Any:
        output = func.functional_call(network, parameters, batch[0])
        return prior(parameters) / n_data - cross_entropy(output, batch[1]), output

    return value


TRAINED: dict[Task, tuple[Any, float]] = {}
"""The MAP network of a task, and the processor seconds that it took."""


def trained(task: Task) -> Any:
    """A copy of the MAP network, trained once for all methods of a task that start there."""
    if task not in TRAINED:
        begun = time.process_time()
        network = adam(task)
        TRAINED[task] = network, time.process_time() - begun
    return copy.deepcopy(TRAINED[task][0])


def adam(task: Task) -> Any:
    """The MAP network by Adam."""
    import torch
    from torch.nn.functional import cross_entropy

    network, minibatch = task.network(), task.minibatches()
    optimiser = torch.optim.Adam(network.parameters(), lr=task.rates.adam)
    for _ in range(task.gradients):
        x, y = minibatch()
        optimiser.zero_grad()
        squares = sum((parameter**2).sum() for parameter in network.parameters())
        (cross_entropy(network(x), y) + 0.5 * squares / task.n_data).backward()
        optimiser.step()
    return network.eval()


def softmax(network: Any, x: Any) -> np.ndarray:
    """Probabilities."""
    import torch

    with torch.no_grad():
        return np.asarray(network(x).softmax(dim=1), np.float64)


def averaged(network: Any, draws: Sequence[Any], x: Any) -> np.ndarray:
    """Mean probabilities over parameters by name."""
    from torch import func

    return np.mean([softmax(lambda x, d=draw: func.functional_call(network, d, x), x) for draw in draws], axis=0)


def map_alone(task: Task) -> np.ndarray:
    """One network."""
    return softmax(trained(task), task.X_test)


def posteriors_vi(task: Task) -> np.ndarray:
    """Diagonal variational inference."""
    import torch
    import torchopt

    network, minibatch = task.network(), task.minibatches()
    transform = posteriors().vi.diag.build(
        log_posterior(network, task.n_data), torchopt.adam(lr=task.rates.vi), temperature=1 / task.n_data,
        init_log_sds=task.rates.vi_log_sd,
    )  # fmt: skip
    state = transform.init({name: p.detach().clone() for name, p in network.named_parameters()})
    for _ in range(task.gradients):
        state, _ = transform.update(state, minibatch())
    with torch.no_grad():
        draws = [posteriors().vi.diag.sample(state) for _ in range(DRAWS)]
    return averaged(network, draws, task.X_test)


def posteriors_sghmc(task: Task) -> np.ndarray:
    """Its SGHMC, the chain of :func:`our_sghmc`: lr = h√N, alpha = B/√N, see :mod:`samplers`."""
    import stalegrad as sg

    network, minibatch = task.network(), task.minibatches()
    kernel = sg.SGHMC.from_sgd(task.rates.sghmc, 0.9, task.n_data)
    root, half = np.sqrt(task.n_data), task.gradients // 2
    transform = posteriors().sgmcmc.sghmc.build(
        log_posterior(network, task.n_data), lr=float(kernel.schedule(0) * root), alpha=float(kernel.friction / root),
        temperature=lambda step: 0.0 if step < half else 1 / task.n_data, momenta=0.0,
    )  # fmt: skip
    state = transform.init({name: p.detach().clone() for name, p in network.named_parameters()})
    thin, draws = (task.gradients - half) // DRAWS, []
    for step in range(half + thin * DRAWS):
        state, _ = transform.update(state, minibatch(), inplace=True)
        if step >= half and (step - half) % thin == thin - 1:
            draws.append({name: value.clone() for name, value in state.params.items()})
    return averaged(network, draws, task.X_test)


def laplace(task: Task, subset: str, tuned: bool) -> np.ndarray:
    """Kronecker-factored Laplace around the MAP network."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    network, x_test = trained(task), task.X_test if subset == "last_layer" else task.X_test[:FEW]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its backends, about their own hooks
        found = laplace_peer.package().Laplace(
            network, "classification", subset_of_weights=subset, hessian_structure="kron"
        )
        found.fit(DataLoader(TensorDataset(task.X, task.y), batch_size=1_000))
        if tuned:
            found.optimize_prior_precision(method="marglik")
        rows = 2_000 if subset == "last_layer" else 10  # Jacobians of all weights: 8 MB an image
        with torch.no_grad():
            parts = [found(x, pred_type="glm", link_approx="probit") for x in x_test.split(rows)]
    return np.asarray(torch.cat(parts).detach(), np.float64)


def our_sghmc(task: Task, temperature: float = 1.0) -> np.ndarray:
    """SGHMC of all weights."""
    import stalegrad as sg

    half = task.gradients // 2
    rows = np.asarray(task.X), np.asarray(task.y)
    model = sg.potentials.from_torch(task.network(), "categorical", rows, batch_size=BATCH, prior=1.0)
    kernel = sg.SGHMC.from_sgd(task.rates.sghmc, 0.9, task.n_data, temperature=temperature).after_optimising(half)
    return _sampled(model, kernel, task, task.gradients, half)


def our_last_layer(task: Task) -> np.ndarray:
    """SGHMC of the last layer of the MAP network."""
    import stalegrad as sg

    rows = np.asarray(task.X), np.asarray(task.y)
    model = sg.potentials.from_torch(
        trained(task), "categorical", rows, batch_size=BATCH, prior=1.0, sample="4.*",
    )  # fmt: skip
    kernel = sg.SGHMC.from_sgd(task.rates.last, 0.9, task.n_data)
    return _sampled(model, kernel, task, task.gradients, task.gradients // 2)


def _sampled(model: Any, kernel: Any, task: Task, steps: int, burn_in: int) -> np.ndarray:
    import stalegrad as sg

    run = sg.sample(
        model, kernel, steps=steps, burn_in=burn_in, thin=(steps - burn_in) // DRAWS, seed=task.seed, engine="inline",
        keep="none", averages={"test": model.predictive(np.asarray(task.X_test))}, warmup=None, progress=False,
    )  # fmt: skip
    return np.asarray(run.averages["test"].probabilities)


METHODS: dict[str, Callable[[Task], np.ndarray]] = {
    "MAP by Adam": map_alone,
    "posteriors, diagonal VI": posteriors_vi,
    "posteriors, SGHMC": posteriors_sghmc,
    "laplace-torch, last layer": lambda task: laplace(task, "last_layer", tuned=False),
    "laplace-torch, last layer, prior tuned": lambda task: laplace(task, "last_layer", tuned=True),
    "laplace-torch, all weights, prior tuned": lambda task: laplace(task, "all", tuned=True),
    "stalegrad, SGHMC": our_sghmc,
    "stalegrad, SGHMC, last layer": our_last_layer,
}


FROM_MAP = {name for name in METHODS if name.startswith(("MAP", "laplace")) or name.endswith("last layer")}
"""Whose seconds include the training of the MAP network, which is done once."""
