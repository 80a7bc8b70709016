"""The page: what is claimed, and the measurement beside it. It needs nothing but itself."""

import shlex
from typing import Any

from stalegrad.analysis.report import markup
from stalegrad.analysis.report.markup import Fact, Versions
from stalegrad.analysis.report.text_table import TextTable, minus
from stalegrad.experiments.demo.task import Settings

TITLE = "Late gradients, right answers"
_PAYS = 1.2  # below it two workers are no proof of anything


def page(numbers: dict[str, Any], pictures: dict[str, Versions], folder: str) -> str:
    """All of it.

    Args:
        numbers: of summary.json.
        pictures: by name.
        folder: where it was written to, for the commands that it shows.
    """
    return markup.page(
        TITLE,
        "\n\n".join([
            f"<h1>{TITLE}</h1>",
            markup.paragraph(
                "Many workers compute gradients for one Markov chain, and nobody waits for anybody. So every gradient "
                "is late: the chain has moved on since it was asked for. Here is what that buys and what it costs, "
                "measured on this machine a moment ago, against a posterior that is known exactly.", "lead",
            ),
            markup.facts(_facts(numbers)),
            _speed(numbers, pictures),
            _staleness(numbers, pictures),
            _survival(numbers, pictures),
            _trust(numbers),
            _again(numbers, folder),
        ]),
    )  # fmt: skip


def percent_off(variance: float) -> str:
    """How far a variance over the exact one is from 1.

    >>> percent_off(1.37), percent_off(0.98)
    ('+37 %', '−2 %')
    """
    return minus(f"{100 * (variance - 1):+.0f} %")


def _points(variance: float) -> str:
    """The same without sign and unit, where it is above 1: for a tile."""
    return minus(f"{100 * (variance - 1):.0f}")


def _facts(numbers: dict[str, Any]) -> list[Fact]:
    speed, stale, survived = numbers["speed"], numbers["staleness"], numbers["survival"]
    same = "same bits" if survived["replayed"] else "DIFFERENT BITS"
    return [
        Fact(f"{speed['speedup']:.2f} ×", f"the updates a second with two workers, on {numbers['cores']} cores",
             speed["speedup"] < _PAYS),
        Fact(f"{_points(stale['variance']['as they are'])} → {_points(stale['variance']['compensated'])} %",
             f"error of variances with gradients {stale['mean_staleness']['as they are']:.0f} updates old: as they "
             "are, and compensated"),
        Fact(same, "when the run that was killed twice is repeated from its trace", not survived["replayed"]),
        Fact(f"{numbers['findings']}", "warnings of the runs' own diagnosis", numbers["findings"] > 0),
    ]  # fmt: skip


def _speed(numbers: dict[str, Any], pictures: dict[str, Versions]) -> str:
    speed = numbers["speed"]
    rows = tuple(
        (
            f"{w}",
            f"{speed['updates_per_second'][str(w)]:,.0f}",
            f"{speed['effective_draws_per_second'][str(w)]:,.0f}",
            f"{speed['variance'][str(w)]:.3f}",
        )
        for w in (1, 2)
    )
    table = TextTable(
        "", ("workers", "updates a second", "effective draws a second", "φ̂ (exact: 1)"), rows, emphasised=1,
        note="Means of two runs each, which took turns. φ̂ is the variance of a weight over the exact one, averaged "
        "over all weights and draws.",
    )  # fmt: skip
    return markup.section(
        "speed", "1. Workers help",
        markup.paragraph(
            "One chain samples the posterior of a regression with 60 weights. With two workers its gradients are one "
            f"update old, and {speed['speedup']:.2f} times as many come in: the same Monte Carlo error in "
            f"{1 / speed['speedup']:.0%} of the time. (What is left however long a run is, the bias of steps, "
            "minibatches and old gradients, is seen in φ̂, and is the subject of part 2.)"
        ),
        markup.table(table),
        _picture(pictures, "speed", "φ̂ and the error of posterior means against the clock, for one and two workers",
                 "First, φ̂ as the run goes on. Where it ends beside 1, that is the bias of steps and minibatches, and "
                 "with two workers of gradients one update old, which part 2 takes away. Then, how far the estimated "
                 "posterior means are from the exact ones. <b>Blue is where orange will be later.</b>"),
    )  # fmt: skip


def _staleness(numbers: dict[str, Any], pictures: dict[str, Versions]) -> str:
    stale = numbers["staleness"]
    predicted = stale["variance_predicted"]
    theory = "" if predicted is None else f" Theory predicts {percent_off(predicted)}."
    off = {name: percent_off(value) for name, value in stale["variance"].items()}
    return markup.section(
        "staleness", "2. Old gradients can be had for nothing",
        markup.paragraph(
            f"Now {stale['workers']} workers, each {1000 * stale['away']:g} ms away, as behind a network. Their "
            f"gradients are {stale['mean_staleness']['as they are']:.1f} updates old on average. Used as they are, "
            f"they push the chain past the mode, and variances come out {off['as they are']} off.{theory} But most of "
            "what an old gradient has missed is known at the server: the curvature times the way the chain has gone "
            f"since. With that put right (architecture=sg.StaleGradients(linear=1.0)) they are "
            f"{off['compensated']} off: what is "
            "left are the minibatches. Same workers, same network, same number of gradients."
        ),
        _picture(pictures, "staleness", "Histogram of the variance of each weight over the exact one",
                 "The variance of each of the 60 weights over the exact one. <b>Orange is what late gradients do, blue "
                 "is what is left of it.</b>"),
    )  # fmt: skip


def _survival(numbers: dict[str, Any], pictures: dict[str, Versions]) -> str:
    it = numbers["survival"]
    worker = (
        f"A worker was killed with kill -9; the others carried on, and it was replaced ({', '.join(it['events'])})."
        if it["worker_killed"]
        else "On this system no worker could be singled out to be killed."
    )
    whole = (
        f"Then the whole run was, and {it['kept']:,} of {it['steps']:,} updates were safe on disk."
        if it["run_killed"]
        else "The run was over before it could be killed as well."
    )
    same = (
        "In the end every draw of it was computed again, from the trace alone, in one thread: all bits are the same."
        if it["replayed"]
        else "Computed again from its trace it came out DIFFERENT. That is a defect: please report it."
    )
    return markup.section(
        "survival", "3. Kill it, and repeat it bit for bit",
        markup.paragraph(
            f"{worker} {whole} It went on from there on another engine, in {it['sessions']} sessions together. {same} "
            "Who was fast and who was late, who died and when: all of that is in the trace, and arithmetic depends on "
            "nothing else."
        ),
        _picture(pictures, "survival", "Updates against time with the moments of the kills",
                 "The run's progress by its own clock. What had been sampled after the last checkpoint, a quarter of a "
                 "second before, is all that a kill takes."),
    )  # fmt: skip


def _trust(numbers: dict[str, Any]) -> str:
    return markup.section(
        "trust", "Does it say so itself?",
        markup.paragraph(
            "Every run checks itself: whether chains have arrived, how many effective draws there are, and whether "
            "step size, staleness and minibatch noise bias the result. Of the run with two workers and of the "
            f"compensated one it says: {numbers['diagnosis']}."
        ),
    )  # fmt: skip


def _again(numbers: dict[str, Any], folder: str) -> str:
    settings = numbers["settings"]
    options = [
        f"--{name} {settings[name]}" for name in ("steps", "seed") if settings[name] != getattr(Settings(), name)
    ]
    commands = "\n".join([
        " ".join(["stalegrad demo", f"--out {shlex.quote(folder)}", *options]),
        f"stalegrad show {shlex.quote(folder)}/run      # the run that was killed",
        f"stalegrad report {shlex.quote(folder)}/run    # a page about it",
    ])  # fmt: skip
    code = (
        "import stalegrad as sg\n\n"
        "potential = sg.potentials.Linear(X, y, batch_size=500)   # or JAX, PyTorch, …\n"
        "run = sg.sample(potential, steps=100_000, workers=2)     # finds step sizes\n"
        "print(run.summary())\n"
        "sg.replay(run.trace, potential)                          # bit for bit"
    )
    versions = ", ".join(f"{name} {version}" for name, version in numbers["versions"].items())
    return markup.section(
        "again", "Do it yourself", markup.code(code), markup.code(commands),
        markup.paragraph(f"Measured in {numbers['seconds']:.0f} s on {numbers['cores']} cores. {versions}.", "note"),
        "<footer>Method: Chen, Ding, Li, Zhang and Carin, <i>Stochastic Gradient MCMC with Stale Gradients</i>, "
        "NeurIPS 2016.</footer>",
    )  # fmt: skip


def _picture(pictures: dict[str, Versions], name: str, alternative: str, caption: str) -> str:
    return markup.figure(markup.picture_of_any_width(pictures[name], alternative), caption)
