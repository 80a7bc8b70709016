"""Job files: read, or refused with the name of the file."""

import sys

from hypothesis import given

from stalegrad.runs.jobs import JobFile

from .conftest import MODEL, cases, taken_or_refused
from .mutations import toml_files

JOB = {
    "steps": 200,
    "servers": 2,
    "workers": 3,
    "max_staleness": 8,
    "policy": "drop",
    "burn_in": 10,
    "thin": 2,
    "seed": 4,
    "engine": "inline",
    "store": "runs/x",
    "checkpoint_every": 10.0,
    "on_store_error": "stop",
    "messages": "float32",
    "model": {"function": "stalegrad.datasets.models:gaussian", "arguments": MODEL},
    "kernel": {"name": "SGHMC", "step_size": {"name": "Polynomial", "a": 0.1}, "friction": 5.0},
    "architecture": {"name": "Downpour", "n_push": 5},
    "engines": {
        "processes": {"threads": 2, "slow": {"1": 0.5}},
        "threads": {"patience": 5.0, "restarts": 2},
        "inline": {"compute": {"name": "LogNormal", "mean": 0.02, "factors": {"0": 5.0}}, "network": {"latency": 1e-4}},
    },
}


@cases(0.4)
@given(content=toml_files(JOB))
def test_job_files(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "job.toml"
    path.write_bytes(content)
    before = list(sys.path)
    try:
        with taken_or_refused(path):
            job = JobFile.read(path)
            assert JobFile.from_table(job.table()).table() == job.table() or "nan" in str(job.table())
    finally:
        sys.path[:] = before  # a file that names a class has its folder searched
