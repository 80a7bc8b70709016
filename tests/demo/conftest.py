from io import StringIO

import pytest
from rich.console import Console


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory):
    """A small run: its folder, its numbers, what it said, and its settings."""
    from stalegrad.experiments.demo import Settings, demonstrate  # not before numba's cache has its place

    settings = Settings(steps=600, draws=30, batch_size=64, seed=5)
    out = tmp_path_factory.mktemp("demo") / "made" / "on the way"
    said = StringIO()
    numbers = demonstrate(settings, out, console=Console(file=said, width=80), progress=False)
    return out, numbers, said.getvalue(), settings
