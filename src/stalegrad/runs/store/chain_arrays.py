"""The arrays of a chain as its record says that they must be, opened before anybody relies on them."""

from pathlib import Path

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.files import RESTORE
from stalegrad.protocol.run_record import RunRecord
from stalegrad.runs.store.arrays import StoredArray
from stalegrad.runs.store.checkpoint import Committed
from stalegrad.runs.store.folder import STATS, chain_folder


def chain_arrays(folder: Path, chain: int, of: Committed, record: RunRecord) -> tuple[StoredArray, StoredArray]:
    """The draws and the figures of a chain; :class:`StoreError` if they have not the model's shape and type.

    Where not all draws are kept there are none.
    """
    home, model = chain_folder(folder, chain), record.model
    return (
        _opened(home / "draws", of.draws if record.settings.keep == "all" else 0, model.size, model.dtype),
        _opened(home / "stats", of.draws, len(STATS), "float64"),
    )


def _opened(folder: Path, rows: int, width: int, dtype: str) -> StoredArray:
    array = StoredArray(folder, rows)
    if array.shape[1:] != (width,) or array.dtype != np.dtype(dtype):
        found, wanted = f"{array.dtype} in rows of {array.shape[1:]}", f"{dtype} in rows of {(width,)}"
        raise StoreError(f"the array {folder} is damaged: it holds {found}, and the run has {wanted}. {RESTORE}")
    return array
