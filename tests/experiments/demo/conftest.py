import fcntl
import json
from dataclasses import asdict, replace

import pytest
from typer.testing import CliRunner


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory, worker_id):
    """What the command makes of a small run: its folder, its numbers, what it said, and its settings.

    The pictures take their time, so all test processes share the one that the first of them makes.
    """
    from stalegrad.experiments.demo import Settings  # not before numba's cache has its place

    shared = tmp_path_factory.getbasetemp()
    shared = (shared if worker_id == "master" else shared.parent) / "demonstration"
    shared.mkdir(exist_ok=True)
    out, notes = shared / "made" / "on the way", shared / "notes.json"
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not notes.exists():
            notes.write_text(json.dumps(_demonstrate(out)))
    numbers, said, settings = json.loads(notes.read_text())
    return out, numbers, said, Settings(**settings)


def _demonstrate(out):
    """Runs ``stalegrad demo``, with fewer draws and smaller minibatches than it would choose."""
    from stalegrad.cli import app
    from stalegrad.experiments import demo

    made = []

    def small(settings, folder, *, real=demo.demonstrate, **options):
        settings = replace(settings, draws=30, batch_size=64)
        made.append((real(settings, folder, **options), settings))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "demonstrate", small)
        result = CliRunner().invoke(
            app, ["demo", "--out", str(out), "--steps", "1000", "--workers", "2", "--seed", "5"]
        )
    assert result.exit_code == 0, result.output
    ((numbers, settings),) = made
    return numbers, result.stdout, asdict(settings)
