"""What the page is told of a run: a few sections of JSON, made when somebody asks and once for all who do."""

import json
import threading
from dataclasses import asdict
from typing import Any

from stalegrad._internal.numbers_file import without_nan
from stalegrad.runs.observers.sampler import Sampler

_EVENTS = 200  # the last ones
_LONGEST = 20_000  # characters of a traceback


class Content:
    """The sections.

    Args:
        sampler: what looks at the run.
    """

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self._lock = threading.Lock()
        self._made: tuple[int, dict[str, str]] = (-2, {})

    @property
    def number(self) -> int:
        """Of the newest snapshot; −1 before the first."""
        return -1 if self.sampler.latest is None else self.sampler.latest.number

    def sections(self, may_stop: bool) -> tuple[int, dict[str, str]]:
        """The number of the snapshot that they are made of, and the sections as JSON."""
        with self._lock:
            if self._made[0] != self.number:
                self._made = self.number, self._make()
            number, made = self._made
        return number, {**made, "rights": _json({"stop": may_stop})}

    def whole(self, may_stop: bool) -> str:
        """All sections as one object."""
        _, sections = self.sections(may_stop)
        return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in sections.items()) + "}"

    def _make(self) -> dict[str, str]:
        sampler = self.sampler
        recipe, latest = sampler.source.recipe, sampler.latest
        sections = {"recipe": _json({**asdict(recipe), "parameters": recipe.parameters()})}
        events = [asdict(event) for event in list(sampler.happenings)[-_EVENTS:]]
        for event in events:
            event["details"] = event["details"][-_LONGEST:]
        sections["events"] = _json(events)
        if latest is None:
            return sections
        pictures = latest.pictures.table()
        histories = pictures.pop("histories")
        source = sampler.source
        head = latest.table() | {
            "progress": latest.progress, "saved_ago": source.saved_ago(), "why_not": source.why_not(),
        }  # fmt: skip
        functions = {"now": head.pop("functions"), "history": histories["functions"]}
        return sections | {
            "head": _json(head), "functions": _json(functions), "progress": _json(histories["progress"]),
            "pictures": _json(pictures),
        }  # fmt: skip


def _json(value: Any) -> str:
    """JSON, with null for what it does not know. To look for that takes longer than all else, and seldom finds any."""
    try:
        return json.dumps(value, default=str, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(without_nan(value), default=str, separators=(",", ":"), allow_nan=False)
