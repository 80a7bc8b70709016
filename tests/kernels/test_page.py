"""docs/samplers.md: its figures are those of the theory, its code is what it says, and no sampler is missing."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels import SAMPLERS, samplers
from stalegrad.protocol.chain import Chain

pytestmark = pytest.mark.long

PAGE = Path(__file__).resolve().parents[2] / "docs" / "samplers.md"


def test_figures():
    found = doctest.testfile(str(PAGE), module_relative=False, globs={"sg": sg})
    assert found.attempted == 9
    assert found.failed == 0


def test_every_sampler_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for name in SAMPLERS:
        assert f"`{name}(" in text, name


def test_code_makes_samplers_that_move():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    gamma = sg.potentials.from_gradient(lambda theta, indices: 1 - 4 / theta, size=2, n_data=1, initial=[1.0, 2.0])
    moved = 0
    for block in blocks:
        if ">>>" in block:
            continue
        names = {"sg": sg, "potential": gamma}
        exec(block, names)
        kernel = names.get("kernel") or sg.SGRLD(step_size=1e-3, metric=names["metric"])
        chain = Chain(kernel, np.ones((1, 2)), 1, 0)
        chain.advance(np.ones((1, 2)))
        assert not (chain.position == 1).any()
        moved += 1
    assert moved == 4


def test_every_sampler_has_its_lines_in_the_stub_of_the_package():
    """``stalegrad.NAME`` comes from the stub, which type checkers read and which no program writes."""
    stub = (Path(sg.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    imported = re.search(r"from \.kernels import (.*)", stub).group(1)
    for name in SAMPLERS:
        assert re.search(rf"\b{name}\b", imported), f"add {name} to 'from .kernels import …' in __init__.pyi"
        assert f'    "{name}",\n' in stub, f"add {name} to __all__ in __init__.pyi"
        assert getattr(sg, name) is SAMPLERS[name]


def test_every_file_of_a_sampler_is_registered():
    files = {path.stem for path in Path(samplers.__file__).parent.glob("*.py")} - {"__init__"}
    modules = {sampler.__module__.rpartition(".")[2] for sampler in SAMPLERS.values()}
    assert files == modules, f"import {sorted(files - modules)} in stalegrad/kernels/__init__.py"
