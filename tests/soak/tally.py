"""What a soak has seen, by engine: counted while it goes on, and shown as a table and as JSON in the end."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .watch import ALLOWED


@dataclass
class Tally:
    """Of one engine.

    Args:
        seconds: that its turns took.
        runs: that came to their end.
        gradients: that the models of these runs computed, as they counted themselves.
        resumed: sessions after the first of a run.
        injected, survived: faults by kind; survived are those of runs that kept all promises.
        late: faults that were planned and found the run at its end.
        events: what the runs reported of their workers, by kind.
        twice: gradients that were applied twice.
        lost: draws that a run should have and has not.
        replays, equal: complete runs, and those of them whose replay has the same bits.
        growth: what the processes occupy more with every run, the worst of all turns.
        left: names in /dev/shm, processes and files that nobody removed.
        swept: what MPI keeps in /dev/shm for processes that were killed with -9, and were removed by the soak.
        broken: what was promised and not kept, with the folder of evidence.
    """

    seconds: float = 0.0
    runs: int = 0
    gradients: int = 0
    resumed: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    lost: int = 0
    replays: int = 0
    equal: int = 0
    growth: dict[str, float] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    swept: int = 0
    broken: list[str] = field(default_factory=list)

    def grew(self, slopes: dict[str, float]) -> None:
        """Note the growth of a process's life."""
        for name, slope in slopes.items():
            self.growth[name] = max(slope, self.growth.get(name, slope))


def table(tallies: dict[str, Tally]) -> str:
    """All engines in a table, a column each."""
    kinds = list(dict.fromkeys(kind for tally in tallies.values() for kind in tally.injected))
    rows = [
        ("minutes", [f"{tally.seconds / 60:.1f}" for tally in tallies.values()]),
        ("runs", [str(tally.runs) for tally in tallies.values()]),
        ("gradients", [f"{tally.gradients:,}" for tally in tallies.values()]),
        ("resumed", [str(tally.resumed) for tally in tallies.values()]),
        ("", []),
        *((kind, [_survived(tally, kind) for tally in tallies.values()]) for kind in sorted(kinds)),
        (
            "faults survived",
            [f"{tally.survived.total()}/{tally.injected.total()}" for tally in tallies.values()],
        ),
        ("", []),
        ("gradients applied twice", [str(tally.twice) for tally in tallies.values()]),
        ("draws lost", [str(tally.lost) for tally in tallies.values()]),
        ("replays with the same bits", [f"{tally.equal}/{tally.replays}" for tally in tallies.values()]),
        ("memory, kB more a run", [_growth(tally, "resident") for tally in tallies.values()]),
        ("descriptors, more a run", [_growth(tally, "descriptors") for tally in tallies.values()]),
        ("threads, more a run", [_growth(tally, "threads") for tally in tallies.values()]),
        ("left behind", [str(len(tally.left)) for tally in tallies.values()]),
        ("/dev/shm swept after kill -9", [str(tally.swept) for tally in tallies.values()]),
        ("promises broken", [str(len(tally.broken)) for tally in tallies.values()]),
    ]
    widths = [max(map(len, column)) for column in zip(*(row for _, row in rows if row), list(tallies), strict=True)]
    first = max(len(name) for name, _ in rows)
    lines = [" " * first + "".join(f"  {name:>{w}}" for name, w in zip(tallies, widths, strict=True))]
    for name, row in rows:
        lines.append(f"{name:<{first}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(row, widths, strict=bool(row))))
    return "\n".join(line.rstrip() for line in lines)


def as_json(tallies: dict[str, Tally], **about: Any) -> dict[str, Any]:
    """The same for programs."""
    return about | {"allowed growth": ALLOWED, "engines": {name: vars(tally) for name, tally in tallies.items()}}


def broken(tallies: dict[str, Tally]) -> list[str]:
    """Every promise that was broken."""
    return [f"{name}: {promise}" for name, tally in tallies.items() for promise in tally.broken]


def _survived(tally: Tally, kind: str) -> str:
    return f"{tally.survived[kind]}/{tally.injected[kind]}" if tally.injected[kind] else "–"


def _growth(tally: Tally, name: str) -> str:
    return f"{tally.growth[name]:+.1f}" if name in tally.growth else "?"
