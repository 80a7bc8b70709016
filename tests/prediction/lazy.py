"""Draws that are made when they are asked for, as draws on disk are read, and that know how many of them are alive."""

import weakref

import numpy as np


class LazyDraws:
    """(chain, draw, parameter); the entries of draw l of chain s are (l mod 7) + s."""

    def __init__(self, chains, draws, size):
        self.shape, self.ndim, self.dtype = (chains, draws, size), 3, np.dtype(np.float32)
        self.alive = self.most = 0

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * 4

    def __getitem__(self, index):
        chains, draws = index
        rows = np.arange(self.shape[1])[draws] % 7 + np.arange(self.shape[0])[chains, None]
        block = np.repeat(rows[:, :, None].astype(np.float32), self.shape[2], axis=2)
        self.alive += block.nbytes
        self.most = max(self.most, self.alive)
        weakref.finalize(block, self._forget, block.nbytes)
        return block

    def _forget(self, nbytes):
        self.alive -= nbytes

    def __array__(self, *arguments, **options):
        raise AssertionError("all draws were read at once")
