"""Whole runs with the samplers that are made of functions: on disk, on other engines, diagnosed."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels import kernel_table
from stalegrad.kernels.code import kernel_code
from stalegrad.testing import KERNELS, small_model


def friction(x):
    return {"momentum": 5.0}


def symplectic(x):
    return {("position", "momentum"): -1.0, ("momentum", "position"): 1.0}


RECIPE = sg.Recipe(friction, symplectic, step_size=0.02, sequence=("momentum", "position"))


@pytest.mark.long
def test_a_recipe_goes_on_from_disk_and_replays(tmp_path):
    model = small_model()
    sg.sample(model, RECIPE, steps=40, servers=2, workers=2, engine="inline", store=tmp_path / "x", progress=False)
    for engine, steps in (("threads", 80), ("processes", 120)):
        more = sg.resume(tmp_path / "x", model, RECIPE, engine=engine, steps=steps, progress=False)
        np.testing.assert_array_equal(sg.replay(more.trace, model, RECIPE).draws, more.draws)
    with pytest.raises(sg.ArgumentError, match="is made of Python functions, which no table can hold"):
        sg.resume(tmp_path / "x", model, steps=130, progress=False)


@pytest.mark.parametrize("kernel", [*KERNELS, RECIPE], ids=lambda kernel: type(kernel).__name__)
def test_new_samplers_are_diagnosed(kernel):
    model = small_model()
    run = sg.sample(model, kernel, steps=400, servers=2, workers=2, burn_in=100, engine="inline", progress=False)
    for findings in (run.diagnose(), run.diagnose(model), run.diagnose(model, kernel)):
        assert findings.measurements
    assert ("step size" in {m.name for m in findings.measurements}) == kernel.has_theory()


def test_reports_show_samplers_as_one_would_write_them():
    assert kernel_code(kernel_table(RECIPE)) == (
        "sg.Recipe(step_size=0.02, D=friction, Q=symplectic, "
        "auxiliary={'momentum': sg.Auxiliary(size=None, start=None)}, sequence=['momentum', 'position'])"
    )
    kernel = sg.SGRLD(step_size=lambda l: 0.1, metric=sg.metrics.ExpandedMean(), natural=True)  # noqa: E741
    assert (
        kernel_code(kernel_table(kernel)) == "sg.SGRLD(step_size=..., metric=sg.metrics.ExpandedMean(), natural=True)"
    )
    assert kernel_code(kernel_table(sg.UBU(step_size=0.1, friction=2))) == "sg.UBU(step_size=0.1, friction=2)"


def slower(l):  # noqa: E741
    return 0.002 / (1 + l)


@pytest.mark.parametrize("kernel", [sg.SGRLD.examples()[0], sg.SGLD(step_size=slower)], ids=["metric", "schedule"])
def test_functions_inside_a_kernel_are_told_in_words_when_stored(tmp_path, kernel):
    run = sg.sample(small_model(), kernel, steps=5, engine="inline", store=tmp_path / "x", progress=False)
    (table,) = sg.load(tmp_path / "x").trace.record.kernels
    assert type(kernel).__name__ in str(table)
    words = "slower" if isinstance(kernel, sg.SGLD) else "_divergence"
    assert words in str(table)
    assert " at 0x" not in str(table)
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), kernel).draws, run.draws)
