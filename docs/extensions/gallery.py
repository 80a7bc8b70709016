"""The order of the gallery, and the quiet that its examples run in."""

import os
import re
from pathlib import Path
from typing import Any

FIRST = [
    "trust_a_run.py",
    "simulated_cluster.py",
    "free_staleness.py",
    "chains_or_workers.py",
    "kill_and_resume.py",
    "real_data_classifier.py",
    "hierarchical_model.py",
    "flax_module.py",
    "equinox_module.py",
    "uncertain_images.py",
    "last_layer.py",
    "fine_tuning.py",
    "lora.py",
    "modes_and_ensembles.py",
    "local_learning_coefficient.py",
    "topics.py",
    "own_potential.py",
    "own_kernel.py",
    "own_architecture.py",
    "own_engine.py",
]
"""Examples in the order in which they are shown; those that are not listed follow by name."""


class order:
    """What sphinx-gallery sorts the files of a folder with."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """The place of a file in the gallery."""
        return (FIRST.index(name) if name in FIRST else len(FIRST)), name

    def __repr__(self) -> str:
        return "order()"  # part of Sphinx's configuration: the same in every build


def quiet(_conf: Any, _file: str) -> None:
    """Before each example: no progress bars, plain text, one look of pictures."""
    os.environ.setdefault("COLUMNS", "100")
    os.environ["TERM"] = "dumb"


def not_shown(folder: Path) -> str:
    """A pattern of the files that are no pages: those whose docstring has no title, such as parts of a job."""
    titled = re.compile(r'^r?"""[^\n]+\n={3,}\n')
    files = [path.name for path in sorted(folder.glob("*.py")) if not titled.match(path.read_text())]
    return "^(" + "|".join(re.escape(name) for name in files) + ")$" if files else "^$"
