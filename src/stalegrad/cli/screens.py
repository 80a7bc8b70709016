"""What the terminal shows of runs: one of them, or a list."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import OPAQUE
from stalegrad._internal.text import duration, printable
from stalegrad.analysis.estimates.posterior_average import plus_minus
from stalegrad.engines.tables import ENGINES, LAWS
from stalegrad.kernels.tables import KERNELS, SCHEDULES
from stalegrad.runs.divergence import remembered_step
from stalegrad.runs.jobs import ModelFunction
from stalegrad.runs.summary import Summary

if TYPE_CHECKING:
    from stalegrad.runs.store import Info

UNREADABLE = "unreadable"
"""The state of a folder that is damaged, or no run at all."""

_ROWS = 8  # parameters on the screen
_NARROW = 80  # columns; a list on fewer leaves out model and kernel
_DEFAULTS = {
    name: {f.name: f.default for f in fields(member)}  # type: ignore[arg-type]  # all are dataclasses
    for registry in (KERNELS, SCHEDULES, ENGINES, LAWS)
    for name, member in registry.members.items()
}
_COLOURS = {
    "finished": "green", "running": "cyan", "interrupted": "yellow", "killed": "yellow", "failed": "red",
    "diverged": "red", UNREADABLE: "red",
}  # fmt: skip


def show(console: Console, info: "Info", summary: Summary, findings: str) -> None:
    """One run: its facts, its chains, some parameters, and what the diagnostics found, in words, unless empty."""
    console.print(Text.assemble((printable(str(info.path)), "bold"), "  ", _state(info.state)), soft_wrap=True)
    if info.failure:
        failure = info.failure.strip()
        console.print(_text(failure, "red"), soft_wrap="\n" in failure)  # a traceback is left as it is
    console.print(_facts(info, summary))
    console.print()
    console.print(_chains(summary, info.steps))
    if summary.parameters:
        console.print()
        console.print(_parameters(summary))
        console.print(_text(_worst(summary), "dim"))
    if findings:
        console.print()
        console.print(_text(findings))
    if info.state == "diverged":
        where, step = shlex.quote(str(info.path)), remembered_step(info.failure)
        console.print()
        console.print(_text(f"To go on:  stalegrad resume {where} --step-size {'H' if step is None else f'{step:g}'}"))
        console.print(_text(f"To delete: stalegrad rm {where}"))


def no_draws(info: "Info") -> str:
    """Why there is nothing to say about the parameters of a run yet."""
    if info.state == "diverged":
        return "There are no draws: it has diverged before the first."
    burn_in, made = info.record.settings.burn_in, min(info.updates)
    if made <= burn_in and burn_in:
        return (
            f"There are no draws yet: the first {burn_in:,} updates of each chain are burn-in, and {made:,} are made."
        )
    return f"There are no draws of all chains yet: {made:,} updates of the slowest are saved."


def show_list(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Many runs, a line each, from :func:`listed`; below, why some folders could not be read."""
    wide = console.width >= _NARROW
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    if wide:
        table.add_column("model", overflow="fold")
        table.add_column("kernel", overflow="fold")
    for heading in ("done", "size", "age"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        words = [row["model"].rpartition(":")[2], row["kernel"]] if wide else []
        numbers = ["", "", ""]
        if row["problem"] is None:
            numbers = [f"{row['done']:.0%}", decimal(row["bytes"]), _age(row["created"])]
        table.add_row(_text(row["name"]), _state(row["state"]), *map(_text, words), *numbers)
    console.print(table)
    for row in rows:
        if row["problem"] is not None:
            console.print(_text(f"{row['name']}: {row['problem']}", "dim"))


def listed(folder: Path) -> dict[str, Any]:
    """A run as an entry of a list; of a folder that could not be read there is little more than the reason."""
    from stalegrad.runs.store import inspect

    try:
        return _entry(folder.name, inspect(folder))
    except Exception as problem:  # one damaged or foreign folder must not hide the others
        keys = ("done", "updates", "steps", "bytes", "created")
        unknown = {"model": "", "kernel": "", **dict.fromkeys(keys)}
        return {"name": folder.name, "state": UNREADABLE, **unknown, "problem": str(problem) or type(problem).__name__}


def _entry(name: str, entry: "Info") -> dict[str, Any]:
    return {
        "name": name,
        "state": entry.state,
        "model": _model(entry, arguments=False),
        "kernel": ", ".join(dict.fromkeys(_name(table) for table in entry.record.kernels)),
        "done": min(entry.updates) / entry.steps,
        "updates": entry.updates,
        "steps": entry.steps,
        "bytes": entry.bytes_on_disk(),
        "created": entry.created,
        "problem": None,
    }


def plain_info(info: "Info") -> dict[str, Any]:
    """All that is known of a run without reading its draws, for JSON."""
    names = ("state", "failure", "created", "steps", "updates", "draws", "sessions", "job")
    known = {name: getattr(info, name) for name in names}
    return {"path": str(info.path), **known, "record": info.record.table(), "bytes": info.bytes_on_disk()}


def _facts(info: "Info", summary: Summary) -> Table:
    settings, model, seconds = info.record.settings, info.record.model, summary.gradient_seconds
    rows = {
        "model": (
            _model(info, arguments=True),
            f"{_count(model.size, 'parameter')}, {model.dtype}",
            f"{model.n_data:,} data in minibatches of {model.batch_size:,}",
        ),
        "kernel": dict.fromkeys(map(_words, info.record.kernels)),
        "workers": (
            f"{_count(settings.servers, 'chain')} of {_count(settings.workers, 'worker')}",
            _bound(settings.max_staleness, settings.policy),
            f"engine {_words(info.record.engine)}",
        ),
        "draws": (
            _count(info.steps, "step"),
            f"burn-in {settings.burn_in:,}",
            f"1 in {settings.thin:,} kept",
            f"seed {settings.seed}",
        ),
        "time": (
            f"begun {_age(info.created)} ago",
            _sessions(info),
            "" if seconds is None else f"{duration(seconds)} a gradient",
        ),
        "faults": [f"{_count(number, 'worker')} {kind}" for kind, number in summary.events.items()],
        "on disk": (decimal(info.bytes_on_disk()),),
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, facts in rows.items():
        if any(facts):
            table.add_row(name, _text(" · ".join(filter(None, facts))))
    return table


def _chains(summary: Summary, steps: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("chain", "updates", "", "draws", "dropped", "mean τ", "max τ"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, chain in enumerate(summary.chains):
        table.add_row(
            str(number), f"{chain.updates:,}", f"{chain.updates / steps:.0%}", f"{chain.draws:,}",
            f"{chain.dropped:,}", _number(chain.mean_staleness, ".2f"), f"{chain.max_staleness:,}",
        )  # fmt: skip
    return table


def _parameters(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter", overflow="fold")
    for heading in ("mean ± s.e.", "s.d.", "R-hat", "ESS"):
        table.add_column(heading, justify="right", no_wrap=True)
    for p in summary.parameters[:: -(-len(summary.parameters) // _ROWS)]:
        mean = plus_minus(p.mean, p.standard_error).replace("-", "−")
        table.add_row(_text(p.name), mean, f"{p.deviation:.3g}", _number(p.rhat, ".3f"), _number(p.ess, ",.0f"))
    return table


def _worst(summary: Summary) -> str:
    least = min(summary.parameters, key=lambda p: math.inf if math.isnan(p.ess) else p.ess)
    largest = max(summary.parameters, key=lambda p: -math.inf if math.isnan(p.rhat) else p.rhat)
    looked, size = len(summary.parameters), summary.size
    text = f"Of {'all' if looked == size else f'{looked} out of'} {_count(size, 'parameter')}"
    if not math.isnan(largest.rhat):
        text += f" the largest R-hat is {largest.rhat:.3f}, of {largest.name};"
    travelling = sum(math.isnan(p.ess) for p in summary.parameters)
    if travelling:
        shown, have = f"{_count(travelling, 'parameter')} shown with ± ?", "has" if travelling == 1 else "have"
        return f"{text} {shown} {have} not arrived, and {have} no standard error."
    return f"{text} the smallest ESS is {least.ess:,.0f}, of {least.name}."


def _model(info: "Info", *, arguments: bool) -> str:
    """What makes the model, of a run that a file described; else the potential's class."""
    try:
        model = ModelFunction.read((info.job or {})["model"], "model")
    except (ArgumentError, KeyError, TypeError):  # there was no file, or what is kept in its place is anybody's table
        return info.record.model.type
    given = ", ".join(f"{name}={_words(value)}" for name, value in model.arguments.items())
    return f"{model.function}({given})" if arguments else model.function


def _words(value: Any) -> str:
    """A plain table as the call that it stands for, without what is so by default.

    >>> _words({"name": "SGLD", "temperature": 1.0, "step_size": {"name": "Polynomial", "a": 0.1}})
    'SGLD(step_size=Polynomial(a=0.1))'
    """
    if not isinstance(value, Mapping):
        return repr(value) if isinstance(value, str) else str(value)
    name = _name(value)
    usual = {"name": name, OPAQUE: name, **_DEFAULTS.get(name, {})}
    settings = [f"{key}={_words(entry)}" for key, entry in value.items() if key not in usual or entry != usual[key]]
    return f"{name}({', '.join(settings)})" if settings else name


def _name(table: Mapping[str, Any]) -> str:
    return str(table.get("name", table.get(OPAQUE, "")))


def _bound(max_staleness: int | None, policy: str) -> str:
    return "no bound on staleness" if max_staleness is None else f"staleness at most {max_staleness} ({policy})"


def _sessions(info: "Info") -> str:
    """How long a run has been at work. A session that goes on has no end yet, and one that was killed has none."""
    sessions = info.sessions
    now = [{"ended": datetime.now(UTC).isoformat()} if info.state == "running" else {}]
    whole = [{**s, **more} for s, more in zip(sessions, [{}] * (len(sessions) - 1) + now, strict=False)]
    moments = [(_moment(s["started"]), _moment(s["ended"])) for s in whole if "ended" in s]
    seconds = sum((ended - started).total_seconds() for started, ended in moments)
    text = f"{duration(seconds)} in {_count(len(moments), 'session')}" if moments else ""
    if killed := len(sessions) - len(moments):
        text += f"{' and ' if text else ''}{_count(killed, 'session')} that {'was' if killed == 1 else 'were'} killed"
    setups = dict.fromkeys(f"{_name(s['engine'])} with {_count(s['workers'], 'worker')}" for s in sessions)
    return text if len(setups) < 2 else f"{text}, on {', then '.join(setups)}"


def _state(state: str) -> Text:
    return _text(state, _COLOURS.get(state, ""))


def _text(words: str, style: str = "") -> Text:
    """What comes from a file or from a worker: neither markup nor escape sequences in it count."""
    return Text(printable(words), style=style)


def _number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _age(created: str) -> str:
    """How long ago, in the largest unit that fits.

    >>> _age("2000-01-01T00:00:00+00:00").endswith(" days")
    True
    """
    seconds = max(0, round((datetime.now(UTC) - _moment(created)).total_seconds()))
    for unit, length in (("day", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return _count(seconds // length, unit) if unit == "day" else f"{seconds // length} {unit}"
    return f"{seconds} s"


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
