"""Arrays that compiled loops use without counting references to them.

numba counts the references to every array that compiled code names, takes a row of or hands on, by atomic additions:
two hundred of them for one update of a model of 124 parameters, which took a third of its time. A loop whose caller
keeps its arguments until it returns need not count.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_code: Any = cgutils  # numba has no types


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same value; arrays in it, in tuples too, belong to nobody."""
    if isinstance(kind, types.Array):
        array: Any = context.make_array(kind)(context, builder, value)
        for owner in ("meminfo", "parent"):
            setattr(array, owner, _code.get_null_value(getattr(array, owner).type))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        entries: Any = kind
        for place, inner in enumerate(entries):
            entry = _without_owner(context, builder, inner, builder.extract_value(value, place))
            value = builder.insert_value(value, entry, place)
    return value


def _borrowed(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, value, arguments[0])

    return value(value), generate


borrowed: Any = intrinsic(_borrowed)
"""In compiled code: ``borrowed(value)``, an array or a tuple of whatever, for use until the function returns.

The caller of the function must hold the arrays for so long, as Python does. Never return one.
"""
