"""docs/samplers.md: its figures are those of the theory, its code is what it says, and no sampler is left out."""

import doctest
import re
from pathlib import Path

import numpy as np

import stalegrad as sg
from stalegrad import kernels
from stalegrad.chain import Chain

PAGE = Path(__file__).resolve().parents[2] / "docs" / "samplers.md"


def test_figures():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted == 3
    assert found.failed == 0


def test_every_sampler_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    samplers = [name for name, value in vars(kernels).items() if isinstance(value, type) and value is not kernels.Kernel
                and issubclass(value, kernels.Kernel)]  # fmt: skip
    assert len(samplers) == 8
    for name in samplers:
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
    assert moved == 3
