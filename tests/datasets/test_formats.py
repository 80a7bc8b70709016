"""The three formats, read from small files of the test's own."""

import numpy as np
from scipy import sparse

import stalegrad as sg
from stalegrad.datasets import a9a_libsvm, cifar10_binary, mnist_idx


def test_libsvm_lines_become_rows_and_labels():
    X, y = a9a_libsvm.parse(b"-1 3:1 11:1 \n+1 \n+1 123:0.25\n", 123)
    assert X.shape == (3, 123)
    assert y.tolist() == [-1, 1, 1]
    dense = np.zeros((3, 123))
    dense[0, [2, 10]], dense[2, 122] = 1, 0.25
    np.testing.assert_array_equal(X.toarray(), dense)


def test_sparse_rows_are_scipys_and_go_into_the_models():
    X, y = a9a_libsvm.parse(b"-1 1:1 3:1\n+1 2:1\n+1 1:1\n", 3)
    assert isinstance(X, sparse.csr_array)
    assert X.dtype == np.float32
    theta = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
    models = [sg.potentials.Logistic(rows, y, intercept=True) for rows in (X, X.toarray())]
    gradients = [model.full_gradient(theta) for model in models]
    np.testing.assert_allclose(*gradients, rtol=1e-6)


def test_idx_arrays_of_any_number_of_axes():
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    content = bytes([0, 0, 8, 3]) + np.array([2, 3, 4], ">u4").tobytes() + images.tobytes()
    np.testing.assert_array_equal(mnist_idx.parse(content), images)
    labels = mnist_idx.parse(bytes([0, 0, 8, 1]) + np.array([2], ">u4").tobytes() + b"\x07\x09")
    assert labels.tolist() == [7, 9]
    labels[0] = 1  # a copy of its own, not a view of the file


def test_cifar_records_are_a_label_and_three_planes():
    image = np.arange(3 * 32 * 32).astype(np.uint8)
    X, y = cifar10_binary.parse(bytes([9]) + image.tobytes() + bytes([2]) + image[::-1].tobytes())
    assert (X.shape, X.dtype, y.tolist()) == ((2, 3, 32, 32), np.uint8, [9, 2])
    np.testing.assert_array_equal(X[0].ravel(), image)
    assert X[1, 0, 0, 0] == image[-1]
