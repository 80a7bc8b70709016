"""The page about the benchmarks, from their results alone: its sentences must be true whatever the figures are."""

from collections.abc import Mapping, Sequence
from typing import Any

from results import bar_table

HEAD = """# Benchmarks

<!-- Written by `make bench` from benchmarks/results.json. Do not edit: run it again. -->

stalegrad beside what one would use instead: the same data, model, minibatch size and step, all
candidates of a section in one run (`make bench` measures all sections, or `--only` some of them again). Candidates take
turns where each runs several times, so that a slow second hurts them alike; compilation and warm-up are outside the
timing; the number of threads is fixed. Peers are written as their own documentation has it and, where we know how,
faster than that. Where a peer is faster than we are, the table shows it.
"""

READING = """## How to read it

- Each section ends with the processor and the commit that it was measured on: figures of different ones cannot be
  compared. Ratios travel better to other machines than rates do. Versions are those of the last section that was run.
- A *bar* is something that we want to hold; one that does not is listed all the same. *Peer* is the figure that ours is
  compared with, *ratio* is ours over it, or our figure where there is no peer.
- Rates are medians of rounds unless a section says that they are best rounds.
- `make bench` runs everything again, `make bench QUICK=1` in a size that only shows that it works. With
  `STALEGRAD_DATA` set to a folder with the real data they are used, otherwise data of the same shape are made; each
  table says which.
- All seconds that were measured are in `benchmarks/results.json`.
"""

QUICK = """
> **This page was written by a quick run.** Its sizes are tiny and its figures mean nothing: it shows that the
> benchmarks work.
"""


def text(document: Mapping[str, Any], pictures: Mapping[str, Sequence[str]], folder: str) -> str:
    """The page in Markdown.

    Args:
        document: as :func:`suite.collect` makes it.
        pictures: file names of the pictures of each section, by its name.
        folder: that holds them, beside the page.
    """
    parts = [HEAD]
    if document["quick"]:
        parts.append(QUICK)
    parts.append(_verdict(document["bars"], document["failed"]))
    if document["bars"]:
        parts.append(_table(bar_table(document["bars"]), heading=False))
    parts += [_machine(document), READING]
    for section in document["sections"]:
        parts.append(f"## {section['title']}\n")
        if "failure" in section:
            parts.append(f"This section could not be measured in this run ({section['failure']}).\n")
            continue
        parts.append(section["text"] + "\n")
        parts += [_table(each) for each in section["tables"]]
        parts += [f"![{section['title']}]({folder}/{name})\n" for name in pictures.get(section["name"], ())]
        commit = f"commit {section['code']}" if section.get("code") else "an earlier or unknown commit"
        where = f"{section.get('processor', 'an unknown processor')}, {commit}"
        parts.append(f"Settings: {_settings(section['settings'])}. Took {section['seconds']:.0f} s; {where}.\n")
    return "\n".join(parts)


def _verdict(bars: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]) -> str:
    held = sum(bar["holds"] for bar in bars)
    sentences = [f"{held} of {len(bars)} bars hold."] if bars else ["No bar was measured in this run."]
    if failed:
        sentences.append(f"{len(failed)} section{'s' * (len(failed) > 1)} could not be measured, see below.")
    return "## Bars\n\n" + " ".join(sentences) + "\n"


def _machine(document: Mapping[str, Any]) -> str:
    machine = document["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"## Machine and versions\n\n{machine['processor'] or 'an unknown processor'}, {machine['cores']} cores, "
        f"{machine['system']}; Python {machine['python']}, {versions}. "
        f"Load average at the end: {machine['load']:.1f}.\n"
    )


def _table(table: Mapping[str, Any], heading: bool = True) -> str:
    rows = [[cell.replace("|", "\\|") or " " for cell in row] for row in (table["headings"], *table["rows"])]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" + "|---:" * (len(rows[0]) - 1) + "|")
    title = f"**{table['title']}**\n\n" if heading else ""
    return title + "\n".join(lines) + "\n"


def _settings(settings: Mapping[str, Any]) -> str:
    shown = (
        f"{name.replace('_', ' ')} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in settings.items()
        if value is not None and value is not False
    )
    return "; ".join(shown)
