"""What happened while it ran: updates, staleness, speed, and what went wrong."""

from collections import Counter

from stalegrad._internal.text import duration
from stalegrad.analysis.plots.quantities import virtual_time
from stalegrad.analysis.plots.throughput import event_text
from stalegrad.analysis.report.captions import shown
from stalegrad.analysis.report.markup import code, folded, paragraph, section, table
from stalegrad.analysis.report.material import Material
from stalegrad.analysis.report.text_table import TextTable, rounded

MOST_EVENTS = 50
"""Events that are listed one by one."""


def execution(material: Material) -> str:
    """The section with updates, staleness, speed and failures of every chain."""
    return section(
        "execution", "What happened", table(chains_table(material)), shown(material, "staleness"),
        shown(material, "throughput") or paragraph("The trace holds no times, so that nothing is known of the speed."),
        shown(material, "workers"), _time(material), _events(material),
    )  # fmt: skip


def chains_table(material: Material) -> TextTable:
    """Every chain's updates, staleness and speed."""
    rows = []
    for s, chain in enumerate(material.run.trace.chains):
        counts, seconds = chain.staleness_counts, chain.seconds
        stale = (f"{counts.mean:.2f}", f"{counts.largest:,}") if counts.accepted else ("–", "–")
        rate = rounded(chain.steps / seconds) if seconds > 0 else "–"
        rows.append((f"chain {s}", f"{chain.steps:,}", f"{len(chain) - chain.steps:,}", *stale, rate))
    second = "virtual second" if virtual_time(material.run) else "second"
    note = (
        "τ is the staleness of the gradients that were used: how many updates the chain had made since the worker read "
        "the parameter. Dropped gradients came later than the bound allows."
    )
    columns = ("", "updates", "dropped", "mean τ", "max τ", f"updates a {second}")
    return TextTable("", columns, tuple(rows), note=note)


def _time(material: Material) -> str:
    """Where the time went; nothing if it was virtual."""
    timing, servers = material.run.timing, len(material.run.trace)
    if timing is None:
        return ""
    total = max(timing.gradients + timing.waiting, 1e-12)
    rows = (
        ("workers in gradients", f"{timing.gradients:,.1f} s", f"{timing.gradients / total:.0%}"),
        ("workers in exchange and waiting", f"{timing.waiting:,.1f} s", f"{timing.waiting / total:.0%}"),
        ("servers in updates", f"{timing.updates:,.1f} s", f"{timing.updates / max(servers * timing.wall, 1e-12):.0%}"),
    )
    note = (
        f"{timing.wall:,.1f} s from start to end; a gradient took {duration(timing.gradients / max(timing.count, 1))}."
    )
    return table(TextTable("Where the time went", ("", "all together", "share"), rows, note=note))


def _events(material: Material) -> str:
    events = material.run.events
    if not events:
        return paragraph("No worker failed." if material.run.timing is not None else "")
    counts = Counter(event_text(event.kind) for event in events)
    kinds = ", ".join(f"{what} {'once' if number == 1 else f'{number:,} times'}" for what, number in counts.items())
    listed = [
        folded(f"{e.time:,.1f} s: worker {e.worker} of chain {e.chain} {event_text(e.kind)}", code(e.details))
        for e in events[:MOST_EVENTS]
    ]
    more = len(events) - len(listed)
    consequence = (
        "What a failed worker was computing is lost, the worker is replaced, and its chain goes on without it."
    )
    return "\n".join([
        "<h3>Workers that failed</h3>",
        paragraph(f"A worker {kinds}. {consequence}"),
        *listed,
        paragraph(f"And {more:,} more." if more else "", "note"),
    ])  # fmt: skip
