"""All benchmarks, one after the other: what ``make bench`` runs.

Each section is a process of its own (:mod:`sections`). A section that fails is reported and does not stop the others.
Written are the results with all bars, after every section, the page about them and its pictures; those of a quick run
go to ``bench-output``, so that they do not take the place of real ones. With ``--only`` the results of the other
sections stay as they are.

    python benchmarks/suite.py [--quick] [--only logistic server] [--results FILE] [--page FILE]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import harness
import page
import pictures
import sections
from results import figure, machine

ROOT = Path(__file__).resolve().parent.parent


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Run all benchmarks and write the page about them.")
    parser.add_argument(
        "--only", nargs="+", choices=[section.name for section in sections.SECTIONS], help="just these sections"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    parser.add_argument("--redraw", action="store_true", help="write the page again from the results that are there")
    return harness.parse(
        parser, given, results=ROOT / "bench-output" / "results.json", page=ROOT / "bench-output" / "benchmarks.md"
    )


def earlier(results: Path, quick: bool) -> dict[str, dict[str, Any]]:
    """The sections of results of the same kind that are there, by name."""
    if not results.exists():
        return {}
    document = json.loads(results.read_text(encoding="utf-8"))
    return {section["name"]: section for section in document["sections"]} if document["quick"] == quick else {}


def collect(found: Sequence[dict[str, Any]], quick: bool) -> dict[str, Any]:
    """Everything that was found, with the bars of all sections in one list at the top."""
    bars = [{**bar, "section": section["name"]} for section in found for bar in section.get("bars", [])]
    failed = [{"section": section["name"], "failure": section["failure"]} for section in found if "failure" in section]
    return {"quick": quick, "bars": bars, "failed": failed, "machine": machine(), "sections": list(found)}


def main() -> int:
    """Run, collect, write; the status is 1 if a section failed, whatever its figures."""
    given = arguments()
    if given.redraw:
        document = json.loads(given.results.read_text(encoding="utf-8"))
    else:
        wanted = [s for s in sections.SECTIONS if not given.only or s.name in given.only]
        found = earlier(given.results, given.quick) if given.only else {}
        given.results.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            for number, section in enumerate(wanted, 1):
                print(f"[{number}/{len(wanted)}] {section.title}", file=sys.stderr, flush=True)
                found[section.name] = sections.run(section, Path(folder), given.quick)
                ordered = [found[each.name] for each in sections.SECTIONS if each.name in found]
                document = collect(ordered, given.quick)
                given.results.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    given.page.parent.mkdir(parents=True, exist_ok=True)
    folder = given.page.with_suffix("")
    drawn = pictures.draw_all(document, folder)
    given.page.write_text(page.text(document, drawn, folder.name), encoding="utf-8")
    print_results(document)
    print(f"written: {given.results}, {given.page}")
    return 1 if document["failed"] else 0


def print_results(document: dict[str, Any]) -> None:
    """The bars of all sections, and what failed, on the terminal."""
    table = Table(title="Bars" + (" (quick: the figures mean little)" if document["quick"] else ""))
    for number, heading in enumerate(("", "ours", "peer", "ratio", "bar", "holds")):
        table.add_column(heading, justify="right" if number else "left")
    for bar in document["bars"]:
        sign = "≥" if bar["at_least"] else "≤"
        cells = figure(bar["ours"]), figure(bar["peer"]), figure(bar["ratio"]), f"{sign} {bar['bar']:g}"
        table.add_row(bar["name"], *cells, "yes" if bar["holds"] else "NO")
    console = Console()
    console.print(table)
    for each in document["failed"]:
        console.print(f"section {each['section']} failed: {each['failure']}")


if __name__ == "__main__":
    sys.exit(main())
