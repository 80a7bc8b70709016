"""The frozen part of a function in JAX: what it makes of a datum before anything that is sampled has a say.

A function of sampled numbers, frozen arrays and a datum is followed by JAX into a list of equations. The value of an
equation depends on some of the three. Those that depend on the datum and on frozen arrays, and not on what is sampled,
are the same at every θ: they need be computed once for each datum. Where an equation that depends on θ reads one of
them, it is a *feature*. So no module has to be taken apart, and it does not matter whose it is or how it is written: a
body with connections past its head has several features, and where what is sampled comes first there are none.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from stalegrad.potentials.frontends.pytrees import blocks

Pytree = Any
Function = Callable[[Pytree, Pytree, Pytree], Pytree]

_SAMPLED, _FROZEN, _DATUM = 1, 2, 4
_CALLS = ("jit", "pjit")  # the second until JAX 0.6
_PRODUCTS = ("dot_general", "conv_general_dilated")


class _Value:
    """The value of a variable, where it is computed, and what it depends on."""

    __slots__ = ("depends", "place", "value")

    def __init__(self, depends: int, value: Any = None) -> None:
        self.depends, self.value = depends, value
        self.place: int | None = None  # among the features

    @property
    def once(self) -> bool:
        """Whether it is the same at every θ, and costs something."""
        return self.depends == _FROZEN | _DATUM


class _Walk:
    """One way through the equations: to the features, or, given those, to the function's values.

    Both ways meet the features in the same order.
    """

    def __init__(self, given: Sequence[Any] | None) -> None:
        self.given = given
        self.features: list[_Value] = []
        self.deep = False

    def through(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[_Value]) -> list[_Value]:
        """The values of the outputs."""
        met = dict(zip(jaxpr.constvars, (_Value(0, each) for each in constants), strict=True))
        met |= dict(zip(jaxpr.invars, arguments, strict=True))

        def value(atom: Any) -> _Value:
            return _Value(0, atom.val) if hasattr(atom, "val") else met[atom]

        for equation in jaxpr.eqns:
            read = [value(atom) for atom in equation.invars]
            name = equation.primitive.name
            depends = 0
            for each in read:
                depends |= each.depends
            self.deep |= name in _PRODUCTS and sum(each.depends & _SAMPLED for each in read) > 1
            if name in _CALLS and depends & _SAMPLED:
                inner = equation.params["jaxpr"]
                made = self.through(inner.jaxpr, inner.consts, read)
            else:
                made = self._made(equation, read, depends)
            met |= dict(zip(equation.outvars, made, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def _made(self, equation: Any, read: Sequence[_Value], depends: int) -> list[_Value]:
        if depends & _SAMPLED:
            for each in read:
                self.use(each)
        made = [_Value(depends) for _ in equation.outvars]
        if not depends & _SAMPLED if self.given is None else depends != _FROZEN | _DATUM:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # apart in older versions of JAX
            with equation.ctx.manager:
                found = equation.primitive.bind(*functions, *(each.value for each in read), **parameters)
            for each, value in zip(made, found if equation.primitive.multiple_results else [found], strict=True):
                each.value = value
        return made

    def use(self, each: _Value) -> None:
        """Make it a feature, if it is one and was not met before."""
        if each.once and each.place is None:
            each.place = len(self.features)
            self.features.append(each)
            if self.given is not None:
                each.value = self.given[each.place]


class Cut:
    """A function of (sampled, frozen, datum) in two parts: up to the features, and from there on.

    Args:
        function: of three pytrees of arrays, which JAX can follow.
        sampled: such a pytree, or forms of arrays.
        frozen: the same.
        datum: one.
    """

    def __init__(self, function: Function, sampled: Pytree, frozen: Pytree, datum: Pytree) -> None:
        self._closed, form = jax.make_jaxpr(function, return_shape=True)(sampled, frozen, datum)
        self._outputs, self._datum = jax.tree.structure(form), jax.tree.leaves(datum)
        self._sampled = len(jax.tree.leaves(sampled))
        self.has_effects = bool(self._closed.effects)
        """Whether it prints or calls back, which it would no longer do each time."""
        self.is_deep = False
        """Whether it multiplies matrices, or convolves arrays, both of which depend on what is sampled."""
        self.forms: list[Any] = jax.eval_shape(self.features, frozen, datum)
        """Of the features of one datum, of which there may be none."""
        self.read = self._leaves_read(sampled, frozen)
        """The places of the datum's leaves that are needed beside the features."""

    @property
    def bytes_a_datum(self) -> int:
        """Memory that the features of one datum take."""
        return sum(form.size * form.dtype.itemsize for form in self.forms)

    def features(self, frozen: Pytree, datum: Pytree) -> list[Any]:
        """What the frozen part makes of one datum, in the order of :attr:`forms`."""
        walk = _Walk(None)
        self._through(walk, [None] * self._sampled, frozen, jax.tree.leaves(datum))
        self.is_deep = walk.deep
        return [each.value for each in walk.features]

    def rest(self, sampled: Pytree, frozen: Pytree, leaves: dict[int, Any], features: Sequence[Any]) -> Pytree:
        """The function's value from the features of a datum, and those of its leaves that are :attr:`read`."""
        datum = [
            leaves[place] if place in leaves else jnp.zeros(form.shape, form.dtype)
            for place, form in enumerate(self._datum)
        ]
        outputs = self._through(_Walk(features), jax.tree.leaves(sampled), frozen, datum)
        return jax.tree.unflatten(self._outputs, [each.value for each in outputs])

    def _through(self, walk: _Walk, sampled: Sequence[Any], frozen: Pytree, datum: Sequence[Any]) -> list[_Value]:
        kinds = ((_SAMPLED, sampled), (_FROZEN, jax.tree.leaves(frozen)), (_DATUM, datum))
        arguments = [_Value(depends, leaf) for depends, leaves in kinds for leaf in leaves]
        outputs = walk.through(self._closed.jaxpr, self._closed.consts, arguments)
        for each in outputs:
            walk.use(each)
        return outputs

    def _leaves_read(self, sampled: Pytree, frozen: Pytree) -> tuple[int, ...]:
        """By going back from the outputs through all that they need."""
        datum = dict(enumerate(self._datum))
        jaxpr = jax.make_jaxpr(self.rest)(sampled, frozen, datum, self.forms).jaxpr
        needed = {atom for atom in jaxpr.outvars if not hasattr(atom, "val")}
        for equation in reversed(jaxpr.eqns):
            if needed & set(equation.outvars):
                needed |= {atom for atom in equation.invars if not hasattr(atom, "val")}
        first = self._sampled + len(jax.tree.leaves(frozen))
        places = range(len(self._datum))
        return tuple(place for place in places if jaxpr.invars[first + place] in needed)


class Rows(NamedTuple):
    """Data as gradients read them: all leaves of them, or features of a frozen body and what else is needed."""

    leaves: dict[int, Any]
    """By their places."""
    features: list[Any]


def featured(cut: Cut, constants: Any, rows: Pytree) -> Rows:
    """Rows after the frozen body: their features, and the leaves that are read beside them."""
    compiled = jax.jit(jax.vmap(cut.features, in_axes=(None, 0)))
    parts = [compiled(constants, block) for block in blocks(rows)]
    leaves = jax.tree.leaves(rows)
    return Rows(
        {place: leaves[place] for place in cut.read}, [jnp.concatenate(part) for part in zip(*parts, strict=True)]
    )
