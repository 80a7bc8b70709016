"""MNIST: 70,000 images of handwritten digits, in files of the IDX format."""

from math import prod

import numpy as np

from stalegrad._internal.types import IntArray
from stalegrad.datasets.base import Dataset
from stalegrad.datasets.files import Download, File, read

PAGE = "http://yann.lecun.com/exdb/mnist/"
MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def _file(name: str, sha256: str, compressed: str) -> File:
    return File(name, sha256, Download(f"{name}.gz", compressed, tuple(f"{mirror}{name}.gz" for mirror in MIRRORS)))


FILES = (
    _file(
        "train-images-idx3-ubyte",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    _file(
        "train-labels-idx1-ubyte",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    _file(
        "t10k-images-idx3-ubyte",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    _file(
        "t10k-labels-idx1-ubyte",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)


def mnist() -> Dataset:
    """MNIST: 60,000 images of digits for training and 10,000 for testing.

    ``X`` and ``X_test`` are uint8 of shape (N, 28, 28), 0 for paper and 255 for ink; labels are 0 to 9 in uint8.
    """
    contents = read("mnist", FILES)
    X, y, X_test, y_test = (parse(contents[file.name]) for file in FILES)
    return Dataset("mnist", X, y, X_test, y_test, classes=tuple("0123456789"), page=PAGE)


def parse(content: bytes) -> IntArray:
    """The array in an IDX file of unsigned bytes: two zeros, 8 for the type, the number of axes, their lengths, data.

    >>> parse(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]))
    array([[7, 8, 9]], dtype=uint8)
    """
    axes = content[3]
    shape = tuple(int(side) for side in np.frombuffer(content, ">u4", axes, offset=4))
    return np.frombuffer(content, np.uint8, prod(shape), offset=4 + 4 * axes).reshape(shape).copy()
