"""CIFAR-10: small colour images of ten kinds of things."""

import numpy as np

from stalegrad._internal.types import IntArray
from stalegrad.datasets.base import Dataset
from stalegrad.datasets.files import Download, File, read

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
ARCHIVE = Download(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
)
TRAIN = (
    File("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", ARCHIVE),
    File("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", ARCHIVE),
    File("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", ARCHIVE),
    File("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", ARCHIVE),
    File("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", ARCHIVE),
)
TEST = File("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", ARCHIVE)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE = (3, 32, 32)


def cifar10() -> Dataset:
    """CIFAR-10: 50,000 images for training and 10,000 for testing.

    ``X`` and ``X_test`` are uint8 of shape (N, 3, 32, 32): red, green and blue planes, row by row. Labels are 0 to 9 in
    uint8, named in ``classes``.
    """
    contents = read("cifar10", (*TRAIN, TEST))
    X, y = parse(b"".join(contents[file.name] for file in TRAIN))
    X_test, y_test = parse(contents[TEST.name])
    return Dataset("cifar10", X, y, X_test, y_test, classes=CLASSES, page=PAGE)


def parse(content: bytes) -> tuple[IntArray, IntArray]:
    """Images and labels: each record is a label byte, then the image's."""
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + int(np.prod(IMAGE)))
    return np.ascontiguousarray(records[:, 1:]).reshape(-1, *IMAGE), records[:, 0].copy()
