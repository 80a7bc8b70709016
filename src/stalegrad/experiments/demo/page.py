"""The report: one HTML page that needs nothing but itself."""

import json
import shlex
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from stalegrad.analysis.report import markup
from stalegrad.experiments.demo.summary import largest_rhat, tables
from stalegrad.experiments.demo.task import Settings

_ALTERNATIVES = {
    "digits": "Eight test digits with the averaged probabilities of the ten classes and their spread over draws",
    "estimate": "Test log-likelihood of the averaged prediction against updates, per chain and combined",
    "reliability": "Share of right predictions against their confidence, averaged prediction and single draws",
    "staleness": "Histogram of staleness per chain",
}


def page(numbers: dict[str, Any], light: dict[str, bytes], dark: dict[str, bytes], folder: str = "demo-output") -> str:
    """Fill the template.

    Args:
        numbers: of summary.json.
        light: the pictures by name, as PNG.
        dark: the same for readers who have set their screens so.
        folder: where the run was written to, for the commands that it shows.
    """
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    words = {name: escape(text, quote=False) for name, text in _words(numbers, folder).items()}
    pieces = {f"picture_{k}": markup.picture(light[k], dark[k], words) for k, words in _ALTERNATIVES.items()}
    pieces["tables"] = "\n".join(map(markup.table, tables(numbers)))
    return markup.page(
        "Which digit is it? A posterior from stale gradients", Template(template).substitute(words | pieces)
    )


def _words(numbers: dict[str, Any], folder: str) -> dict[str, str]:
    settings, run, scores = numbers["settings"], numbers["sampling"], numbers["scores"]
    draws, reference = numbers["draws"], numbers["reference"]
    averaged, likelihood = scores["averaged"], "mean_log_likelihood"
    accepted, dropped = sum(run["accepted"]), sum(run["dropped"])
    weighed = zip(run["mean_staleness"], run["accepted"], strict=True)
    return {
        "parameters": f"{numbers['data']['parameters']:,}",
        "train": f"{numbers['data']['train']:,}",
        "test": f"{numbers['data']['test']:,}",
        "draws": f"{draws['chains'] * draws['per_chain']:,}",
        "chains": f"{draws['chains']}",
        "steps": f"{max(run['accepted']):,}",
        "workers_send": "one worker sends" if settings["workers"] == 1 else f"{settings['workers']} workers send",
        "staleness_sentence": _staleness_sentence(settings["workers"]),
        "batch": f"{settings['batch_size']}",
        "bound": f"{settings['max_staleness']}",
        "tau": f"{sum(mean * count for mean, count in weighed) / accepted:.2f}",
        "accuracy": f"{averaged['accuracy']:.1%}",
        "accuracy_single": f"{scores['single_draw']['accuracy']:.1%}",
        "rate": f"{run['updates_per_second']:,.0f}",
        "engine": run["engine"],
        "rhat": f"{largest_rhat(numbers):.3f}",
        "gap": f"{abs(averaged[likelihood] - reference['averaged'][likelihood]):.4f}",
        "digits_sentence": _digits_sentence(numbers["hardest"]),
        "confidence_sentence": _confidence_sentence(numbers),
        "ece": f"{averaged['calibration_error']:.3f}",
        "ece_exact": f"{reference['averaged']['calibration_error']:.3f}",
        "dropped": f"{dropped:,}",
        "gradients": f"{accepted + dropped:,}",
        "mode_accuracy": f"{reference['mode']['accuracy']:.1%}",
        "mode_likelihood": f"{reference['mode'][likelihood]:.3f}".replace("-", "−"),
        "command": _command(settings, folder),
        "trace": json.dumps(f"{folder}/trace.npz"),
        "versions": ", ".join(f"{name} {version}" for name, version in numbers["versions"].items()),
        "version": numbers["versions"]["stalegrad"],
    }


def _staleness_sentence(workers: int) -> str:
    if workers == 1:
        return "A chain with one worker waits for it, so that every gradient is fresh: τ = 0."
    return f"With {workers} workers on a chain, about {workers - 1} updates by the others fit in while one computes."


def _digits_sentence(hardest: dict[str, Any]) -> str:
    pairs = list(zip(hardest["truth"], hardest["named"], strict=True))
    right = sum(truth == named for truth, named in pairs)
    return f"Of these {len(pairs)} it names {right} correctly; the other test digits it is surer of."


def _confidence_sentence(numbers: dict[str, Any]) -> str:
    """Which way each kind of prediction is off, in numbers."""
    parts = []
    for name in ("averaged", "single_draw"):
        confidence, accuracy = numbers["confidence"][name], numbers["scores"][name]["accuracy"]
        side = "more" if accuracy > confidence else "less"
        parts.append(f"{confidence:.1%} sure on average and right {side} often, {accuracy:.1%}")
    return f"The averaged prediction is {parts[0]}; a single draw is {parts[1]}."


def _command(settings: dict[str, Any], folder: str) -> str:
    """The command with the options that differ from their defaults."""
    options = {name: settings[name] for name in ("steps", "workers") if settings[name] != getattr(Settings(), name)}
    words = [f"--{name} {value}" for name, value in options.items()]
    return " ".join(["stalegrad demo", f"--out {shlex.quote(folder)}", *words, f"--seed {settings['seed']}"])
