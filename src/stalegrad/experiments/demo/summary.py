"""The tables, as text: the terminal and the page show the same ones."""

from typing import Any

import numpy as np

from stalegrad.analysis.diagnostics.checks.mixing import RHAT_LIMIT
from stalegrad.analysis.estimates.posterior_average import plus_minus
from stalegrad.analysis.report.text_table import TextTable, minus

_SCORES = ("accuracy", "mean_log_likelihood", "brier_score", "calibration_error")
FUNCTION_NAMES = {
    "log_likelihood": "log-likelihood of a test digit",
    "entropy": "entropy of a prediction",
    "square_weight": "mean square of a weight",
}


def tables(numbers: dict[str, Any]) -> tuple[TextTable, ...]:
    """Prediction, mixing and the run."""
    return prediction(numbers), mixing(numbers), the_run(numbers)


def prediction(numbers: dict[str, Any]) -> TextTable:
    """Scores of the averaged prediction against those of a single draw."""
    draws = numbers["draws"]["chains"] * numbers["draws"]["per_chain"]
    scores, reference = numbers["scores"], numbers["reference"]["averaged"]
    return TextTable(
        f"Prediction of {numbers['data']['test']} test digits",
        ("", "accuracy", "log-likelihood", "Brier", "ECE"),
        (
            (f"average of {draws:,} draws", *_scores(scores["averaged"])),
            ("a single draw, on average", *_scores(scores["single_draw"])),
            ("the last draw", *_scores(scores["last_draw"])),
            ("exact posterior, averaged", *_scores(reference)),
        ),
        emphasised=0,
        note="High is good in the first two columns, low in the last two (Brier score; calibration error, 10 bins).",
    )


def mixing(numbers: dict[str, Any]) -> TextTable:
    """φ̂, ESS and R-hat of the test functions."""
    reference = numbers["reference"]["test_functions"]
    rows = []
    for name, words in FUNCTION_NAMES.items():
        phi = numbers["test_functions"][name]
        value = minus(plus_minus(phi["value"], phi["standard_error"]))
        rows.append((words, value, minus(f"{reference[name]:.3f}"), f"{phi['ess']:,.0f}", _rhat(phi["rhat"])))
    worst = numbers["test_functions"]["worst_digit"]
    rows.append(("true digit's probability, worst", "", "", f"{worst['ess']:,.0f}", _rhat(worst["rhat"])))
    return TextTable(
        "Test functions: posterior averages and how well the chains mix",
        ("φ", "φ̂ ± s.e.", "exact", "ESS", "R-hat"),
        tuple(rows),
        note=rhat_verdict(numbers),
    )


def the_run(numbers: dict[str, Any]) -> TextTable:
    """Throughput and staleness of every chain."""
    run = numbers["sampling"]
    columns = ("accepted", "dropped", "mean_staleness", "max_staleness")
    rows = [
        (f"chain {chain}", f"{accepted:,}", f"{dropped:,}", f"{mean:.2f}", f"{largest}")
        for chain, (accepted, dropped, mean, largest) in enumerate(zip(*(run[name] for name in columns), strict=True))
    ]
    note = f"{run['updates_per_second']:,.0f} updates a second, {run['seconds']:.1f} s on engine “{run['engine']}”."
    if run["interrupted"]:
        note += " The run was stopped before its end."
    if numbers["replayed"] is not None:
        note += f" Replayed from its trace: {'the same bits' if numbers['replayed'] else 'DIFFERENT BITS'}."
    return TextTable("The run", ("", "accepted", "dropped", "mean τ", "max τ"), tuple(rows), note=note)


def largest_rhat(numbers: dict[str, Any]) -> float:
    """Over the named test functions and the probabilities of all test digits."""
    return float(np.max([phi["rhat"] for phi in numbers["test_functions"].values()]))  # NaN if any is


def rhat_verdict(numbers: dict[str, Any]) -> str:
    """What R-hat says, in a sentence."""
    worst = largest_rhat(numbers)
    if worst < RHAT_LIMIT:
        return f"The largest R-hat is {worst:.3f}, below {RHAT_LIMIT}: the chains agree."
    return f"The largest R-hat is {worst:.3f}, not below {RHAT_LIMIT}: the chains do not agree yet. Take more --steps."


def _scores(scores: dict[str, float]) -> tuple[str, ...]:
    accuracy, likelihood, brier, calibration = (scores[name] for name in _SCORES)
    return f"{accuracy:.1%}", minus(f"{likelihood:.4f}"), f"{brier:.4f}", f"{calibration:.3f}"


def _rhat(value: float) -> str:
    return f"{value:.3f}" + ("" if value < RHAT_LIMIT else " !")
