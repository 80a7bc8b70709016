"""Stand-ins for the store and for all that looks at runs, and ways to call the commands."""

import re
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stalegrad as sg
import stalegrad.analysis.plots
import stalegrad.analysis.report
import stalegrad.runs.sample
import stalegrad.runs.store
from stalegrad import cli
from stalegrad.cli.common import console
from stalegrad.engines import engine_table
from stalegrad.runs.sample import sample as really_sample

JOB = """
steps = 200
servers = 2
workers = 3
engine = "inline"
seed = 4

[model]
function = "stalegrad.datasets.models:gaussian"
arguments = {n_data = 40, dimensions = 3, batch_size = 4}

[kernel]
name = "SGHMC"
step_size = 0.02
friction = 5.0

[engines.processes]
threads = 2
"""


def invoke(*arguments, columns=120):
    console.width = columns  # rich looks at COLUMNS when a console is made, which is long ago
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output), result.exception


def run_main(monkeypatch, capsys, *arguments):
    """Through the entry point, which turns our own errors into a line and a status."""
    monkeypatch.setattr(sys, "argv", ["stalegrad", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code, capsys.readouterr()


@dataclass
class Info:
    """As stalegrad.runs.store has it."""

    path: Path
    record: object
    job: dict | None
    updates: list
    draws: list
    state: str = "finished"
    failure: str | None = None
    created: str = field(default_factory=lambda: (datetime.now(UTC) - timedelta(hours=3, minutes=5)).isoformat())
    sessions: list = field(default_factory=list)

    @property
    def steps(self):
        return self.record.settings.steps

    def bytes_on_disk(self):
        return 12_345_678


@dataclass
class Diagnosis:
    potential: object
    skipped: dict = field(default_factory=dict)

    def as_dict(self):
        return {"ok": True}

    def __str__(self):
        return "no findings in 7 checks" if self.potential is None else "no findings in 9 checks"


class FakeStores:
    """Keeps runs in memory under the names of their folders."""

    def __init__(self):
        self.infos, self.runs, self.calls = {}, {}, []
        self.spoil = lambda run: run

    def sample(self, potential, kernel, *, store, job, checkpoint_every, on_store_error, engine, **arguments):
        self.calls.append({**arguments, "engine": engine, "store": store})
        if Path(store).exists():
            raise sg.StalegradError(f"{store} holds a run already")
        run = really_sample(potential, kernel, engine=engine, **arguments)
        self.keep(store, run, potential, kernel, engine, job, arguments)
        return self.spoil(run)

    def keep(self, store, run, potential, kernel, engine, job, arguments):
        session = {"engine": engine_table(engine), "workers": arguments["workers"]}
        session |= {"started": "2026-01-01T10:00:00+00:00", "ended": "2026-01-01T10:01:05+00:00"}
        updates = [chain.steps for chain in run.trace.chains]
        info = Info(Path(store), run.trace.record, job, updates, [len(d) for d in run.chain_draws], sessions=[session])
        Path(store).mkdir(parents=True)
        self.infos[Path(store).resolve()], self.runs[Path(store).resolve()] = info, run

    def inspect(self, path):
        if Path(path).resolve() not in self.infos:
            raise sg.StalegradError(f"{path} holds no run")
        return replace(self.infos[Path(path).resolve()], path=Path(path))

    def load(self, path):
        return self.runs[self.inspect(path).path.resolve()]

    def resume(self, path, potential=None, **settings):
        self.calls.append({"path": path, "potential": potential, **settings})
        return self.load(path)
