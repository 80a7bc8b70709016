"""Beside posteriors and laplace-torch: the classifier of posteriors' README on MNIST, seconds and NLL.

784–200–200–10 with ReLU, 199,210 weights with the prior N(0, 1), minibatches of 64. Every method has the same network,
starts, data and number G of gradients, and is written as its own documentation has it:

- *MAP*: Adam on the mean loss plus the prior over N. Laplace approximations and the last layer's samplers start there.
- *posteriors*: diagonal variational inference as in its README, 20 samples; its SGHMC in the loop of its documentation,
  with the numbers of ours: G/2 updates at temperature 0, G/2 that sample, of which 20 are kept.
- *laplace-torch*: Kronecker-factored, of the last layer, with the same prior and with the precision of the prior chosen
  by the marginal likelihood, as in its README, and of all weights; predictions by the linearised network and probit.
  Those of all weights take it a fifth of a second an image, so that it makes them for the first 200 only.
- *stalegrad*: SGHMC of all weights, and of the last layer on its cached features, one worker.

Seconds are those of the processor, of one thread, from the first gradient to the last prediction. Learning rates were
chosen by ``--choose``, which scores each on 5,000 training images that it holds out, with seeds that are not reported.

    python benchmarks/deep_peers.py [--gradients 2000] [--seeds 5] [--choose] [--json FILE]
"""

import argparse
import copy
import json
import sys
import time
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import t as student

import cores
import harness
import images
from posteriors_peer import gathered, posteriors
from results import Bar, Result

DRAWS, BATCH, CLASSES = 20, 64, 10
FEW = 200
"""The test images on which also the slowest predictions are scored."""
SCORES = ("nll", "calibration_error", "accuracy")
TEXT = """
The classifier of posteriors' README (784–200–200–10, ReLU, prior N(0, 1) on each of its 199,210 weights) on
{source}, {seeds} seeds, {gradients:,} gradients of minibatches of 64 for every method; Laplace approximations read all
data once more, and samplers of the last layer make as many updates again on cached features. Seconds are the
processor's, of one thread, from the first gradient to the last prediction, including training. Mean ± 95 % (Student's t
over seeds). Learning rates were chosen on held-out training images. laplace-torch's linearised predictions with all
weights are made for the first {few} test images only, and its seconds are of those. {best}
"""


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


_TRAINED: dict[Task, tuple[Any, float]] = {}


def trained(task: Task) -> Any:
    """A copy of the MAP network, trained once for all methods of a task that start there."""
    if task not in _TRAINED:
        begun = time.process_time()
        network = adam(task)
        _TRAINED[task] = network, time.process_time() - begun
    return copy.deepcopy(_TRAINED[task][0])


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


def laplace_torch() -> Any:
    """The package. It imports torchvision by way of torchmetrics, and uses nothing of it.

    A torchvision that was built for another build of torch than the one at hand cannot be imported; an empty module
    takes its place then.
    """
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        pass
    except (ImportError, OSError, RuntimeError):
        for name in ("torchvision", "torchvision.transforms"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__spec__ = ModuleSpec(name, None)
        sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]  # type: ignore[attr-defined]
    import laplace as package

    return package


def laplace(task: Task, subset: str, tuned: bool) -> np.ndarray:
    """Kronecker-factored Laplace around the MAP network."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    network, x_test = trained(task), task.X_test if subset == "last_layer" else task.X_test[:FEW]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its backends, about their own hooks
        found = laplace_torch().Laplace(network, "classification", subset_of_weights=subset, hessian_structure="kron")
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


def measured(method: str, task: Task) -> dict[str, Any]:
    """One method with one seed; scores on all test images are None where it predicts the first ones alone."""
    starts_there, known = method in FROM_MAP, task in _TRAINED
    begun = time.process_time()
    probabilities = METHODS[method](task)
    seconds, labels = time.process_time() - begun, np.asarray(task.y_test)
    seconds += _TRAINED[task][1] if starts_there and known else 0.0
    whole = scores(probabilities, labels) if len(probabilities) == len(labels) else dict.fromkeys(SCORES)
    return {"seconds": seconds, **whole, "nll_few": scores(probabilities[:FEW], labels[:FEW])["nll"]}


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """What is reported."""
    import stalegrad as sg

    average = sg.estimates.PredictiveAverage()
    average.add(probabilities)
    found = average.scores(labels)
    return {name: float(getattr(found, name)) for name in SCORES}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of the 95 % interval over seeds."""
    if len(values) < 2:
        return float(values[0]), float("nan")
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(student.ppf(0.975, len(values) - 1) * error)


def best_said(found: dict[str, list[dict[str, Any]]], key: str, on: str) -> str:
    """Which method has the lowest NLL, and from which the seeds cannot tell it."""
    found = {name: rows for name, rows in found.items() if rows[0][key] is not None}
    means = {name: float(np.mean([row[key] for row in rows])) for name, rows in found.items()}
    best = min(means, key=lambda name: means[name])
    if len(found[best]) < 2:
        return f"On {on} the lowest NLL is that of {best}, of one seed."
    alike = []
    for name, rows in found.items():
        paired = [row[key] - own[key] for row, own in zip(rows, found[best], strict=True)]
        middle, half = interval(paired)
        if name != best and middle - half <= 0:
            alike.append(name)
    beside = (
        f"the seeds cannot tell it from {', '.join(alike)}" if alike else "all others are behind it, paired by seed"
    )
    return f"On {on} the lowest mean NLL is that of {best}; {beside}."


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="A classifier by posteriors, laplace-torch and stalegrad.")
    parser.add_argument("--gradients", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--combine", nargs="+", metavar="FILE", help="report the seeds of several JSON files together")
    parser.add_argument("--test", type=int, default=10_000, help="images that are scored")
    parser.add_argument("--train", type=int, default=60_000, help="images that are learnt")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--choose", action="store_true", help="score learning rates on held-out training images")
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, gradients=40, seeds=1, test=100, train=500)


def task_of(data: images.Images, given: argparse.Namespace, seed: int, held_out: bool) -> Task:
    """The data as tensors; with ``held_out`` the last twelfth of the training images takes the place of the test's."""
    import torch

    X, X_test = (torch.from_numpy(part.reshape(len(part), 784) / np.float32(255)) for part in (data.X, data.X_test))
    y, y_test = (torch.from_numpy(np.asarray(part, np.int64)) for part in (data.y, data.y_test))
    X, y = X[: given.train], y[: given.train]
    if held_out:
        cut = len(X) - len(X) // 12
        X, y, X_test, y_test = X[:cut], y[:cut], X[cut:], y[cut:]
    return Task(X, y, X_test[: given.test], y_test[: given.test], given.gradients, seed, Rates())


def choose(given: argparse.Namespace, data: images.Images, console: Console) -> None:
    """NLL on held-out training images of one seed, for each learning rate."""
    task = task_of(data, given, 1_000, held_out=True)
    grid: list[tuple[str, str, Sequence[float]]] = [
        ("MAP by Adam", "adam", (3e-4, 1e-3, 3e-3)),
        ("posteriors, diagonal VI", "vi", (3e-4, 1e-3, 3e-3)),
        ("posteriors, diagonal VI", "vi_log_sd", (0.0, -3.0, -5.0)),
        ("stalegrad, SGHMC", "sghmc", (0.003, 0.01, 0.03, 0.1)),
        ("stalegrad, SGHMC, last layer", "last", (0.003, 0.01, 0.03)),
    ]
    for method, name, values in grid:
        for value in values if method in given.methods else ():
            row = measured(method, replace(task, rates=replace(task.rates, **{name: value})))
            console.print(f"{method}, {name} = {value:g}: NLL {row['nll']:.4f}, {row['seconds']:.1f} s")


def main() -> None:
    """Measure and report."""
    given = arguments()
    found: dict[str, list[dict[str, Any]]]
    if given.combine:
        found, source = combined(given.combine)
        report(found, source, given, len(next(iter(found.values()))))
        return
    cores.one_core()

    import torch

    torch.set_num_threads(1)
    data, console = images.load("mnist"), Console(stderr=True)
    if given.choose:
        choose(given, data, console)
        return
    warm = replace(task_of(data, given, 0, held_out=False), gradients=2 * DRAWS)
    for method in given.methods:  # compilation and first touches
        if "laplace" not in method:
            METHODS[method](warm)
    found = {method: [] for method in given.methods}
    for done in range(given.seeds):
        seed = given.first_seed + done
        _TRAINED.clear()
        task = task_of(data, given, seed, held_out=False)
        for method in given.methods:
            found[method].append(measured(method, task))
            row = found[method][-1]
            console.print(f"seed {seed}, {method}: {row['seconds']:.1f} s, NLL of the first {row['nll_few']:.4f}")
        report(found, data.source, given, done + 1)  # what is interrupted has the seeds that are done


def combined(files: Sequence[str]) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """The figures of all files, one after the other, and what their data were."""
    documents = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    methods = [document["figures"]["methods"] for document in documents]
    found = {name: [row for each in methods for row in each[name]] for name in methods[0]}
    return found, documents[0]["settings"]["data"]


def report(found: dict[str, list[dict[str, Any]]], source: str, given: argparse.Namespace, seeds: int) -> None:
    """Tables, bar and JSON of so many seeds."""
    best = f"{best_said(found, 'nll', 'all test images')} {best_said(found, 'nll_few', f'the first {FEW}')}"
    settings = {"data": source, **vars(given), "seeds": seeds}
    text = TEXT.format(source=source, best=best, few=FEW, gradients=given.gradients, seeds=seeds)
    result = Result("A classifier beside posteriors and laplace-torch", text, settings)
    keys = ("seconds", *SCORES, "nll_few")
    rows = [[method, *(_shown(key, [row[key] for row in found[method]]) for key in keys)] for method in found]
    result.table(
        f"MNIST classifier, {given.gradients:,} gradients, {seeds} seeds ({source})",
        ["", "processor seconds", "NLL", "calibration error", "accuracy", f"NLL, first {FEW}"], rows,
    )  # fmt: skip
    ours, theirs = "stalegrad, SGHMC", "posteriors, SGHMC"
    if {ours, theirs} <= set(found):
        seconds = [float(np.median([row["seconds"] for row in found[name]])) for name in (ours, theirs)]
        result.bars.append(Bar("Seconds of the same SGHMC, beside posteriors", *seconds, 1.0, at_least=False, unit="s"))
    result.figures["rates"] = asdict(Rates())
    result.figures["methods"] = found
    result.finish(given.json)


def _shown(key: str, values: Sequence[Any]) -> str:
    if values[0] is None:
        return "–"
    middle, half = interval(values)
    digits = 1 if key == "seconds" else 4
    return f"{middle:.{digits}f}" if half != half else f"{middle:.{digits}f} ± {half:.{digits}f}"


if __name__ == "__main__":
    main()
