"""The data sets themselves, where they are at hand: rows, classes and well-known figures."""

import os
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.datasets import files

HERE = os.environ.get(files.VARIABLE) or Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, request):
    name = request.node.name.removeprefix("test_")
    if not (Path(HERE) / name).is_dir():
        pytest.skip(f"no {name} in a folder that {files.VARIABLE} names")
    monkeypatch.setenv(files.VARIABLE, str(HERE))


@pytest.mark.long
def test_a9a():
    data = sg.datasets.a9a()
    assert data.X.shape == (32_561, 123)
    assert data.X_test.shape == (16_281, 123)
    assert [int((y == label).sum()) for y in (data.y, data.y_test) for label in (1, -1)] == [7841, 24_720, 3846, 12_435]
    assert (data.X.indices.size, data.X_test.indices.size) == (451_592, 225_731)
    assert np.all(data.X.data == 1)
    assert data.X_test.indices.max() == 121  # feature 123 never occurs in the test file
    assert repr(data) == "Dataset(a9a: train 32,561 × 123, test 16,281 × 123, 2 classes)"


@pytest.mark.long
def test_mnist():
    data = sg.datasets.mnist()
    assert data.X.shape == (60_000, 28, 28)
    assert data.X_test.shape == (10_000, 28, 28)
    assert data.X.dtype == data.y.dtype == np.uint8
    assert np.bincount(data.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert round(float(data.X.mean() / 255), 5) == 0.13066


@pytest.mark.long
def test_cifar10():
    data = sg.datasets.cifar10()
    assert data.X.shape == (50_000, 3, 32, 32)
    assert data.X_test.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.y).tolist() == [5000] * 10
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    assert data.classes[3] == "cat"
    np.testing.assert_allclose(data.X.mean(axis=(0, 2, 3)) / 255, [0.49139968, 0.48215841, 0.44653091], rtol=1e-6)
