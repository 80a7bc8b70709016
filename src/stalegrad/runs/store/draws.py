"""The draws of all chains on disk, as one array (chain, draw, parameter) that is read slice by slice."""

from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.runs.store.arrays import StoredArray, chosen_rows


class StoredDraws:
    """Looks like a NumPy array to code that only slices it: ``draws[0, 10:20]`` reads ten draws of the first chain.

    ``np.asarray(draws)`` reads everything; :meth:`Run.evaluate <stalegrad.runs.result.Run.evaluate>` goes block by
    block.

    Args:
        chains: the draws of each chain, (draw, parameter).
    """

    def __init__(self, chains: tuple[StoredArray, ...]) -> None:
        self._chains = chains
        self.shape: tuple[int, ...] = (len(chains), min(len(chain) for chain in chains), chains[0].shape[1])
        self.dtype: np.dtype[Any] = chains[0].dtype
        self.ndim = 3

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        keys = list(key) if isinstance(key, tuple) else [key]
        where = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        keys[where : where + 1] = [slice(None)] * (self.ndim - len(keys) + (where < len(keys)))
        which, draws, *rest = keys
        chosen = np.arange(self.shape[0])[which]
        kept = chosen_rows(draws, self.shape[1])  # counted among the draws that all chains have
        if chosen.ndim == 0:
            alone: Array = self._chains[chosen][(kept, *rest)]
            return alone
        return np.stack([self._chains[s][(kept, *rest)] for s in chosen])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)
