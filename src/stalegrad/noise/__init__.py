"""Counter-based randomness: every random number is a pure function of what it is for."""

from stalegrad.noise.philox import MAX_CHAINS, MAX_COUNT, MAX_REPEATS, MAX_UPDATES, MAX_WORKERS, Stream
from stalegrad.noise.tiles import TILE, fill_tile, normals, scratch

__all__ = [
    "MAX_CHAINS",
    "MAX_COUNT",
    "MAX_REPEATS",
    "MAX_UPDATES",
    "MAX_WORKERS",
    "TILE",
    "Stream",
    "fill_tile",
    "normals",
    "scratch",
]
