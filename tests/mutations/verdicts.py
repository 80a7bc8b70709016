"""What became of the defects of the list, kept in verdicts.json beside it: one line each, committed with the source.

A verdict holds for the code that it was found with. It carries the digest of its change, without which it is none, and
one of the two files that matter most, the one with the defect and the one with the test that noticed: where these have
changed since, a verdict is counted as one of older code, and tried again after those that nothing is known of.
"""

import hashlib
import json
import os
import threading
from pathlib import Path

from .defects import ROOT, Defect

VERDICTS = Path(__file__).with_name("verdicts.json")
KEPT = ("outcome", "by", "stages", "quickly", "confirmed", "digest", "code")
NOTICED = ("caught", "timed out")


class Verdicts:
    """What is known so far, on disk after every defect.

    Args:
        path: of the file.
        root: the folder with src and tests, as which the verdicts are judged to be of this code or of older.
        fresh: forget what is known from earlier runs.
    """

    def __init__(self, path: Path = VERDICTS, root: Path = ROOT, *, fresh: bool = False) -> None:
        self._path, self._root, self._lock = path, root, threading.Lock()
        self._of = {} if fresh or not path.exists() else json.loads(path.read_text())

    def of(self, defect: Defect) -> dict[str, object]:
        """What is known of this change; nothing if it is another by now."""
        found = self._of.get(defect.name)
        return dict(found) if found and found["digest"] == defect.digest else {}

    def outcome(self, defect: Defect) -> str:
        """How it ended, in one word or two."""
        return "equivalent" if defect.equivalent else str(self.of(defect).get("outcome", "not tried"))

    def is_older(self, defect: Defect) -> bool:
        """Whether there is a verdict, and it was found with other code than there is now."""
        found = self.of(defect)
        return "code" in found and found["code"] != self._code(defect, str(found.get("by", "")))

    def is_settled(self, defect: Defect) -> bool:
        """Whether it has been noticed in this code."""
        return self.outcome(defect) == "caught" and not self.is_older(defect)

    def stages(self, defect: Defect) -> int:
        """Through how many stages it has gone unnoticed."""
        return int(str(self.of(defect).get("stages", 0)))

    def put(self, defect: Defect, result: dict[str, object]) -> None:
        """Note what has been found."""
        code = {} if result["outcome"] == "not tried" else {"code": self._code(defect, str(result["by"]))}
        facts = {**result, **code, "digest": defect.digest}
        with self._lock:
            self._of[defect.name] = {key: facts[key] for key in KEPT if facts.get(key)}
            lines = (f"{json.dumps(name)}: {json.dumps(self._of[name])}" for name in sorted(self._of))
            beside = self._path.with_suffix(".partial")
            beside.write_text("{\n" + ",\n".join(lines) + "\n}\n")
            os.replace(beside, self._path)

    def _code(self, defect: Defect, by: str) -> str:
        files = (self._root / "src" / "stalegrad" / defect.file, self._root / by.partition("::")[0])
        content = b"\0".join(file.read_bytes() for file in files if file.is_file())
        return hashlib.sha256(content).hexdigest()[:12]
