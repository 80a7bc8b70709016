"""The posteriors by name."""

from importlib import import_module
from pathlib import Path

from classics.classic import Classic

REFERENCES = Path(__file__).resolve().parent / "references"

MAKERS = {
    "linear, raw units": "linear.raw_units",
    "linear, collinear": "linear.collinear",
    "logistic": "counts.logistic",
    "Poisson": "counts.poisson",
    "negative binomial": "counts.negative_binomial",
    "Student-t": "robust.student_t",
    "groups, centred": "hierarchical.centred",
    "groups, non-centred": "hierarchical.non_centred",
    "factors": "factor.factor",
    "Gaussian process": "gaussian_process.regression",
    "Gaussian process, counts": "gaussian_process.counts",
    "ARMA": "time_series.arma",
    "GARCH": "time_series.garch",
    "ordinal": "ordinal.ordinal",
    "mixture, ordered": "mixture.ordered",
    "mixture, unordered": "mixture.unordered",
    "horseshoe": "horseshoe.horseshoe",
    "softmax": "softmax.softmax",
    "network": "network.network",
}  # fmt: skip
"""Where each is made: a file of ``models`` and a function there."""


def file_name(name: str) -> str:
    """Of its reference, without an ending: “linear, raw units” is in ``linear_raw_units``."""
    return name.lower().replace(",", "").replace(" ", "_").replace("-", "_")


NAMES = {file_name(name): name for name in MAKERS}
"""Titles by file name, which is also how the command line calls them."""


def with_reference() -> list[str]:
    """The file names of those that have been sampled by NUTS: only they can be judged."""
    return [name for name in NAMES if (REFERENCES / f"{name}.json").exists()]


def make(name: str) -> Classic:
    """The posterior of that title or file name, with its data."""
    module, function = MAKERS[NAMES.get(name, name)].split(".")
    made: Classic = getattr(import_module(f"classics.models.{module}"), function)()
    return made
