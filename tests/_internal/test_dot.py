"""The scalar product of compiled code: it adds in the order that is written down, wherever it stands."""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import stalegrad
from stalegrad._internal.dot import VECTORS, WIDTH, dot
from stalegrad._internal.jit import compiled
from stalegrad.potentials.glm.design_matrix import DesignMatrix

SIZES = (0, 1, 3, WIDTH - 1, WIDTH, WIDTH + 1, 31, VECTORS * WIDTH, 40, 63, 64, 100, 124, 257)


@compiled
def product(a, b, n):
    return dot(a, b, n)


def as_written_down(a, b):
    """The sum in the order of :mod:`stalegrad._internal.dot`, every multiply-add rounded once."""
    number = a.dtype.type

    def add(x, y, z):  # rounded once in float64; the second rounding to float32 changes nothing in these numbers
        return number(float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))))

    sums = np.zeros((VECTORS, WIDTH), a.dtype)
    blocks = len(a) // sums.size * sums.size
    vectors = len(a) // WIDTH * WIDTH
    for i in range(vectors):
        k, lane = (i // WIDTH % VECTORS if i < blocks else 0), i % WIDTH
        sums[k, lane] = add(a[i], b[i], sums[k, lane])
    lanes = (sums[0] + sums[1]) + (sums[2] + sums[3])
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    total = lanes[0]
    for i in range(vectors, len(a)):
        total = add(a[i], b[i], total)
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_it_adds_in_the_order_that_is_written_down(size, dtype):
    rng = np.random.default_rng(size)
    for _ in range(20):
        a, b = rng.standard_normal((2, size + 5)).astype(dtype)
        assert product(a, b, size) == as_written_down(a[:size], b[:size])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_models_add_in_this_order(dtype):
    rng = np.random.default_rng(1)
    X, theta = rng.standard_normal((50, 45)).astype(dtype), rng.standard_normal(45).astype(dtype)
    assert DesignMatrix(X, np.dtype(dtype)).times(theta).tolist() == [as_written_down(row, theta) for row in X]


def test_no_other_code_leaves_the_order_of_its_sums_to_the_compiler():
    source = Path(stalegrad.__file__).parent
    assert [path for path in source.rglob("*.py") if "fastmath" in path.read_text()] == []


GRADIENTS = """
import hashlib
import numpy as np
import stalegrad as sg
rng = np.random.default_rng(0)
model = sg.potentials.Logistic(rng.standard_normal((200, 40)), np.arange(200) % 2, batch_size=20)
gradients = [model.gradient(rng.standard_normal(40), rng.integers(0, 200, 20)) for _ in range(100)]
print(hashlib.sha256(np.array(gradients).tobytes()).hexdigest())
"""


@pytest.mark.long
def test_who_compiles_and_who_finds_it_on_disk_get_the_same_bits(tmp_path):
    """Code on disk has been optimised once more than what the process that compiled it uses itself."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    compiled_here, found = (
        subprocess.run(
            [sys.executable, "-c", GRADIENTS], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert list(tmp_path.rglob("*.nbc"))
    assert compiled_here == found
