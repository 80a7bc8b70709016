"""What may stand in the description of a stored array, the file zarr.json of its folder.

A run's folder may have come from somebody else. Zarr has descriptions of other kinds, too, of which some make Python
objects out of a chunk's bytes, and so run what somebody has put there. Here an array is of Zarr's third format, of
numbers, in chunks of the codecs of :data:`CODECS`, and nothing else.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal import files
from stalegrad._internal.errors import StoreError


def _is_order(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value)) and sorted(value) == list(range(len(value)))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= 32 and all(map(_is_count, value))


CODECS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "transpose": {"order": _is_order},
    "bytes": {"endian": lambda value: value == "little"},
    "blosc": {
        "cname": lambda value: value == "zstd",
        "clevel": lambda value: _is_count(value) and value <= 9,
        "shuffle": lambda value: value in ("shuffle", "bitshuffle"),
        "typesize": lambda value: _is_count(value) and 1 <= value <= 8,
        "blocksize": lambda value: value == 0,
    },
    "crc32c": {},
}
"""The codecs that :func:`stalegrad.runs.store.arrays.create` writes, in the order in which they are applied, and what
must be set of each. All but the first are always there."""

LARGEST_CHUNK = 1 << 31
"""Bytes, which is what Blosc takes."""

TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
"""The types of entries: plain numbers of at most eight bytes."""

_KEYS: Mapping[str, Callable[[Any], bool]] = {
    "zarr_format": lambda value: value == 3,
    "node_type": lambda value: value == "array",
    "shape": _is_shape,
    "data_type": lambda value: isinstance(value, str) and value in TYPES,
    "chunk_grid": lambda value: (
        isinstance(value, dict)
        and value.keys() == {"name", "configuration"}
        and value["name"] == "regular"
        and isinstance(value["configuration"], dict)
        and value["configuration"].keys() == {"chunk_shape"}
        and _is_shape(value["configuration"]["chunk_shape"])
        and 0 not in value["configuration"]["chunk_shape"]
    ),
    "chunk_key_encoding": lambda value: value == {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": lambda value: isinstance(value, bool | int | float) and value == 0,
    "codecs": lambda value: isinstance(value, list),
    "attributes": lambda value: isinstance(value, dict),
    "storage_transformers": lambda value: value == [],
    "dimension_names": lambda value: value is None,
}
_OPTIONAL = {"attributes", "storage_transformers", "dimension_names"}


def described(folder: Path) -> dict[str, Any]:
    """An array's description; :class:`StoreError` unless it is one that this package writes."""
    path = folder / "zarr.json"
    if not path.exists() and any((folder / name).exists() for name in (".zarray", ".zgroup", ".zmetadata")):
        raise StoreError(_words(folder, "is described in Zarr's second format"))
    about = files.read_json(path)
    if not isinstance(about, dict):
        raise StoreError(_words(path, "is not a table"))
    for key in _KEYS.keys() - _OPTIONAL - about.keys():
        raise StoreError(_words(path, f"has no {key!r}"))
    for key, value in about.items():
        if key not in _KEYS:
            raise StoreError(_words(path, f"has {key!r}, which is not known"))
        if not _KEYS[key](value):
            raise StoreError(_words(path, f"has {key!r} = {_short(value)}"))
    _refuse_codecs(path, about["codecs"])
    chunk = about["chunk_grid"]["configuration"]["chunk_shape"]
    orders = [codec["configuration"]["order"] for codec in about["codecs"] if codec["name"] == "transpose"]
    if any(len(axes) != len(about["shape"]) for axes in (chunk, *orders)):
        raise StoreError(_words(path, "has chunks of another number of axes than the array"))
    if math.prod(chunk) * np.dtype(about["data_type"]).itemsize >= LARGEST_CHUNK:
        raise StoreError(_words(path, f"has chunks of {_short(chunk)}, which are larger than any that is written"))
    return dict(about)


def _refuse_codecs(path: Path, codecs: list[Any]) -> None:
    names = []
    for codec in codecs:
        if not isinstance(codec, dict) or not isinstance(codec.get("name"), str) or codec["name"] not in CODECS:
            raise StoreError(_words(path, f"has the codec {_short(codec)}, which is never written"))
        names.append(codec["name"])
        settings, allowed = codec.get("configuration", {}), CODECS[codec["name"]]
        extra = codec.keys() - {"name", "configuration"}
        if extra or not isinstance(settings, dict) or settings.keys() != allowed.keys() or not all(
            is_allowed(settings[key]) for key, is_allowed in allowed.items()
        ):  # fmt: skip
            raise StoreError(_words(path, f"has the codec {_short(codec)}, which is never written so"))
    if names not in (list(CODECS), list(CODECS)[1:]):
        raise StoreError(_words(path, f"has the codecs {_short(names)}, which are never written together"))


def _words(path: Path, problem: str) -> str:
    return (
        f"{path} {problem}. Arrays of a run are in Zarr's third format with the codecs {', '.join(CODECS)}; nothing "
        "else is read, because it could run programs. The store is damaged, or was not written by stalegrad"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
