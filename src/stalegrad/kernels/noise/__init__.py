"""Counter-based randomness: every random number is a pure function of what it is for.

``philox.py`` has the generator and its addresses, ``tiles.py`` the compiled normals of an update. There is no generator
state, here or elsewhere: a number is drawn again wherever it is needed.
"""

from stalegrad.kernels.noise.philox import (
    MAX_CHAINS,
    MAX_COUNT,
    MAX_REPEATS,
    MAX_SEED,
    MAX_UPDATES,
    MAX_WORKERS,
    Stream,
)
from stalegrad.kernels.noise.tiles import TILE, fill, fill_tile, normals, normals_of_updates, scratch

__all__ = [
    "MAX_CHAINS",
    "MAX_COUNT",
    "MAX_REPEATS",
    "MAX_SEED",
    "MAX_UPDATES",
    "MAX_WORKERS",
    "TILE",
    "Stream",
    "fill",
    "fill_tile",
    "normals",
    "normals_of_updates",
    "scratch",
]
