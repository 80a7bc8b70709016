"""The public data sets of the experiments: downloaded once, verified by sha256, cached.

>>> import stalegrad as sg
>>> data = sg.datasets.a9a()  # doctest: +SKIP
>>> model = sg.potentials.Logistic(data.X, data.y, batch_size=50, intercept=True)  # doctest: +SKIP

Without a network, or to share one copy, name a folder in the environment variable ``STALEGRAD_DATA``: its subfolders
``a9a``, ``mnist`` and ``cifar10`` may hold the files as they are, or compressed as .gz or .xz.
"""

from stalegrad.datasets.a9a_libsvm import a9a
from stalegrad.datasets.base import Dataset
from stalegrad.datasets.cifar10_binary import cifar10
from stalegrad.datasets.mnist_idx import mnist

__all__ = ["Dataset", "a9a", "cifar10", "mnist"]
