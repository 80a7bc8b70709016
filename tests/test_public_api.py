"""What ``import stalegrad`` gives, and what it leaves alone."""

import pytest

import stalegrad
from stalegrad.kernels import SAMPLERS

EXPECTED = [
    *SAMPLERS, "ArgumentError", "Auxiliary", "Consensus",
    "DatasetError", "Downpour", "Elastic", "Estimate", "Exponential", "GradientError", "LogNormal", "LowRank",
    "MissingExtra", "JobError", "Network", "Run", "RunFailed", "Shards", "StaleGradients", "StalegradError",
    "StoreError", "Trace", "TraceError", "VisitingShards", "Warmup", "Watch", "WorkerNoise", "architectures",
    "datasets", "diagnostics",
    "engines", "estimates", "find_step_size", "kernels", "load", "metrics", "networks", "observers", "planning",
    "potentials", "priors", "protocol", "replay", "runs", "analysis", "resume", "sample", "schedules", "simulate",
    "simulation", "store", "testing", "theory",
]  # fmt: skip


def test_the_exported_names_are_exactly_these_and_all_are_there():
    assert sorted(stalegrad.__all__) == sorted(EXPECTED)
    assert all(hasattr(stalegrad, name) for name in EXPECTED)


def test_nothing_else_is_public():
    """Modules become attributes once something imports them; anything else that has no underscore is an export."""
    modules = {name for name, value in vars(stalegrad).items() if type(value).__name__ == "module"}
    public = {name for name in vars(stalegrad) if not name.startswith("_")}
    assert public - modules <= set(EXPECTED)


def test_importing_loads_only_what_is_used(fresh_python):
    """A name is imported when it is first used, with what it needs; until then not even numba is."""
    code = """
import sys, stalegrad
print("sample" in dir(stalegrad), "numba" in sys.modules, "stalegrad.runs.sample" in sys.modules)
stalegrad.sample
print("numba" in sys.modules, "stalegrad.runs.sample" in sys.modules)
"""
    done = fresh_python("-c", code)
    assert (done.stdout.split(), done.stderr) == (["True", "False", "False", "True", "True"], "")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^No stalegrad attribute sampel$"):
        stalegrad.sampel  # noqa: B018


def test_all_names_together_load_nothing_heavy(fresh_python):
    """numba itself looks for scipy, so what is counted is what comes on top of numba."""
    code = """
import sys, numba
before = set(sys.modules)
from stalegrad import *
assert callable(sample)
heavy = {
    "torch", "jax", "jaxlib", "scipy", "matplotlib", "ray", "mpi4py", "rich", "typer", "click", "numpyro",
    "arviz_base", "arviz_plots", "arviz_stats", "pandas", "sklearn", "xarray", "zarr",
}
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in heavy))
"""
    done = fresh_python("-c", code)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)


def test_importing_needs_no_extra(fresh_python):
    code = """
import sys
names = ["torch", "jax", "numpyro", "scipy", "sklearn", "matplotlib", "ray", "mpi4py", "rich", "typer"]
sys.modules.update(dict.fromkeys(names))
import stalegrad
from stalegrad import *
print(stalegrad.__version__)
"""
    done = fresh_python("-c", code)
    assert (done.stdout.strip(), done.stderr, done.returncode) == (stalegrad.__version__, "", 0)
