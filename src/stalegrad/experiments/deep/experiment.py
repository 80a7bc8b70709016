"""The units of work, their files, and what all of them together say."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.files import write_json
from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import PredictiveAverage, auroc, false_positive_rate
from stalegrad.datasets import Dataset, mnist
from stalegrad.experiments.deep.methods import METHODS, Budget, Predictors, Task
from stalegrad.experiments.deep.picture import draw
from stalegrad.potentials import Potential, from_torch, networks

MEASURES = ("nll", "brier_score", "calibration_error", "accuracy", "auroc_rotated", "auroc_noise", "fpr95_rotated")
"""What is reported of each method."""
SMALL_IS_GOOD = ("nll", "brier_score", "calibration_error", "fpr95_rotated")
_STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}  # t of 95 %, n − 1 degrees


@dataclass(frozen=True)
class Settings:
    """The constants.

    Args:
        seeds: of starts and minibatches.
        test: images of the test set that are scored.
        strange: rotated ones, and as many of noise.
        budget: what each method may spend.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    test: int = 2_000
    strange: int = 500
    budget: Budget = field(default_factory=Budget)


class Images:
    """The test images and the two kinds that no training image is like.

    Rotated ones are test images turned by a quarter; noise has every pixel uniform from 0 to 255, from a fixed seed.
    """

    def __init__(self, data: Dataset, settings: Settings) -> None:
        self.train = data
        self.test, self.y = np.asarray(data.X_test)[: settings.test], np.asarray(data.y_test)[: settings.test]
        self.rotated = np.ascontiguousarray(np.rot90(np.asarray(data.X_test)[: settings.strange], axes=(-2, -1)))
        shape = (settings.strange, *self.test.shape[1:])
        self.noise = np.random.Generator(np.random.Philox(1)).integers(0, 256, shape).astype(np.uint8)


def reproduce(
    out: Path, settings: Settings | None = None, *, budget: float | None = None, from_the_end: bool = False,
    report: Report | None = None,
) -> dict[str, Any] | None:  # fmt: skip
    """Make the units that are missing, as far as the minutes of ``budget`` reach; the numbers if all are there.

    Two processes may share the work: one begins with the first unit, the other with the last.
    """
    wanted = settings or Settings()
    begun, units = time.monotonic(), out / "units"
    units.mkdir(parents=True, exist_ok=True)
    plan = [(method, seed) for seed in wanted.seeds for method in METHODS]
    images: Images | None = None
    for done, (method, seed) in enumerate(reversed(plan) if from_the_end else plan):
        if report is not None:
            report(f"{method}, seed {seed}", done / len(plan))
        place = units / f"{method.replace(' ', '_')}-{seed}.json"
        if place.exists() and json.loads(place.read_text())["settings"] == _plain(wanted):
            continue
        if budget is not None and time.monotonic() - begun > 60 * budget:
            return None
        images = images or Images(mnist(), wanted)
        write_json(place, unit(method, seed, images, wanted), "unit")
    rows = [json.loads((units / f"{method.replace(' ', '_')}-{seed}.json").read_text()) for method, seed in plan]
    numbers = summary(rows, wanted)
    write_numbers_and_picture(out, "deep", numbers, draw)
    return numbers


def unit(method: str, seed: int, images: Images, settings: Settings) -> dict[str, Any]:
    """One method with one seed."""
    task = _task(images.train, settings.budget, seed)
    begun = time.perf_counter()
    predictors = METHODS[method](task, settings.budget)
    seconds = time.perf_counter() - begun
    test, rotated, noise = (averaged(predictors, X) for X in (images.test, images.rotated, images.noise))
    curve = test.reliability(images.y)
    measured = {
        **test.scores(images.y).as_dict(), "nll": test.scores(images.y).nll,
        "auroc_rotated": auroc(test.entropy, rotated.entropy), "auroc_noise": auroc(test.entropy, noise.entropy),
        "fpr95_rotated": false_positive_rate(test.entropy, rotated.entropy),
        "mutual_information": [float(each.mutual_information.mean()) for each in (test, rotated, noise)],
        "entropy": [float(each.entropy.mean()) for each in (test, rotated, noise)],
    }  # fmt: skip
    reliability = {
        "count": curve.count.tolist(), "confidence": np.nan_to_num(curve.confidence).tolist(),
        "accuracy": np.nan_to_num(curve.accuracy).tolist(),
    }  # fmt: skip
    return {
        "method": method, "seed": seed, "settings": _plain(settings), "seconds": seconds,
        "draws": len(predictors), "measured": measured, "reliability": reliability,
    }  # fmt: skip


def averaged(predictors: Predictors, X: Array) -> PredictiveAverage:
    """What all draws together predict."""
    average = PredictiveAverage()
    for model, theta, weight in predictors:
        average.add(model.predict(theta, X), weight)  # type: ignore[attr-defined]
    return average


def summary(rows: list[dict[str, Any]], settings: Settings) -> dict[str, Any]:
    """Mean and 95 % interval over seeds of every measure, and which method is best."""
    methods = {}
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        values = {name: np.array([row["measured"][name] for row in own]) for name in MEASURES}
        methods[method] = {
            "seconds": float(np.mean([row["seconds"] for row in own])), "draws": own[0]["draws"],
            **{name: _interval(each) for name, each in values.items()},
            "reliability": own[0]["reliability"],
        }  # fmt: skip
    best = {
        name: min(methods, key=lambda method: methods[method][name]["mean"] * (1 if name in SMALL_IS_GOOD else -1))
        for name in MEASURES
    }
    return {"settings": _plain(settings), "methods": methods, "best": best}


def _interval(values: Array) -> dict[str, Any]:
    """Mean with Student's 95 % interval over so few seeds."""
    half = _STUDENT[len(values)] * values.std(ddof=1) / np.sqrt(len(values)) if len(values) in _STUDENT else np.nan
    return {"mean": float(values.mean()), "half": float(half), "values": values.tolist()}


def _task(data: Dataset, budget: Budget, seed: int) -> Task:
    X, y = np.asarray(data.X), np.asarray(data.y)

    def made(module: Any) -> Potential:
        pairs, pixels = (X, y), networks.lenet_pixels
        return from_torch(module, "categorical", pairs, batch_size=budget.batch_size, transform=pixels)

    def last_layer(theta: Array) -> Potential:
        module = made(networks.lenet()).module_at(theta)  # type: ignore[attr-defined]
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name.startswith("ip2."))
        return made(module)

    start: Callable[[int], int] = lambda member: 1_000 * seed + member  # noqa: E731
    return Task(lambda member: made(networks.lenet(start(member))), last_layer, len(X), seed)


def _plain(settings: Settings) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return table
