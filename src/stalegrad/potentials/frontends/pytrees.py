"""Pytrees of parameters and data: names by path, which leaves are sampled, and priors as JAX follows them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.priors import FlatPrior, Laplace, Normal, Prior, StudentT

Pytree = Any

_BLOCK = 1000  # rows in one pass where all are wanted


class Parted(NamedTuple):
    """A pytree of parameters as those that are sampled and the rest."""

    structure: Any
    """Of the whole."""
    sampled: dict[str, Any]
    """The leaves that are sampled, by name, in the order of the pytree."""
    paths: tuple[str, ...]
    """Where they are, as Python would write it."""
    places: tuple[int, ...]
    """Where they are among all leaves."""
    rest: tuple[Any, ...]
    """The other leaves: arrays, which are constants, and functions or whatever else modules hold."""

    def whole(self, sampled: Sequence[Any], rest: Sequence[Any]) -> Pytree:
        """The pytree with these leaves."""
        leaves: list[Any] = [None] * (len(self.places) + len(self.rest))
        for place, leaf in zip(self.places, sampled, strict=True):
            leaves[place] = leaf
        others = iter(rest)
        taken = set(self.places)
        for place in range(len(leaves)):
            if place not in taken:
                leaves[place] = next(others)
        return jax.tree.unflatten(self.structure, leaves)


def part(params: Pytree, sample: str | Sequence[str] | None) -> Parted:
    """Which leaves are sampled: all numbers, or those whose names fit; functions and their like are never."""
    leaves, structure = jax.tree.flatten(params)
    names = leaf_names(params)
    numeric = [name for name, leaf in zip(names, leaves, strict=True) if is_number(leaf)]
    if not numeric:
        raise ArgumentError("params", params, "holds no parameters", "Give a pytree with at least one number.")
    patterns = ["*"] if sample is None else [sample] if isinstance(sample, str) else list(sample)
    for pattern in patterns if sample is not None and patterns else []:
        if not isinstance(pattern, str) or not any(fnmatchcase(name, pattern) for name in numeric):
            remedy = f"Give names, in which * stands for any characters. There are: {', '.join(numeric)}."
            raise ArgumentError("sample", sample, f"has {pattern!r}, which fits no parameter", remedy)
    chosen = [
        place
        for place, (name, leaf) in enumerate(zip(names, leaves, strict=True))
        if is_number(leaf) and any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    rest = tuple(
        jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
        for place, leaf in enumerate(leaves)
        if place not in set(chosen)
    )
    written = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    sampled = {names[place]: leaves[place] for place in chosen}
    return Parted(structure, sampled, tuple(written[place] for place in chosen), tuple(chosen), rest)


def is_number(leaf: Any) -> bool:
    """Whether a leaf is an array or a number, rather than a function, say."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | float | int) and not isinstance(leaf, bool)


def is_array(leaf: Any) -> bool:
    """Whether a leaf can be an argument of a compiled program."""
    return isinstance(leaf, jax.Array | np.ndarray)


def log_density(prior: FlatPrior, theta: Any) -> Any:
    """log p(θ) up to a constant, of a flat θ that JAX follows."""
    deviation = theta if prior.centre is None else theta - prior.centre
    total, start = 0.0, 0
    for law, end in zip(prior.of.values(), prior.ends, strict=True):
        total = total + _log_density(law, deviation[start:end])
        start = end
    return total


def _log_density(law: Prior, piece: Any) -> Any:
    first, *more = law.coefficients
    if isinstance(law, Normal):
        return -0.5 * first * jnp.sum(piece**2)
    if isinstance(law, Laplace):
        return -first * jnp.sum(jnp.abs(piece))
    if isinstance(law, StudentT):
        return -0.5 * first * jnp.sum(jnp.log1p(piece**2 / more[0]))
    return -0.5 * (first + piece.size) * jnp.log1p(jnp.sum(piece**2) / more[0])  # a shared scale


def form(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array that has no values."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def parameter_leaves(params: Pytree, paths: Sequence[str] | None = None) -> tuple[list[Any], Any]:
    """The leaves as arrays of finite floating-point numbers, and the structure; ``paths`` are their names in errors."""
    leaves = []
    found = jax.tree_util.tree_leaves_with_path(params)
    written = [jax.tree_util.keystr(path) for path, _ in found] if paths is None else paths
    for (_, leaf), path in zip(found, written, strict=True):
        name = f"params{path}"
        array = jnp.asarray(leaf)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            remedy = "Give floating-point parameters, or name those to sample: sample=."
            raise ArgumentError(name, leaf, f"is of type {array.dtype}", remedy)
        checks.finite_array(name, np.asarray(array, np.float64), np.dtype(np.float64))
        leaves.append(array)
    if not sum(leaf.size for leaf in leaves):
        raise ArgumentError("params", params, "holds no parameters", "Give a pytree with at least one number.")
    return leaves, jax.tree.structure(params)


def leaf_names(params: Pytree) -> list[str]:
    """The paths to the leaves, with dots between their steps."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [".".join(_key_name(entry) for entry in path) or "theta" for path in paths]


def _key_name(entry: Any) -> str:
    """One step of the path to a leaf, without brackets and quotes. (``keystr`` does that in later versions only.)"""
    match entry:
        case jax.tree_util.DictKey(key=name) | jax.tree_util.FlattenedIndexKey(key=name):
            return str(name)
        case jax.tree_util.SequenceKey(idx=place):
            return str(place)
        case jax.tree_util.GetAttrKey(name=name):
            return str(name)
        case _:
            return str(entry)


def evenly(count: int, most: int) -> IntArray:
    """At most so many of the numbers from 0 to count − 1, evenly chosen."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def blocks(rows: Pytree) -> list[Pytree]:
    """Rows in blocks, so that memory does not grow with their number."""
    count = jax.tree.leaves(rows)[0].shape[0]
    return [
        jax.tree.map(lambda leaf, first=first: leaf[first : first + _BLOCK], rows) for first in range(0, count, _BLOCK)
    ]


def joined(leaves: Any, axis: int) -> Array:
    """Blocks of rows as one array, in float64."""
    return np.concatenate([np.asarray(leaf, np.float64) for leaf in leaves], axis=axis)


def data_leaves(of: str, data: Pytree) -> tuple[Pytree, int]:
    """Data as arrays of JAX's, and how many there are."""
    sizes = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        name = f"{of}{jax.tree_util.keystr(path)}"
        if np.ndim(leaf) == 0:
            raise ArgumentError(name, leaf, "has no axis of data", "Give arrays whose first axis counts the data.")
        sizes[name] = np.shape(leaf)[0]
    if not sizes:
        raise ArgumentError(of, data, "holds no arrays", "Give a pytree with at least one array.")
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        remedy = "Give arrays whose first axes, which count the data, are equally long."
        raise ArgumentError(of, data, f"has first axes of different lengths ({found})", remedy)
    (n_data,) = set(sizes.values())
    if n_data == 0:
        raise ArgumentError(of, data, "holds no data", "Give at least one datum.")
    return jax.tree.map(jnp.asarray, data), n_data
